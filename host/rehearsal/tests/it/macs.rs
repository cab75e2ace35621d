//! Groups of Macs: pools and wipes, hosts that break, and what means nothing to them.

use windlass_rehearsal::{FIGURES, Rehearsal};

use crate::support::{Configuration, configuration, listed, rehearse, scenario, with_arms};

const PRICE: &str = "[[offer]]\ntype = 'M4-S'\nhourly_price = 0.1\n";

/// A wipe after each job, and at most so many hosts.
pub(crate) fn macs(most: u32) -> Configuration {
    configuration()
        .with_autoscaler(&format!("max_instances = {most}\nmax_use_count = 1\ninstance_acquire_timeout = '3h'"))
        .with_plugin("kind = 'apple-silicon'\nzone = 'fr-par-1'\nserver_type = 'M4-S'\npool_prefix = 'pool-'")
        .with_idle("idle_count = 0")
}

fn figure(rehearsal: &Rehearsal, arm: usize, name: &str) -> f64 {
    assert!(FIGURES.iter().any(|figure| figure.name == name), "{name}");
    rehearsal.arms[arm].figures.iter().find(|spread| spread.figure == name).unwrap().mean
}

#[test]
fn jobs_wait_less_with_more_hosts_which_cost_whether_they_work_or_not() {
    let morning = scenario(2, 6, PRICE);
    let run = |arms: &[(&str, Configuration)]| rehearse(&morning, arms, &[1], &["wait_p95 > 900"]);
    let both = run(&[("one", macs(1)), ("five", macs(5))]);
    let violators: Vec<&str> = both.laws[0].violations.iter().map(|violation| violation.arm.as_str()).collect();
    assert_eq!(violators, ["one"], "{:#?}", both.arms);
    let (one, five) = (|name: &str| figure(&both, 0, name), |name: &str| figure(&both, 1, name));
    for arm in [0, 1] {
        let of = |name: &str| figure(&both, arm, name);
        assert_eq!((of("left"), of("unfinished"), of("lost"), of("timed_out")), (0.0, 0.0, 0.0, 0.0));
        assert_eq!((of("finished"), of("removals")), (of("jobs"), of("jobs")), "a release after each job");
    }
    let [hours, cost] = ["server_hours", "cost"].map(five);
    assert!((9.99..11.0).contains(&hours), "five hosts for two hours, and the last jobs: {hours}");
    assert!((cost - 0.1 * hours).abs() < 1e-6 && five("idle_share") > one("idle_share"), "{cost}");
    assert!((2.0..3.0).contains(&one("server_hours")), "in the pool it costs nothing after the two hours");
    assert!(one("out_of_stock") > 0.0, "claims that find no host while it is wiped");
    let outcome = &both.arms[1].outcomes[0];
    assert!(outcome.notes.iter().any(|note| note.contains("so there are 5 hosts")), "{:?}", outcome.notes);
    assert_eq!((outcome.events[0].what, outcome.events[0].types.as_slice()), ("claim", &["M4-S".to_owned()][..]));
    let again = run(&[("five", macs(5))]);
    assert_eq!(format!("{outcome:?}"), format!("{:?}", again.arms[0].outcomes[0]));
}

#[test]
fn a_job_waits_for_the_wipe_of_the_pools_only_host_and_longer_while_wipes_are_slow() {
    let worst = |more: &str| {
        let pool = "[[pool]]\nhosts = 1\n[[offer]]\nreinstall_seconds = [600, 600]\n";
        let day = listed(1, &[(1, 5), (2, 5)], &format!("{pool}{more}"));
        let rehearsal = rehearse(&day, &[("a", macs(3))], &[1], &[]);
        assert_eq!((figure(&rehearsal, 0, "finished"), figure(&rehearsal, 0, "left")), (2.0, 0.0));
        assert_eq!(figure(&rehearsal, 0, "most_servers"), 1.0, "the pool has one");
        let notes = rehearsal.arms[0].notes();
        assert!(notes.iter().any(|note| note.starts_with("the price of M4-S is not known")), "{notes:?}");
        figure(&rehearsal, 0, "wait_worst")
    };
    let slow = "[[incident]]\nkind = 'slow-boots'\nat = '0s'\nlasts = '1h'\nfactor = 2.0\n";
    let (usual, slow) = (worst(""), worst(slow));
    // Five minutes of the first job are left, or four; then the wipe, and a pause after claims that found nothing.
    assert!((840.0..1_300.0).contains(&usual) && slow > usual + 500.0, "{usual} {slow}");
}

