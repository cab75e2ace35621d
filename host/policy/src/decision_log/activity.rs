//! What each policy did lately, and what that cost: added up over the end of the log, however long the log is.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::read::{DecisionReader, id_of};
use super::record::{Agreement, LinkRecord, Outcome};
use crate::decision::{DecisionId, PolicyIdentity};
use crate::error::Error;
use crate::failure_kind::FailureKind;
use crate::slot_name::SlotName;

/// What policies did in the newest decisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// How many decisions were looked at.
    pub decisions: usize,
    /// The oldest of them, in milliseconds since 1970-01-01T00:00:00Z.
    pub since_ms: Option<u64>,
    /// Each policy that was asked, also as a shadow, by slot and name; of one name the newest first.
    pub policies: Vec<PolicyActivity>,
    /// Lines that can't be read.
    pub unreadable: usize,
}

/// What one policy did.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyActivity {
    pub policy: PolicyIdentity,
    /// How often it was asked, as one that decides.
    pub asked: u64,
    /// How often it decided all or a part.
    pub decided: u64,
    /// How often it left everything to the next.
    pub deferred: u64,
    /// How often it failed, and how.
    pub failed: Vec<(FailureKind, u64)>,
    /// How often its answer as a shadow compared so with what was decided.
    pub compared: BTreeMap<Agreement, u64>,
    /// The first and the last decision.
    pub first: DecisionId,
    /// The last one.
    pub last: DecisionId,
    /// How long it took.
    pub took: Spread,
    /// The fuel that it used, where fuel is counted.
    pub fuel: Option<Spread>,
}

impl PolicyActivity {
    /// How often it failed.
    pub fn failures(&self) -> u64 {
        self.failed.iter().map(|(_, count)| count).sum()
    }

    /// How often it failed so.
    pub fn failed_by(&self, kind: FailureKind) -> u64 {
        self.failed.iter().find(|(known, _)| *known == kind).map_or(0, |(_, count)| *count)
    }
}

/// How a figure spreads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Half are at most this.
    pub median: u64,
    /// All but one of twenty are at most this.
    pub most_of_20: u64,
    /// The largest.
    pub most: u64,
    /// All together.
    pub sum: u64,
}

impl Spread {
    fn of(mut figures: Vec<u64>) -> Option<Spread> {
        figures.sort_unstable();
        let at = |share: f64| figures.get((figures.len().saturating_sub(1) as f64 * share).round() as usize).copied();
        Some(Spread {
            median: at(0.5)?,
            most_of_20: at(0.95)?,
            most: at(1.0)?,
            sum: figures.iter().fold(0, |sum, figure| figure.saturating_add(sum)),
        })
    }
}

/// What of a record is read. Question and answer, by far the longest, are skipped.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Asked {
    #[serde(default)]
    asked: Vec<LinkRecord>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Shadowed {
    #[serde(default)]
    shadows: Vec<AskedShadow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct AskedShadow {
    asked: LinkRecord,
    agreement: Agreement,
}

struct Tally {
    activity: PolicyActivity,
    took: Vec<u64>,
    fuel: Vec<u64>,
}

impl DecisionReader {
    /// Adds up what policies did in the newest decisions: files of the log are read from the newest on until so many
    /// bytes were read.
    ///
    /// # Errors
    /// A segment can't be read.
    pub fn activity(&self, most_bytes: usize) -> Result<Activity, Error> {
        let mut activity = Activity::default();
        let mut tallies: Vec<Tally> = Vec::new();
        activity.unreadable += self.newest_records(most_bytes, |id, record: Asked| {
            activity.decisions += 1;
            activity.since_ms = Some(activity.since_ms.map_or(id.at_ms(), |since| since.min(id.at_ms())));
            for asked in &record.asked {
                tally(&mut tallies, id, asked).decides(asked);
            }
        })?;
        activity.unreadable += self.of_shadows()?.newest_records(most_bytes, |id, record: Shadowed| {
            for shadow in &record.shadows {
                let compared = &mut tally(&mut tallies, id, &shadow.asked).activity.compared;
                *compared.entry(shadow.agreement).or_default() += 1;
            }
        })?;
        activity.policies = tallies.into_iter().map(Tally::finish).collect();
        let key = |one: &PolicyActivity| (one.policy.slot, one.policy.name.clone(), std::cmp::Reverse(one.last));
        activity.policies.sort_by_cached_key(key);
        Ok(activity)
    }

    /// Hands the records of the newest segments to `each` until so many bytes were read, of each slot its share;
    /// returns how many lines are not readable.
    fn newest_records<T: DeserializeOwned>(
        &self,
        most_bytes: usize,
        mut each: impl FnMut(DecisionId, T),
    ) -> Result<usize, Error> {
        let mut segments = self.segment_names()?;
        segments.sort_by_key(|segment| (segment.until, segment.begun));
        let (mut read, mut unreadable) = ([0; SlotName::ALL.len()], 0);
        while let Some(segment) = segments.pop() {
            let read = &mut read[segment.slot.index()];
            if *read > 0 && *read >= most_bytes / SlotName::ALL.len() {
                continue;
            }
            let Some(text) = self.segment(&segment.name)? else { continue };
            *read += text.len();
            for line in text.lines().filter(|line| !line.is_empty()) {
                let id = id_of(line).and_then(|id| id.parse::<DecisionId>().ok());
                match (id, serde_json::from_str::<T>(line)) {
                    (Some(id), Ok(record)) => each(id, record),
                    _ => unreadable += 1,
                }
            }
        }
        Ok(unreadable)
    }
}

/// The tally of a policy, with what it cost this time.
fn tally<'t>(tallies: &'t mut Vec<Tally>, id: DecisionId, asked: &LinkRecord) -> &'t mut Tally {
    let position = tallies.iter().position(|known| known.activity.policy == *asked.policy).unwrap_or_else(|| {
        tallies.push(Tally::new(PolicyIdentity::clone(&asked.policy), id));
        tallies.len() - 1
    });
    let tally = &mut tallies[position];
    tally.activity.first = tally.activity.first.min(id);
    tally.activity.last = tally.activity.last.max(id);
    tally.took.push(asked.duration_ns);
    tally.fuel.extend(asked.fuel);
    tally
}

