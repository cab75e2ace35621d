//! Images that are not named by their ids, resolved once for everybody who asks at about the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::types::instance::ListImages;
use windlass_scaleway::types::marketplace::ImageStorage;
use windlass_scaleway::{Client, Zone};

use crate::answer::Answer;
use crate::failure::{AttemptFailure, of_class};
use crate::specification::{ImageChoice, ServerSpecification};

/// How long an answer serves. A label's id changes with each release of its image, every few weeks; the old one keeps
/// working. An image of the project's own may be deleted when the next one is there: see [`Images::forget`].
const FRESH: Duration = Duration::from_secs(300);

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wanted {
    pub(crate) image: ImageChoice,
    pub(crate) zone: Zone,
    pub(crate) server_type: String,
    pub(crate) storage: ImageStorage,
    /// Whose own images count; absent: all that the key can see.
    pub(crate) project: Option<String>,
}

impl Wanted {
    /// The image of a specification for a server of this type.
    pub(crate) fn of(specification: &ServerSpecification, server_type: &str, client: &Client) -> Self {
        Self {
            image: specification.image.clone(),
            zone: specification.zone.clone(),
            server_type: server_type.to_owned(),
            storage: specification.root_volume.kind.image_storage(),
            project: specification.project.as_deref().or(client.settings().project_id()).map(str::to_owned),
        }
    }
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct Images {
    answers: Mutex<BTreeMap<Wanted, Arc<Answer<String, AttemptFailure>>>>,
    /// Which of the project's own images was last used, for the log.
    used: Mutex<BTreeMap<(ImageChoice, Zone), String>>,
}

impl Images {
    /// The id of an image. One caller asks, those who come meanwhile share the answer; a failure is not kept.
    pub(crate) async fn resolve(self: &Arc<Self>, client: &Client, wanted: &Wanted) -> Result<String, AttemptFailure> {
        if let ImageChoice::Id(id) = &wanted.image {
            return Ok(id.clone());
        }
        let answer = Arc::clone(self.answers.lock().entry(wanted.clone()).or_default());
        let ask = || {
            let (images, client, wanted) = (Arc::clone(self), client.clone(), wanted.clone());
            async move { images.ask(&client, &wanted).await }
        };
        answer.get(FRESH, ask).await
    }

    /// Has it asked for anew: the image that was named is not there any more.
    pub(crate) fn forget(&self, wanted: &Wanted) {
        self.answers.lock().remove(wanted);
    }

    async fn ask(&self, client: &Client, wanted: &Wanted) -> Result<String, AttemptFailure> {
        let Wanted { image, zone, server_type, storage, project } = wanted;
        match image {
            ImageChoice::Id(id) => return Ok(id.clone()),
            ImageChoice::Label(label) => {
                return Ok(client.marketplace().resolve_image(label, zone, server_type, storage.clone()).await?);
            }
            ImageChoice::Name(_) | ImageChoice::Tag(_) => {}
        }
        let instance = client.instance(zone);
        let request = ListImages { project: project.clone(), public: Some(false), arch: None };
        let (types, images) = futures::join!(instance.list_server_types(), instance.list_images(&request));
        let (types, images) = (types?, images?);
        let Some(server_type) = types.get(server_type) else {
            let words = format!("there is no server type {server_type} in {zone}");
            return Err(of_class(FailureClass::NotFound, words).into());
        };
        let Some(newest) = image.newest_of(&images, &server_type.arch, project.as_deref()) else {
            return Err(of_class(FailureClass::NotFound, image.absent(&server_type.arch, zone)).into());
        };
        let before = self.used.lock().insert((image.clone(), zone.clone()), newest.id.clone());
        if before.as_ref() != Some(&newest.id) {
            tracing::info!(image = newest.id, name = newest.name, created = newest.creation_date, %zone,
                "from now on servers are made of the newest image {}", image.described());
        }
        Ok(newest.id.clone())
    }
}