#[test]
fn hosts_that_break_lose_their_job_and_those_in_the_pool_are_claimed_no_more() {
    let broken = "[[pool]]\nhosts = 3\n[[incident]]\nkind = 'servers-stopped'\nat = '10m'\nshare = 1.0\n\
                  [[offer]]\nreinstall_seconds = [300, 300]\n";
    let rehearsal = rehearse(&listed(1, &[(1, 20), (30, 5), (30, 5)], broken), &[("a", macs(3))], &[1], &[]);
    let of = |name: &str| figure(&rehearsal, 0, name);
    assert_eq!((of("lost"), of("reaps"), of("finished"), of("left")), (1.0, 1.0, 2.0, 0.0));
    assert!(of("wait_worst") > 600.0, "the wipe repaired only the claimed one: {}", of("wait_worst"));
}

#[test]
fn an_ordered_host_costs_until_scaleway_deletes_it_after_its_first_day() {
    let orders = macs(1).with_plugin("kind = 'apple-silicon'\nzone = 'fr-par-1'\nserver_type = 'M4-S'");
    let rehearsal = rehearse(&listed(1, &[(1, 5)], PRICE), &[("a", orders)], &[1], &[]);
    let of = |name: &str| figure(&rehearsal, 0, name);
    assert_eq!((of("finished"), of("left"), of("removals")), (1.0, 0.0, 1.0));
    assert!((2.4..2.41).contains(&of("cost")), "{}", of("cost"));
}

#[test]
fn a_policy_that_keeps_every_mac_is_caught_by_a_law_about_what_is_left() {
    let keeps = macs(2).with_rules("release", "[[rules]]\nwhen = \"true\"\nanswer = 'keep'");
    let arms = [("usual", macs(2)), ("keeps", keeps)];
    let rehearsal = rehearse(&listed(1, &[(1, 5)], PRICE), &arms, &[1], &["left > 0"]);
    assert_eq!((figure(&rehearsal, 0, "left"), figure(&rehearsal, 1, "left")), (0.0, 1.0));
    assert!(!rehearsal.laws[0].holds && !rehearsal.is_good());
}

#[test]
fn what_means_nothing_to_a_kind_of_group_is_refused_all_at_once() {
    let refusal = |more: &str, arm: Configuration| {
        let day = listed(1, &[(1, 5)], more);
        let run = |arms: &[windlass_rehearsal::NamedArm], rehearser: &windlass_fleeting::Rehearser| {
            rehearser.rehearse(&day, &arms[0].arm, 1).unwrap_err().to_string()
        };
        with_arms(&[("a", arm)], run)
    };
    let reclaim = "[[incident]]\nkind = 'spot-reclaim'\nat = '0s'\nlasts = '1m'\nshare = 0.5\n";
    let stock = "[[incident]]\nkind = 'zone-out-of-stock'\nat = '0s'\nlasts = '1m'\n";
    let offer = "[[offer]]\ntype = 'M4-S'\nstock = 'scarce'\nboot_seconds = [1, 2]\n";
    let elsewhere = "[[incident]]\nkind = 'zone-out-of-stock'\nat = '0s'\nlasts = '1m'\nzone = 'nl-ams-1'\n";
    let pool = "[[pool]]\ntype = 'M2-M'\nhosts = 2\n";
    let said = refusal(&format!("{offer}{reclaim}{stock}{elsewhere}{pool}"), macs(2));
    for words in [
        "5 mistakes",
        "offer[0].stock: remove it, or set order = true in plugin_config",
        "offer[0].boot_seconds: ",
        "incident[0].kind: only instances are reclaimed; with servers-stopped, Macs break",
        "incident[1].kind: remove it, or set order = true in plugin_config",
        "pool: add one of M4-S in fr-par-1",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let said = refusal(&format!("{pool}[[offer]]\nreinstall_seconds = [1, 2]\n"), configuration());
    assert!(
        said.contains("pool: remove it: a group of instances") && said.contains("offer[0].reinstall_seconds: "),
        "{said}"
    );
}
