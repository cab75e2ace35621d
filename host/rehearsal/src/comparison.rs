//! Arms against the first one, seed by seed.

use serde::{Deserialize, Serialize};
use windlass_fleeting::Event;

use crate::figure::{Figure, Word, figure_name};
use crate::outcome::Outcome;
use crate::run::ArmOutcomes;

/// The two-sided 95 % quantiles of Student's t distribution, by degrees of freedom from 1. Beyond them it is close to
/// the normal distribution's.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
const NORMAL: f64 = 1.960;
/// Arms did the same if they did it within so many milliseconds: their calls take different times.
const SAME: u64 = 15_000;

/// How a figure of an arm differs from that of the first arm, on average over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    pub arm: String,
    #[serde(deserialize_with = "figure_name")]
    pub figure: Word,
    /// The arm's mean without the first arm's.
    pub mean: f64,
    /// The bounds of the 95 % confidence interval. Absent with one seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// Whether the interval has no zero in it.
    pub is_certain: bool,
}

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Difference {
    /// The difference for people: `+3.0 s (+1.0 s to +5.0 s)`.
    #[must_use]
    pub fn words(&self, figure: &Figure) -> String {
        let signed = |value: f64| {
            let words = figure.words(value.abs());
            // What is rounded to zero has no sign.
            let is_zero = !words.contains(|letter: char| matches!(letter, '1'..='9'));
            let sign = if is_zero {
                ""
            } else if value > 0.0 {
                "+"
            } else {
                "-"
            };
            format!("{sign}{words}")
        };
        match self.interval {
            Some(interval) if interval.low < interval.high => {
                let certain = if self.is_certain { "" } else { ", not certain" };
                format!("{} ({} to {}{certain})", signed(self.mean), signed(interval.low), signed(interval.high))
            }
            _ => signed(self.mean),
        }
    }
}

/// The first moment at which two arms did different things.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parting {
    pub arm: String,
    pub seed: u64,
    /// Milliseconds since 1970.
    pub at: u64,
    /// What the first arm did. Null: nothing more.
    pub first: Option<Event>,
    /// What this arm did. Null: nothing more.
    pub other: Option<Event>,
}

pub(crate) fn differences(first: &ArmOutcomes, other: &ArmOutcomes) -> Vec<Difference> {
    let difference = |figure: &Figure| {
        let pairs = first.outcomes.iter().zip(&other.outcomes);
        let of_seeds: Vec<f64> = pairs.map(|(first, other)| figure.of(other) - figure.of(first)).collect();
        let (mean, interval) = mean_with_interval(&of_seeds);
        let is_certain = interval.is_some_and(|interval| interval.low > 0.0 || interval.high < 0.0);
        Difference { arm: other.arm.clone(), figure: figure.name, mean, interval, is_certain }
    };
    first.figures().map(difference).collect()
}

/// The mean, and where there are several values the interval in which the true one is in 19 of 20 cases.
fn mean_with_interval(values: &[f64]) -> (f64, Option<Interval>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    if values.len() < 2 {
        return (mean, None);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let quantile = T.get(values.len() - 2).copied().unwrap_or(NORMAL);
    let half = quantile * (variance / count).sqrt();
    (mean, Some(Interval { low: mean - half, high: mean + half }))
}

/// Where an arm parts from the first one, if it does.
pub(crate) fn parting(arm: &str, first: &Outcome, other: &Outcome) -> Option<Parting> {
    let mut pairs = first.events.iter().zip(&other.events);
    let parts = |(one, other): &(&Event, &Event)| {
        let is_same = (one.what, &one.zone, &one.types) == (other.what, &other.zone, &other.types);
        !is_same || one.at.abs_diff(other.at) > SAME
    };
    let (of_first, of_other) = match pairs.position(|pair| parts(&pair)) {
        Some(position) => (first.events.get(position), other.events.get(position)),
        None => {
            let common = first.events.len().min(other.events.len());
            (first.events.get(common), other.events.get(common))
        }
    };
    let at = of_first.iter().chain(&of_other).map(|event| event.at).min()?;
    // What came later was not done at that moment.
    let then = |event: Option<&Event>| event.filter(|event| event.at - at <= SAME).cloned();
    Some(Parting { arm: arm.to_owned(), seed: other.seed, at, first: then(of_first), other: then(of_other) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::FIGURES;

    #[test]
    fn a_difference_has_its_sign_before_its_unit_and_zero_has_none() {
        let words = |name: &str, mean: f64| {
            let figure = FIGURES.iter().find(|figure| figure.name == name).unwrap();
            let arm = "next".to_owned();
            Difference { arm, figure: figure.name, mean, interval: None, is_certain: false }.words(figure)
        };
        let of_cost = [-0.051, -0.004, 0.0, 0.004, 0.051].map(|mean| words("cost", mean));
        assert_eq!(of_cost, ["-EUR 0.05", "EUR 0.00", "EUR 0.00", "EUR 0.00", "+EUR 0.05"]);
        assert_eq!([-0.004, 2.0, -1.5].map(|mean| words("lost", mean)), ["0.0", "+2", "-1.5"]);
    }

    #[test]
    fn an_interval_is_that_of_students_t() {
        // By hand: the mean is 3, the standard deviation the square root of 2.5.
        let (mean, interval) = mean_with_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        let Interval { low, high } = interval.unwrap();
        let half = 2.776 * (2.5_f64 / 5.0).sqrt();
        assert!((mean - 3.0).abs() < 1e-9 && (low - 3.0 + half).abs() < 1e-9 && (high - 3.0 - half).abs() < 1e-9);
        assert_eq!(mean_with_interval(&[4.0]), (4.0, None));
        assert_eq!(mean_with_interval(&[4.0, 4.0]), (4.0, Some(Interval { low: 4.0, high: 4.0 })));
    }
}
