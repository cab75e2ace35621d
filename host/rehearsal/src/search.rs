//! What a search tries: settings with their values. A file of people.

use std::collections::BTreeSet;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use serde_json::Value;
use windlass_fleeting::{Arm, SettingError, SettingKey};
use windlass_policy::{Mistake, read_toml};

/// The most combinations of values.
const MAX_COMBINATIONS: usize = 1_000_000;
/// The most values of a range.
const MAX_VALUES: i64 = 1_000;

/// Settings, each with the values to try. Read from TOML with [`Search::parse`].
#[derive(Clone, Debug)]
pub struct Search {
    settings: Vec<(SettingKey, Vec<Value>)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "setting")]
    settings: Vec<Written>,
}

/// A setting, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Its place below `[runners.autoscaler]`.
    key: String,
    #[serde(default)]
    values: Vec<Value>,
    /// Instead of values, a range of whole numbers.
    from: Option<i64>,
    to: Option<i64>,
    step: Option<i64>,
}

/// Why a search cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct SearchError(Vec<String>);

impl SearchError {
    /// Each problem, with its place.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.0
    }
}

/// Settings with one value each.
pub(crate) type Settings = Vec<(SettingKey, Value)>;

impl Search {
    /// Reads a search from TOML.
    ///
    /// # Errors
    /// It is not TOML, has other keys, or names what cannot be set.
    pub fn parse(text: &str) -> Result<Self, SearchError> {
        read_toml(text, Self::of).map_err(|mistakes| SearchError(mistakes.iter().map(ToString::to_string).collect()))
    }

