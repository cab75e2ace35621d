//! Searches for settings: what is chosen is better on seeds that the search has not seen.

use windlass_rehearsal::{FIGURES, Law, Search, TuneOptions, Tuning};

use crate::support::{Configuration, configuration, scenario, with_arms};

const SLOW: &str = "[[offer]]\nboot_seconds = [60, 90]\n";
const SEARCH: &str = "[[setting]]\nkey = 'policy[0].idle_count'\nvalues = [0, 2, 4]\n\
    [[setting]]\nkey = 'policy[0].idle_time'\nvalues = ['2m', '30m']\n";

fn tune(configuration: Configuration, law: &str) -> Tuning {
    let scenario = scenario(1, 10, SLOW);
    let laws = [Law::never(law).unwrap()];
    let goal = FIGURES.iter().find(|figure| figure.name == "cost").unwrap();
    let options = TuneOptions { goal, candidates: 64, seed: 1, seeds: 2 };
    let search = Search::parse(SEARCH).unwrap();
    with_arms(&[("today", configuration)], |arms, rehearser| {
        Tuning::run(&[scenario], &arms[0], &search, &laws, options, rehearser, &|_, _| {}).unwrap()
    })
}

/// A figure of both arms on the seeds that were held out: as it is, and tuned.
fn held_out(tuning: &Tuning, name: &str) -> [f64; 2] {
    let arms = &tuning.held_out[0].arms;
    [0, 1].map(|arm: usize| arms[arm].figures.iter().find(|it| it.figure == name).unwrap().mean)
}

#[test]
fn tuned_settings_beat_the_default_on_held_out_seeds() {
    let generous = configuration().with_idle("idle_count = 5\nidle_time = '1h'").with_autoscaler("max_instances = 10");
    let tuning = tune(generous, "wait_p95 > 60");
    let ([cost, tuned_cost], [_, wait]) = (held_out(&tuning, "cost"), held_out(&tuning, "wait_p95"));
    assert!(tuning.is_good() && tuned_cost < 0.8 * cost && wait <= 60.0, "{:#?}", tuning.candidates);
    assert_eq!((tuning.seeds.as_slice(), tuning.held_out_seeds.as_slice()), (&[1, 2][..], &[3, 4][..]));
    let [chosen, others @ ..] = tuning.candidates.as_slice() else { panic!("no candidates") };
    assert!(chosen.is_chosen && chosen.is_on_front && !others.iter().any(|it| it.is_chosen), "{chosen:#?}");
    // Seven with one seed, four of them with two, and the default in both rounds.
    assert_eq!((tuning.candidates.len(), tuning.combinations), (7, 6));
    assert!((11..=12).contains(&tuning.rehearsals), "{}", tuning.rehearsals);
    let evidence = tuning.evidence();
    for words in ["never wait_p95 > 60", "policy[0].idle_count = ", "(was 5)", "seeds 3 to 4", "instead of EUR"] {
        assert!(evidence.contains(words), "{words}: {evidence}");
    }
    assert!(evidence.lines().all(|line| line.starts_with("# ")), "{evidence}");
    let page = tuning.page();
    assert_eq!(page.matches("<circle").count(), 7, "a point for each candidate");
    for outside in ["http://", "https://", "<script", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn what_no_settings_can_keep_is_not_good() {
    let tuning = tune(configuration(), "wait_p50 >= 0");
    assert!(!tuning.is_good() && tuning.candidates.iter().all(|it| it.violations > 0), "{:#?}", tuning.candidates);
}
