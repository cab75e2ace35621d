//! `windlass conformance`: does the API that this is pointed at behave as Windlass assumes?

use serde::Serialize;
use windlass_conformance::{Answered, Bounds, Error, Fixture, Plan, Probe, Report, Verdict};
use windlass_inspect::failure::{Exit, Failure, Leftover};
use windlass_inspect::listing::Listing;
use windlass_inspect::output::{fields, table};
use windlass_inspect::text::{green, printable, red, yellow};
use windlass_lifecycle::Control;
use windlass_scaleway::Client;

use crate::arguments;
use crate::confirmation::Confirmation;
use crate::context::{Context, required_zone};
use crate::interrupt::{self, Words};

/// A run keeps no journal: the second interruption ends the removal.
const WORDS: Words = Words {
    first: "interrupted: removing what was made; once more ends that, too",
    second: "interrupted again: what was made stays, and is listed",
};

pub(crate) async fn run(context: &Context, arguments: arguments::Conformance) -> Result<(), Failure> {
    let chosen = |probe: &&Probe| arguments.only.is_empty() || arguments.only.iter().any(|id| id == probe.id);
    let probes: Vec<Probe> = Probe::all().iter().filter(chosen).copied().collect();
    if arguments.list {
        list(context, &probes);
        return Ok(());
    }
    let confirmation = Confirmation::source(arguments.yes, "conformance", "--list")?;
    let settings = context.settings(None)?;
    let zone = required_zone(&settings)?;
    let api = settings.api_url().to_string();
    let client = Client::new(settings)
        .map_err(|error| Failure::usage("the client cannot be made").because(error.to_string()))?;

    // Up to the answer Ctrl-C simply ends the program: nothing is made before.
    let control = Control::new();
    let plan = Plan::make(client, zone, probes, Bounds::default(), &control).await.map_err(not_planned)?;
    context.output.say(&rendered(&plan, &api));
    confirmation.ask(&[], "Make these, ask, and remove them?").await?;
    let interrupted = interrupt::listen(&control, context.output, WORDS)?;
    let output = context.output;
    let report = plan.run(&control, |answered| output.say(&line(answered))).await;
    let was_interrupted = interrupted.stop();
    ended(context, &api, report, was_interrupted)
}

fn not_planned(error: Error) -> Failure {
    match error {
        Error::CalledOff => Failure::new(Exit::Interrupted, error.to_string()),
        other => Failure::undone("the run cannot be planned; nothing was made").caused_by(&other),
    }
}

/// Document of `conformance --list`.
#[derive(Serialize)]
struct Probes<'a> {
    probes: &'a [Probe],
}

fn list(context: &Context, probes: &[Probe]) {
    let listing = Listing::new(probes, "no questions", |probe: &Probe| probe.id.to_owned())
        .column("id", |probe| probe.id.to_owned())
        .column("assumed", |probe| probe.title.to_owned())
        .column("needs", needs);
    context.output.listing(&Probes { probes }, &listing);
}

fn needs(probe: &Probe) -> String {
    probe.needs.iter().map(|need| Fixture::words(*need)).collect::<Vec<_>>().join(", ")
}

/// What would be done, and what it costs.
fn rendered(plan: &Plan, api: &str) -> String {
    let cost = plan.cost();
    let mut makes = Vec::new();
    for (count, what) in [
        (cost.servers, "server(s), one of them started"),
        (cost.addresses, "IPv4 address(es)"),
        (cost.local_volumes, "local volume(s) of 1 GB"),
        (cost.block_volumes, "block volume(s) of 10 GB, root volumes included"),
    ] {
        if count > 0 {
            makes.push(format!("{count} {what}"));
        }
    }
    let mut text = format!(
        "{} questions to {api} in {}. They need, for some minutes:\n  {}\n",
        plan.probes().len(),
        plan.zone(),
        makes.join("\n  ")
    );
    match plan.server() {
        Some(choice) => text.push_str(&format!(
            "The cheapest server is {} at {:.5} € an hour: {:.4} € for an hour of all servers. Addresses and\n\
             volumes come on top, by Scaleway's price list, for the minutes that they exist.\n",
            printable(&choice.server_type),
            choice.hourly_price,
            cost.servers_for_an_hour
        )),
        None if cost.servers > 0 => {
            text.push_str("No server type with a price is in stock: what needs a server stays unknown.\n")
        }
        None => text.push_str("They cost what Scaleway's price list says, for the minutes that they exist.\n"),
    }
    text.push_str(&format!(
        "Everything carries the tag {} and is removed at the end, whatever happens.",
        plan.owner().tag()
    ));
    text
}

fn line(answered: &Answered) -> String {
    let word = match &answered.verdict {
        Verdict::Holds => green("holds"),
        Verdict::Broken { .. } => red("BROKEN"),
        Verdict::Unknown { .. } => yellow("unknown"),
    };
    let details = answered.verdict.details();
    let details = if details.is_empty() { String::new() } else { format!(": {}", printable(details)) };
    format!("{word}  {}  {}{details}", answered.id, answered.title)
}

/// Document of `conformance`.
#[derive(Serialize)]
struct Document {
    api_url: String,
    #[serde(flatten)]
    report: Report,
}

fn ended(context: &Context, api: &str, report: Report, was_interrupted: bool) -> Result<(), Failure> {
    let document = Document { api_url: api.to_owned(), report };
    let report = &document.report;
    let summary = format!(
        "{} hold, {} broken, {} unknown",
        report.count("holds"),
        report.count("broken"),
        report.count("unknown")
    );
    if report.left.is_empty() && report.all_hold() {
        context.output.result(&document, || summary_of(report, &summary));
        return Ok(());
    }
    let mut failure = if report.left.is_empty() {
        let exit = if was_interrupted { Exit::Interrupted } else { Exit::Undone };
        Failure::new(exit, format!("{summary}; everything that was made is removed"))
    } else {
        Failure::new(Exit::Left, format!("{summary}; something is left")).remedy(format!(
            "remove it by its id, or with `owner = \"{}\"` in a configuration: \
             windlass sweep --older-than 0s --running-too",
            report.owner
        ))
    };
    for answered in report.probes.iter().filter(|answered| answered.verdict != Verdict::Holds) {
        failure = failure.because(format!("{}: {}", answered.id, answered.verdict.details()));
    }
    failure.left = report
        .left
        .iter()
        .map(|left| Leftover {
            kind: left.kind.to_string(),
            id: left.id.clone(),
            zone: left.zone.clone(),
            reason: left.why.clone(),
        })
        .collect();
    if !context.output.is_document() {
        windlass_inspect::output::print(&summary_of(report, &summary));
    }
    Err(failure.with_partial(serde_json::to_value(&document).unwrap_or_default()))
}

fn summary_of(report: &Report, summary: &str) -> String {
    let mut text = table(
        &["assumption", "verdict", "seen"],
        report.probes.iter().map(|answered| {
            vec![answered.id.to_owned(), answered.verdict.word().to_owned(), answered.verdict.details().to_owned()]
        }),
    );
    for answered in &report.probes {
        let (Some(relied_on), Some(if_wrong)) = (answered.relied_on, answered.if_wrong) else { continue };
        let broken = [("broken", answered.id), ("relied on", relied_on), ("if wrong", if_wrong)];
        text.push_str(&format!("\n{}", fields(&broken.map(|(label, words)| (label, words.to_owned())))));
    }
    if report.count("broken") > 0 {
        text.push('\n');
    }
    text.push_str(&format!("{summary}; {} resources made and gone, {} left\n", report.removed, report.left.len()));
    text
}