    fn of(file: File) -> Result<Self, Vec<Mistake>> {
        let (mut settings, mut problems, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        if file.settings.is_empty() {
            problems.push(Mistake::new("setting", "nothing is searched: write a table [[setting]]"));
        }
        for (index, written) in file.settings.into_iter().enumerate() {
            let mut wrong =
                |key: &str, words: String| problems.push(Mistake::new(format!("setting[{index}].{key}"), words));
            if !seen.insert(written.key.clone()) {
                wrong("key", format!("{} stands twice", written.key));
            }
            match (written.key.parse(), written.values()) {
                (Ok(key), Ok(values)) => settings.push((key, values)),
                (key, values) => {
                    key.err().into_iter().for_each(|error: SettingError| wrong("key", error.to_string()));
                    values.err().into_iter().for_each(|words| wrong("values", words));
                }
            }
        }
        let search = Self { settings };
        if problems.is_empty() && search.combinations().is_none() {
            problems.push(Mistake::new("setting", format!("there are more than {MAX_COMBINATIONS} combinations")));
        }
        if problems.is_empty() { Ok(search) } else { Err(problems) }
    }

    /// The settings that are searched.
    pub fn keys(&self) -> impl Iterator<Item = &SettingKey> {
        self.settings.iter().map(|(key, _)| key)
    }

    /// How many combinations of values there are. None: too many.
    fn combinations(&self) -> Option<usize> {
        let product = |so_far: usize, (_, values): &(SettingKey, Vec<Value>)| so_far.checked_mul(values.len());
        self.settings.iter().try_fold(1, product).filter(|all| *all <= MAX_COMBINATIONS)
    }

    /// The combinations to try, at most so many, and how many there are. If there are more, the seed draws them. The one
    /// that the arm has already is none of them.
    pub(crate) fn drawn(&self, arm: &Arm, most: usize, seed: u64) -> Result<(Vec<Settings>, usize), SettingError> {
        let mut all = Vec::new();
        for number in 0..self.combinations().unwrap_or_default() {
            let settings = self.combination(number);
            let mut is_new = false;
            for (key, value) in &settings {
                is_new |= arm.setting(key)? != Some(value);
            }
            if is_new {
                all.push(number);
            }
        }
        let total = all.len();
        if total > most {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut drawn = rand::seq::index::sample(&mut random, total, most).into_vec();
            drawn.sort_unstable();
            all = drawn.into_iter().map(|position| all[position]).collect();
        }
        Ok((all.into_iter().map(|number| self.combination(number)).collect(), total))
    }

    /// The combination with this number. The values of the last setting change first.
    fn combination(&self, mut number: usize) -> Settings {
        let mut settings: Settings = Vec::with_capacity(self.settings.len());
        for (key, values) in self.settings.iter().rev() {
            settings.push((key.clone(), values[number % values.len()].clone()));
            number /= values.len();
        }
        settings.reverse();
        settings
    }
}

impl Written {
    fn values(&self) -> Result<Vec<Value>, String> {
        match (self.values.as_slice(), self.from, self.to) {
            ([_, ..], None, None) if self.step.is_none() => Ok(self.values.clone()),
            ([], Some(from), Some(to)) => {
                let step = self.step.unwrap_or(1);
                let count = to.checked_sub(from).filter(|span| *span >= 0 && step >= 1).map(|span| span / step);
                match count {
                    Some(count) if count < MAX_VALUES => Ok((0..=count).map(|it| (from + it * step).into()).collect()),
                    Some(_) => Err(format!("there are more than {MAX_VALUES}")),
                    None => Err("from must not be above to, and step must be 1 or more".to_owned()),
                }
            }
            _ => Err("give values = [...], or from and to".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm() -> Arm {
        let text = "[[runners]]\n[runners.autoscaler]\nplugin = 'scaleway'\nmax_use_count = 1\n\
            [runners.autoscaler.plugin_config]\nname = 'ci'\n[[runners.autoscaler.policy]]\nidle_count = 1\n";
        Arm::parse(text, None).unwrap()
    }

    const SEARCH: &str = "[[setting]]\nkey = 'max_use_count'\nvalues = [1, 3]\n\
        [[setting]]\nkey = 'policy[0].idle_count'\nfrom = 0\nto = 4\nstep = 2\n";

    fn words(settings: &Settings) -> String {
        settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_combination_is_tried_but_the_one_that_is_already_there() {
        let (all, total) = Search::parse(SEARCH).unwrap().drawn(&arm(), 100, 1).unwrap();
        let all: Vec<String> = all.iter().map(words).collect();
        assert_eq!((all.len(), total, all[3].as_str()), (6, 6, "max_use_count=3 policy[0].idle_count=0"));
        let here = Search::parse(&SEARCH.replace("from = 0", "from = 1")).unwrap();
        assert_eq!(here.drawn(&arm(), 100, 1).unwrap().1, 3, "1 and 1 stand in the file");
    }

    #[test]
    fn a_seed_draws_from_more_combinations_than_are_tried() {
        let search = Search::parse(SEARCH).unwrap();
        let of = |seed| search.drawn(&arm(), 3, seed).unwrap().0.iter().map(words).collect::<Vec<_>>();
        assert_eq!((of(1).len(), of(1)), (3, of(1)));
        assert!((2..9).any(|seed| of(seed) != of(1)));
    }

    #[test]
    fn all_mistakes_of_a_search_are_found_at_once() {
        let wrong = "[[setting]]\nkey = 'policy[0].idle_cout'\nvalues = [1]\n[[setting]]\nkey = 'max_use_count'\n\
            [[setting]]\nkey = 'max_use_count'\nfrom = 3\nto = 1\n[[setting]]\nkey = 'max_instances'\nfrom = 0\nto = 5000\n";
        let problems = Search::parse(wrong).unwrap_err();
        for (words, problem) in [
            "setting[0].key: there is no setting policy[0].idle_cout; did you mean idle_count?",
            "setting[1].values: give values = [...], or from and to",
            "setting[2].key: max_use_count stands twice",
            "setting[2].values: from must not be above to",
            "setting[3].values: there are more than 1000",
        ]
        .into_iter()
        .zip(problems.problems())
        {
            assert!(problem.starts_with(words), "{problem}");
        }
        assert_eq!(problems.problems().len(), 5, "{problems}");
        let typo = Search::parse("[[setting]]\nkeys = 'a'\n").unwrap_err().to_string();
        assert!(typo.contains("line 2: there is no key `keys` here"), "{typo}");
    }
}
