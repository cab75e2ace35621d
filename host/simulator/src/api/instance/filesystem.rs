//! `/servers/{id}/attach-filesystem` and its counterpart.

use super::server;
use crate::answer::Answer;
use crate::api::endpoint::Outcome;
use crate::call::Call;
use crate::refusal::{Reason, Refusal};
use crate::world::{Event, FilesystemState, World};

/// Assumption: file systems are another API's, which is not simulated: every UUID is one.
pub(super) fn attach(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    let server = server::find(world, zone, id)?;
    let filesystem = call.fields()?.required_text("filesystem_id")?;
    if uuid::Uuid::parse_str(&filesystem).is_err() {
        return Err(Refusal::invalid("filesystem_id"));
    }
    if server.filesystems.iter().any(|(attached, _)| *attached == filesystem) {
        // Assumption: the refusal was not recorded; the words are those for a volume.
        let help = format!("Filesystem {filesystem} is already attached to this server");
        return Err(Refusal::invalid_argument("filesystem_id", Reason::Constraint, help));
    }
    begin(world, id, filesystem, FilesystemState::Attaching);
    Ok(Answer::ok(&server::answer(world, id)))
}

pub(super) fn detach(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    let server = server::find(world, zone, id)?;
    let filesystem = call.fields()?.required_text("filesystem_id")?;
    if !server.filesystems.iter().any(|(attached, _)| *attached == filesystem) {
        // Assumption, as above.
        let help = format!("Filesystem {filesystem} is not attached to this server");
        return Err(Refusal::invalid_argument("filesystem_id", Reason::Constraint, help));
    }
    begin(world, id, filesystem, FilesystemState::Detaching);
    Ok(Answer::ok(&server::answer(world, id)))
}

fn begin(world: &mut World, server: &str, filesystem: String, state: FilesystemState) {
    world.set_filesystem(server, &filesystem, Some(state));
    let delay = world.options.durations.filesystem;
    world.after(delay, Event::FilesystemSettled { server: server.to_owned(), filesystem, state });
}