impl Tally {
    fn new(policy: PolicyIdentity, id: DecisionId) -> Tally {
        let activity = PolicyActivity {
            policy,
            asked: 0,
            decided: 0,
            deferred: 0,
            failed: Vec::new(),
            compared: BTreeMap::new(),
            first: id,
            last: id,
            took: Spread::default(),
            fuel: None,
        };
        Tally { activity, took: Vec::new(), fuel: Vec::new() }
    }

    fn decides(&mut self, asked: &LinkRecord) {
        let activity = &mut self.activity;
        activity.asked += 1;
        match &asked.outcome {
            Outcome::Decided | Outcome::DecidedPart { .. } => activity.decided += 1,
            Outcome::Deferred => activity.deferred += 1,
            Outcome::Fallback { kind, .. } => match activity.failed.iter_mut().find(|(known, _)| known == kind) {
                Some((_, count)) => *count += 1,
                None => activity.failed.push((*kind, 1)),
            },
        }
    }

    fn finish(mut self) -> PolicyActivity {
        self.activity.took = Spread::of(self.took).unwrap_or_default();
        self.activity.fuel = Spread::of(self.fuel);
        self.activity
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use serde_json::{Value, json};

    use super::*;
    use crate::decision_log::{FOLDER, SHADOWS, segment_name};

    fn line(at: u64, sequence: u32, outcome: Value, shadow: Option<&str>) -> String {
        let digest = "ab".repeat(32);
        let policy = |name: &str| json!({"slot": "retry", "name": name, "version": "1.0.0", "component": digest, "settings": digest});
        let asked = json!({"policy": policy("team"), "outcome": outcome, "duration-ns": at, "fuel": 7});
        let mut record = json!({
            "at-ms": at, "slot": "retry", "question": null, "answer": null, "reason": null, "decided-by": "keep",
            "asked": [asked], "duration-ns": 1,
        });
        if let Some(agreement) = shadow {
            let asked = json!({"policy": policy("shadow"), "outcome": "decided", "duration-ns": 9});
            record["shadows"] = json!([{"asked": asked, "agreement": agreement}]);
            record["asked"] = json!([]);
        }
        // The id comes first, as hosts write it.
        format!("{{\"id\":\"{at:012x}-00000007-{sequence:08x}\",{}", &record.to_string()[1..])
    }

    #[test]
    fn each_policy_is_told_with_what_came_of_it_and_what_it_cost() {
        let folder = tempfile::tempdir().unwrap();
        let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        state.create_dir(FOLDER).unwrap();
        let brake = json!({"fallback": {"kind": "brake", "reason": "too many"}});
        let old = [line(10, 0, json!("decided"), None)];
        let shadows = [("agreed", 1_000, 1), ("differed", 2_000, 2), ("differed", 3_000, 3)]
            .map(|(agreement, at, number)| line(at, number, json!("decided"), Some(agreement)));
        state.create_dir(SHADOWS).unwrap();
        state.write(format!("{SHADOWS}/{}", segment_name(1_000, 7, 0, SlotName::Retry)), shadows.join("\n")).unwrap();
        let new = [
            line(1_000, 1, json!("decided"), None),
            line(2_000, 2, json!("deferred"), None),
            line(3_000, 3, brake, None),
            line(4_000, 4, json!({"decided-part": {"deferred": 1}}), None),
            "torn".to_owned(),
        ];
        for (begun, number, lines) in [(9, 0, &old[..]), (1_000, 1, &new[..])] {
            let name = segment_name(begun, 7, number, SlotName::Retry);
            state.write(format!("{FOLDER}/{name}"), lines.join("\n")).unwrap();
        }
        let reader = DecisionReader::open(&state).unwrap();
        let activity = reader.activity(1).unwrap();
        assert_eq!((activity.decisions, activity.since_ms, activity.unreadable), (4, Some(1_000), 1));
        let [shadow, team] = activity.policies.as_slice() else { panic!("{activity:?}") };
        assert_eq!((team.asked, team.decided, team.deferred, team.failures()), (4, 2, 1, 1));
        assert_eq!(team.failed_by(FailureKind::Brake), 1);
        assert_eq!((team.took.median, team.took.most, team.took.sum), (3_000, 4_000, 10_000));
        assert_eq!(team.fuel.map(|fuel| (fuel.median, fuel.sum)), Some((7, 28)));
        assert_eq!((team.first.at_ms(), team.last.at_ms()), (1_000, 4_000));
        assert_eq!((shadow.asked, shadow.compared.get(&Agreement::Differed)), (0, Some(&2)));
        // With more to read, more is reported.
        assert_eq!(reader.activity(1 << 20).unwrap().decisions, 5);
    }
}
