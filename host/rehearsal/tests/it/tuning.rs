//! Searches for settings: what is chosen is better on seeds that the search has not seen.

use windlass_fleeting::Scenario;
use windlass_rehearsal::{FIGURES, Law, Search, TuneOptions, Tuning};

use crate::support::{Configuration, configuration, scenario, with_arms};

const SLOW: &str = "[[offer]]\nboot_seconds = [30, 50]\n";
const SEARCH: &str = "[[setting]]\nkey = 'policy[0].idle_count'\nvalues = [0, 2]\n\
    [[setting]]\nkey = 'policy[0].idle_time'\nvalues = ['2m']\n";

fn tune(configuration: Configuration, scenarios: &[Scenario], law: &str, seeds: usize) -> Tuning {
    let laws = [Law::never(law).unwrap()];
    let goal = FIGURES.iter().find(|figure| figure.name == "cost").unwrap();
    let options = TuneOptions { goal, candidates: 64, seed: 1, seeds };
    let search = Search::parse(SEARCH).unwrap();
    with_arms(&[("today", configuration)], |arms, rehearser| {
        Tuning::run(scenarios, &arms[0], &search, &laws, options, rehearser, &|_, _| {}).unwrap()
    })
}

/// A figure of both arms on the seeds that were held out: as it is, and tuned.
fn held_out(tuning: &Tuning, name: &str) -> [f64; 2] {
    let arms = &tuning.held_out[0].arms;
    [0, 1].map(|arm: usize| arms[arm].figures.iter().find(|it| it.figure == name).unwrap().mean)
}

#[test]
fn tuned_settings_beat_the_default_on_held_out_seeds() {
    // The runner asks less often than it would by default, and the test takes less time.
    let calm = "max_instances = 10\nupdate_interval_when_expecting = '10s'";
    let generous = configuration().with_idle("idle_count = 5\nidle_time = '1h'").with_autoscaler(calm);
    let tuning = tune(generous, &[scenario(1, 10, SLOW)], "wait_p95 > 45", 2);
    let ([cost, tuned_cost], [_, wait]) = (held_out(&tuning, "cost"), held_out(&tuning, "wait_p95"));
    assert!(tuning.is_good() && tuned_cost < 0.8 * cost && wait <= 45.0, "{:#?}", tuning.candidates);
    assert_eq!((tuning.seeds.as_slice(), tuning.held_out_seeds.as_slice()), (&[1, 2][..], &[3, 4][..]));
    let [chosen, others @ ..] = tuning.candidates.as_slice() else { panic!("no candidates") };
    assert!(chosen.is_chosen && chosen.is_on_front && !others.iter().any(|it| it.is_chosen), "{chosen:#?}");
    // Three with one seed, two of them with a second one, and the default in both rounds.
    assert_eq!((tuning.candidates.len(), tuning.combinations), (3, 2));
    assert!((5..=6).contains(&tuning.rehearsals), "{}", tuning.rehearsals);
    let evidence = tuning.evidence();
    for words in ["never wait_p95 > 45", "policy[0].idle_count = ", "(was 5)", "seeds 3 to 4", "instead of EUR"] {
        assert!(evidence.contains(words), "{words}: {evidence}");
    }
    assert!(evidence.lines().all(|line| line.starts_with("# ")), "{evidence}");
    let page = tuning.page();
    assert_eq!(page.matches("<circle").count(), 3, "a point for each candidate");
    for outside in ["http://", "https://", "<script", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn settings_have_to_keep_the_laws_in_every_scenario() {
    let scenarios = [scenario(1, 4, SLOW), scenario(1, 24, SLOW)];
    let tuning = tune(configuration(), &scenarios, "jobs > 15", 1);
    assert!(!tuning.is_good() && tuning.candidates.iter().all(|it| it.violations > 0), "{:#?}", tuning.candidates);
    let kept: Vec<bool> = tuning.held_out.iter().map(|it| it.laws.iter().all(|law| law.holds)).collect();
    assert_eq!((tuning.scenarios.len(), kept), (2, vec![true, false]));
}
