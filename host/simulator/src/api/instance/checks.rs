use crate::call::Fields;
use crate::refusal::Refusal;
use crate::world::World;

/// The project a creation names, and its organization. `organization` is the deprecated word for it (SDK).
pub(super) fn owner(world: &World, fields: &Fields) -> Result<(String, String), Refusal> {
    let project = match (fields.text("project")?, fields.text("organization")?) {
        (Some(project), _) => project,
        (None, Some(organization)) => organization,
        (None, None) => world.options.default_project.clone(),
    };
    let organization = world.organization_of(&project);
    Ok((project, organization))
}

/// A refused precondition, in the status the options ask for.
pub(super) fn precondition(world: &World, precondition: &str, help: &str) -> Refusal {
    Refusal::instance_precondition(world.options.refusal_status, precondition, help)
}
