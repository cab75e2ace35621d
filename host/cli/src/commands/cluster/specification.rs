//! The file of a cluster's specification: read, and checked against quota and stock.

use serde_json::json;
use windlass_cluster::{ClusterSpecification, Clusters, Error};
use windlass_inspect::failure::Failure;
use windlass_inspect::text::dim;
use windlass_inspect::words::counted;
use windlass_policy::slots::types::{self, FailureClass};

use super::failure::failure_of;
use crate::arguments::ValidateCluster;
use crate::context::Context;

/// Reads a specification from a file. Errors name the file.
pub(crate) fn read(file: &std::path::Path) -> Result<ClusterSpecification, Failure> {
    ClusterSpecification::read(file).map_err(|error| failure_in(file, &error))
}

/// An error about what a file says, or about what is made of it.
pub(super) fn failure_in(file: &std::path::Path, error: &Error) -> Failure {
    let failure = failure_of(error);
    match error {
        Error::Specification(wrong) => failure.at(format!("{}, {}", file.display(), wrong.place)),
        _ => failure,
    }
}

/// Refuses a specification that names what does not exist: a type, an image, a program of a hook. What may pass, such
/// as a shortage or an API that is down, is left to the operation, which asks its policies whether to wait.
pub(super) async fn refuse_unknown(
    clusters: &Clusters,
    specification: &ClusterSpecification,
    file: &std::path::Path,
) -> Result<(), Failure> {
    let mut problems = clusters.validate(specification).await.map_err(|error| failure_of(&error))?;
    problems.retain(|problem| matches!(problem.class, FailureClass::InvalidArguments | FailureClass::NotFound));
    match problems.is_empty() {
        true => Ok(()),
        false => Err(invalid(file, &problems)),
    }
}

fn invalid(file: &std::path::Path, problems: &[types::Failure]) -> Failure {
    let mut failure =
        Failure::usage("the specification is invalid; nothing was touched").at(file.display().to_string());
    failure.causes.extend(problems.iter().map(types::Failure::words));
    failure.with_partial(json!({ "problems": problems }))
}

pub(crate) async fn validate(context: &Context, arguments: &ValidateCluster) -> Result<(), Failure> {
    let specification = read(&arguments.file)?;
    let zone = specification.zone.as_str();
    if let Some(other) = context.global.zone.as_deref().filter(|other| *other != zone) {
        return Err(Failure::usage(format!("the specification is for the zone {zone}, and --zone says {other}"))
            .at(arguments.file.display().to_string())
            .remedy("leave out --zone"));
    }
    if !arguments.offline {
        let look = context.clusters(None)?;
        let problems = look.clusters.validate(&specification).await.map_err(|error| failure_of(&error))?;
        if !problems.is_empty() {
            return Err(invalid(&arguments.file, &problems));
        }
    }
    let document = json!({ "specification": specification, "asked": !arguments.offline, "problems": [] });
    context.output.result(&document, || {
        let nodes: u32 = specification.groups.values().map(|group| group.count).sum();
        let asked = if arguments.offline { dim(" (Scaleway was not asked)") } else { String::new() };
        format!(
            "ok: cluster {} of {} in {} can be created{asked}\n",
            specification.name,
            counted(nodes as usize, "node"),
            counted(specification.groups.len(), "group")
        )
    });
    Ok(())
}
