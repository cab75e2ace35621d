//! A scenario of the jobs that a GitLab ran, from what others can say of them: GitLab's API, a table with its columns,
//! or a counter in Prometheus. Nothing of it names a job, a project or a person.

use std::collections::BTreeMap;
use std::io;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;
use windlass_fleeting::{Demand, Scenario};

use crate::record::{LONGEST_JOB, listed, percentile};

/// The most jobs of a scenario.
const MAX_JOBS: usize = 200_000;
/// How many mistakes of one file are reported.
const MAX_MISTAKES: usize = 10;

/// A scenario of jobs, and what it leaves out.
#[derive(Debug)]
pub struct Imported {
    /// Its jobs are listed: they are the same for every seed. What was observed is how long they waited, where the file
    /// says it.
    pub scenario: Scenario,
    /// Jobs that never started, or had not ended.
    pub left_out: usize,
}

/// Why a file makes no scenario.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is none of the three.
    #[error(
        "unknown format: use jobs of GitLab's API (JSON, or CSV with a column started_at), or the answer of Prometheus \
         to a range query"
    )]
    Format,
    /// It begins like JSON.
    #[error("its JSON cannot be read")]
    Json(#[source] serde_json::Error),
    /// The table breaks off.
    #[error("it is not a table of comma-separated values")]
    Table(#[source] csv::Error),
    /// Values that cannot be read, each with its place.
    #[error("{}", .0.join("\n"))]
    Values(Vec<String>),
    /// A counter does not say how long jobs run.
    #[error("Prometheus' counter does not say how long jobs run: set --job-minutes")]
    NoLength,
    /// Nothing ran.
    #[error("no job in it was started and has ended")]
    NoJobs,
    /// There are more than a scenario holds.
    #[error("it has {0} jobs, and a scenario has at most {MAX_JOBS}")]
    TooMany(usize),
    /// It is longer than a scenario.
    #[error("its jobs come over {0} hours, and a scenario has at most 744 (31 days)")]
    TooLong(u64),
}

/// A job as GitLab's API has it (`GET /projects/:id/jobs`, `GET /runners/:id/jobs`): these keys of it, or columns of
/// these names. <https://docs.gitlab.com/api/jobs/>
#[derive(Deserialize)]
struct Job {
    /// Null: it has never started.
    started_at: Option<String>,
    finished_at: Option<String>,
    /// Seconds. Null while it runs.
    duration: Option<f64>,
    /// How long it was pending, in seconds.
    queued_duration: Option<f64>,
}

/// The answer of `/api/v1/query_range`. <https://prometheus.io/docs/prometheus/latest/querying/api/>
#[derive(Deserialize)]
struct Answer {
    data: Matrix,
}

#[derive(Deserialize)]
struct Matrix {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    /// Seconds since 1970, and the value as text.
    values: Vec<(f64, String)>,
}

/// When a job came, in seconds since 1970, and for how many seconds it ran.
type Ran = (f64, f64);

/// The jobs of a file.
struct Jobs {
    ran: Vec<Ran>,
    /// When a job came, and for how many seconds it waited, where the file says it.
    waits: Vec<(f64, f64)>,
    left_out: usize,
    title: &'static str,
}

/// The scenario of the jobs in a file: a list of GitLab's API, a table, or a counter of Prometheus, for whose jobs
/// `job_minutes` says how long they run. It begins at the full hour before the first job, in UTC.
///
/// # Errors
/// The file is none of these, a value in it cannot be read, or there are no jobs or too many.
pub fn imported(text: &str, job_minutes: Option<u32>) -> Result<Imported, ImportError> {
    let Jobs { ran, waits, left_out, title } = jobs_of(text, job_minutes)?;
    Ok(Imported { scenario: Scenario { observed: observed(&waits), ..scenario(ran, title)? }, left_out })
}

/// A recorded scenario with the jobs of a file instead of one for each server: those that came during it.
///
/// # Errors
/// As those of [`imported`].
pub fn with_jobs(recorded: Scenario, text: &str, job_minutes: Option<u32>) -> Result<Imported, ImportError> {
    let Jobs { ran, mut waits, left_out, .. } = jobs_of(text, job_minutes)?;
    let start = recorded.starts_at.and_then(|at| TimeZone::UTC.to_timestamp(at).ok()).unwrap_or_default();
    let start = start.as_duration().as_secs_f64();
    let is_during = |comes: f64| (start..start + 3_600.0 * f64::from(recorded.hours)).contains(&comes);
    let ran: Vec<Ran> = ran.into_iter().filter(|(comes, _)| is_during(*comes)).collect();
    waits.retain(|(comes, _)| is_during(*comes));
    let jobs = within(&ran, start)?;
    if jobs.is_empty() {
        return Err(ImportError::NoJobs);
    }
    let mut scenario = Scenario { demand: vec![Demand { jobs, ..Demand::default() }], ..recorded };
    scenario.observed.extend(observed(&waits));
    Ok(Imported { scenario, left_out })
}

fn jobs_of(text: &str, job_minutes: Option<u32>) -> Result<Jobs, ImportError> {
    match text.trim_start().chars().next() {
        Some('[') => of_jobs(serde_json::from_str(text).map_err(ImportError::Json)?),
        Some('{') => {
            // One object, or one on each line.
            let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
            let mut values = values.collect::<Result<Vec<_>, _>>().map_err(ImportError::Json)?;
            if values.first().is_some_and(|value| value.get("started_at").is_some()) {
                let jobs = values.into_iter().map(serde_json::from_value).collect::<Result<_, _>>();
                return of_jobs(jobs.map_err(ImportError::Json)?);
            }
            let answer = serde_json::from_value(values.swap_remove(0)).map_err(|_| ImportError::Format)?;
            of_counter(&answer, job_minutes.ok_or(ImportError::NoLength)?)
        }
        _ => of_jobs(table(text)?),
    }
}

fn table(text: &str) -> Result<Vec<Job>, ImportError> {
    let mut reader = csv::Reader::from_reader(io::Cursor::new(text));
    let has_start = reader.headers().is_ok_and(|names| names.iter().any(|name| name == "started_at"));
    if !has_start {
        return Err(ImportError::Format);
    }
    reader.deserialize().collect::<Result<_, _>>().map_err(ImportError::Table)
}

fn of_jobs(jobs: Vec<Job>) -> Result<Jobs, ImportError> {
    let (mut ran, mut waits, mut mistakes) = (Vec::new(), Vec::new(), Vec::new());
    let mut left_out = 0;
    for (number, job) in (1..).zip(&jobs) {
        let mut read = |key: &str, text: &Option<String>| {
            let text = text.as_deref().filter(|text| !text.is_empty())?;
            let time = seconds_of(text);
            if time.is_none() {
                mistakes.push(format!("job {number}: {key} is {text:?} and no time like 2026-08-03T09:00:00Z"));
            }
            time
        };
        let (started, finished) = (read("started_at", &job.started_at), read("finished_at", &job.finished_at));
        let length = job.duration.or_else(|| Some(finished? - started?)).filter(|length| *length >= 0.0);
        let (Some(started), Some(length)) = (started, length) else {
            left_out += 1;
            continue;
        };
        let comes = started - job.queued_duration.unwrap_or_default().max(0.0);
        waits.extend(job.queued_duration.map(|wait| (comes, wait)));
        ran.push((comes, length));
    }
    if !mistakes.is_empty() {
        mistakes.truncate(MAX_MISTAKES);
        return Err(ImportError::Values(mistakes));
    }
    Ok(Jobs { ran, waits, left_out, title: "imported from GitLab's jobs" })
}

/// How long jobs waited.
fn observed(waits: &[(f64, f64)]) -> BTreeMap<String, f64> {
    let mut waits: Vec<f64> = waits.iter().map(|(_, wait)| *wait).collect();
    waits.sort_by(f64::total_cmp);
    let observed = [("wait_p50", percentile(&waits, 50)), ("wait_p95", percentile(&waits, 95))];
    observed.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// GitLab's own form, or that of a database's export.
fn seconds_of(text: &str) -> Option<f64> {
    let text = text.strip_suffix(" UTC").map_or_else(|| text.to_owned(), |time| format!("{time}Z"));
    text.parse::<Timestamp>().ok().map(|time| time.as_duration().as_secs_f64())
}

fn of_counter(answer: &Answer, job_minutes: u32) -> Result<Jobs, ImportError> {
    let mut ran = Vec::new();
    for series in &answer.data.result {
        let sample = |(at, value): &(f64, String)| Some((*at, value.parse::<f64>().ok().filter(|it| it.is_finite())?));
        let samples: Vec<Ran> = series.values.iter().filter_map(sample).collect();
        for pair in samples.windows(2) {
            let [(from, before), (to, after)] = *pair else { continue };
            // A counter that fell began anew at zero.
            let more = if after < before { after } else { after - before };
            if more > MAX_JOBS as f64 {
                return Err(ImportError::TooMany(more as usize));
            }
            let more = more.round() as usize;
            let at = |index: usize| from + (to - from) * (index as f64 + 0.5) / more as f64;
            ran.extend((0..more).map(|index| (at(index), 60.0 * f64::from(job_minutes))));
        }
    }
    Ok(Jobs { ran, waits: Vec::new(), left_out: 0, title: "imported from Prometheus" })
}

fn scenario(ran: Vec<Ran>, title: &str) -> Result<Scenario, ImportError> {
    let first = ran.iter().map(|(comes, _)| *comes).min_by(f64::total_cmp).ok_or(ImportError::NoJobs)?;
    let start = (first / 3_600.0).floor() * 3_600.0;
    let jobs = within(&ran, start)?;
    let hours = jobs.last().map_or(1, |(comes, _)| comes / 3_600 + 1);
    let starts_at = Timestamp::from_second(start as i64).map_err(|_| ImportError::TooLong(hours))?;
    let hours = u32::try_from(hours).ok().filter(|hours| *hours <= 744).ok_or(ImportError::TooLong(hours))?;
    Ok(listed(title, starts_at, hours, jobs))
}

/// Jobs in whole seconds since a start, in their order.
fn within(ran: &[Ran], start: f64) -> Result<Vec<(u64, u64)>, ImportError> {
    if ran.len() > MAX_JOBS {
        return Err(ImportError::TooMany(ran.len()));
    }
    // Between its bounds: `as` keeps the whole seconds.
    let second = |(comes, length): &Ran| ((comes - start) as u64, (*length as u64).clamp(1, LONGEST_JOB));
    let mut jobs: Vec<(u64, u64)> = ran.iter().map(second).collect();
    jobs.sort_unstable();
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOBS: &str = r#"[
        {"id": 7, "name": "secret", "started_at": "2026-08-03T09:10:30.500Z", "finished_at": "2026-08-03T09:15:30.500Z",
         "duration": 300.0, "queued_duration": 30.5, "user": {"name": "secret"}},
        {"started_at": "2026-08-03T13:20:00.000+02:00", "finished_at": "2026-08-03T11:21:00Z", "duration": null,
         "queued_duration": 2.0},
        {"started_at": null, "finished_at": null, "duration": null, "queued_duration": 12.0},
        {"started_at": "2026-08-03T11:00:00Z", "finished_at": null, "duration": null, "queued_duration": null}
    ]"#;

    fn jobs(text: &str) -> Vec<(u64, u64)> {
        imported(text, None).unwrap().scenario.demand[0].jobs.clone()
    }

    #[test]
    fn jobs_of_the_api_come_when_they_were_queued_and_carry_no_name() {
        let Imported { scenario, left_out } = imported(JOBS, None).unwrap();
        assert_eq!(scenario.demand[0].jobs, [(600, 300), (8_398, 60)]);
        assert_eq!((scenario.hours, left_out), (3, 2));
        assert_eq!(scenario.observed, [("wait_p50".to_owned(), 2.0), ("wait_p95".to_owned(), 30.5)].into());
        assert_eq!(scenario.starts_at.unwrap().to_string(), "2026-08-03T09:00:00");
        let text = scenario.to_toml().unwrap();
        assert_eq!(Scenario::parse(&text).unwrap(), scenario);
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn a_recorded_scenario_takes_the_jobs_of_its_time() {
        let recorded = "hours = 2\nstarts_at = '2026-08-03T08:00:00'\n[[demand]]\njobs = [[1, 1]]\n\
            [observed]\ncreations = 7.0\n";
        let recorded = Scenario::parse(recorded).unwrap();
        let Imported { scenario, left_out } = with_jobs(recorded.clone(), JOBS, None).unwrap();
        assert_eq!((&scenario.demand[0].jobs[..], left_out), (&[(4_200, 300)][..], 2), "one came after it");
        let observed = [("creations", 7.0), ("wait_p50", 30.5), ("wait_p95", 30.5)];
        assert_eq!(scenario.observed, observed.map(|(name, value)| (name.to_owned(), value)).into());
        let none = Scenario { hours: 1, ..recorded };
        assert!(matches!(with_jobs(none, JOBS, None), Err(ImportError::NoJobs)));
    }

    #[test]
    fn a_line_for_each_job_and_a_table_say_the_same_as_a_list() {
        let lines = "{\"started_at\": \"2026-08-03T09:10:30Z\", \"duration\": 300.0, \"queued_duration\": 30}\n\
                     {\"started_at\": null}\n";
        assert_eq!(jobs(lines), [(600, 300)]);
        let table = "name,started_at,finished_at,duration,queued_duration\n\
                     \"a, b\",2026-08-03 09:10:30 UTC,2026-08-03 09:15:30 UTC,,30\n\
                     c,,,,\n";
        assert_eq!(jobs(table), [(600, 300)]);
        assert_eq!(jobs("started_at,finished_at\n2026-08-03 09:10:30+00,2026-08-03 09:15:30+00\n"), [(630, 300)]);
    }

    #[test]
    fn a_counter_of_prometheus_says_when_jobs_came_also_after_a_restart() {
        let answer = r#"{"status": "success", "data": {"resultType": "matrix", "result": [
            {"metric": {"runner": "a"}, "values": [[1785747600, "10"], [1785747660, "12"], [1785747720, "1"]]},
            {"metric": {"runner": "b"}, "values": [[1785747600, "NaN"], [1785747660, "4"], [1785747720, "4"]]}
        ]}}"#;
        assert!(matches!(imported(answer, None), Err(ImportError::NoLength)));
        let scenario = imported(answer, Some(5)).unwrap().scenario;
        assert_eq!(scenario.demand[0].jobs, [(15, 300), (45, 300), (90, 300)]);
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place_and_all_at_once() {
        let wrong = r#"[{"started_at": "Monday"}, {"started_at": "2026-08-03T09:00:00Z", "finished_at": "later"}]"#;
        let said = imported(wrong, None).unwrap_err().to_string();
        assert!(said.contains("job 1: started_at") && said.contains("job 2: finished_at"), "{said}");
        for (text, words) in [
            ("", "unknown format"),
            ("hours = 2", "unknown format"),
            ("{\"message\": \"401 Unauthorized\"}", "unknown format"),
            ("[{\"started_at\": 5}]", "JSON cannot be read"),
            ("[]", "no job"),
            ("started_at,duration\nx", "comma-separated"),
        ] {
            let said = imported(text, None).unwrap_err().to_string();
            assert!(said.contains(words), "{text}: {said}");
        }
        let far = r#"[{"started_at": "2025-01-01T00:00:00Z", "duration": 1}, {"started_at": "2026-01-01T00:00:00Z", "duration": 1}]"#;
        assert!(matches!(imported(far, None), Err(ImportError::TooLong(8_761))));
    }
}
