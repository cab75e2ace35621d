//! Whether Scaleway has what a specification names, asked before the first call that costs anything.
//!
//! Asked: whether the server types exist in the zone, hold the local and scratch volumes, and one of them is in stock;
//! whether the image fits them; whether security groups, placement groups, private networks and volumes exist, and
//! nobody has the volumes. A read that is refused or fails says nothing about the specification, so it is reported
//! separately.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_policy::slots::types::{Failure, FailureClass, Money};
use windlass_scaleway::types::instance::{ListImages, ServerType, Stock};
use windlass_scaleway::{Client, Zone};

use crate::answer::Answer;
use crate::failure::{AttemptFailure, of_class, of_error};
use crate::images::{Images, Wanted};
use crate::lifecycle::Lifecycle;
use crate::placement::euros;
use crate::quotas::{QuotaDemand, check_quotas};
use crate::shared::Shared;
use crate::specification::{ExtraVolume, ImageChoice, ServerSpecification, VolumeKind};

/// What one field of a specification names, and Scaleway does not have.
#[derive(Clone, Debug)]
pub struct AccountProblem {
    /// The field, as the specification names it.
    pub field: &'static str,
    /// Why.
    pub failure: Failure,
}

impl AccountProblem {
    fn new(field: &'static str, class: FailureClass, words: impl AsRef<str>) -> Self {
        Self { field, failure: of_class(class, words) }
    }

    fn of_error(field: &'static str, error: &windlass_scaleway::Error) -> Self {
        Self { field, failure: of_error(error) }
    }

    /// Whether the creation would fail. Otherwise only this look has failed.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        matches!(
            self.failure.class,
            FailureClass::NotFound
                | FailureClass::InvalidArguments
                | FailureClass::PreconditionFailed
                | FailureClass::OutOfStock
                | FailureClass::QuotaExceeded
        )
    }
}

impl fmt::Display for AccountProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.failure.words())
    }
}

/// What a zone offers.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The server types by name.
    pub types: BTreeMap<String, ServerType>,
    /// How many there are of each.
    pub stock: BTreeMap<String, Stock>,
}

impl Catalogue {
    /// Asks for it.
    ///
    /// # Errors
    /// The client's.
    pub async fn of(client: &Client, zone: &Zone) -> Result<Self, windlass_scaleway::Error> {
        let instance = client.instance(zone);
        let (types, stock) =
            futures::future::try_join(instance.list_server_types(), instance.server_type_availability()).await?;
        Ok(Self { types, stock })
    }

    pub(crate) fn find(&self, name: &str) -> Option<&ServerType> {
        self.types.get(name).or_else(|| {
            let is_alternative = |data: &&ServerType| data.alt_names.iter().any(|alt| alt.eq_ignore_ascii_case(name));
            self.types.values().find(is_alternative)
        })
    }

    /// What an hour of a server type costs.
    pub(crate) fn price(&self, server_type: &str) -> Option<Money> {
        euros(self.find(server_type)?.hourly_price)
    }

    fn is_out(&self, name: &str) -> bool {
        self.stock.get(name) == Some(&Stock::Shortage)
    }

    fn find_problems(&self, wanted: &ServerSpecification, problems: &mut Vec<AccountProblem>) {
        let (zone, types) = (&wanted.zone, &wanted.types);
        for name in types {
            let Some(server_type) = self.find(name) else {
                let near = windlass_policy::nearest(name, self.types.keys().map(String::as_str));
                let near = match near {
                    Some(near) => format!("; did you mean {near}?"),
                    None => "; `windlass type list` has those that there are".to_owned(),
                };
                let words = format!("{zone} has no server type {name}{near}");
                problems.push(AccountProblem::new("types", FailureClass::InvalidArguments, words));
                continue;
            };
            for words in volume_problems(wanted, name, server_type) {
                problems.push(AccountProblem::new("volumes", FailureClass::InvalidArguments, words));
            }
        }
        if !types.is_empty() && types.iter().all(|name| self.is_out(name)) {
            let words = format!("{zone} has no {} left", types.join(" and no "));
            problems.push(AccountProblem::new("types", FailureClass::OutOfStock, words));
        }
    }
}

/// The local and scratch volumes that a server type does not take, by the limits in the catalogue.
#[must_use]
pub fn volume_problems(wanted: &ServerSpecification, name: &str, server_type: &ServerType) -> Vec<String> {
    let sizes = |wanted_kind: VolumeKind| -> Vec<u64> {
        let root = (wanted.root_volume.kind == wanted_kind).then_some(wanted.root_volume.size).flatten();
        let extra = wanted.volumes.iter().filter_map(|volume| match volume {
            ExtraVolume::New { kind, size, .. } if *kind == wanted_kind => Some(*size),
            ExtraVolume::New { .. } | ExtraVolume::Existing { .. } => None,
        });
        root.into_iter().chain(extra).collect()
    };
    let mut problems = Vec::new();
    let local = sizes(VolumeKind::Local);
    let total: u64 = local.iter().sum();
    if let Some(constraint) = server_type.volumes_constraint.as_ref().filter(|it| total > it.max_size) {
        let words =
            format!("{name} takes {} of local volumes, and {} are wanted", shown(constraint.max_size), shown(total));
        problems.push(words);
    }
    if let Some(constraint) = server_type.per_volume_constraint.get("l_ssd").filter(|it| it.max_size > 0) {
        let (least, most) = (constraint.min_size, constraint.max_size);
        for size in local.iter().filter(|size| !(least..=most).contains(size)) {
            let words =
                format!("a local volume of {name} has {} to {}, not {}", shown(least), shown(most), shown(*size));
            problems.push(words);
        }
    }
    let scratch = sizes(VolumeKind::Scratch);
    let total: u64 = scratch.iter().sum();
    let (most, largest) = (server_type.scratch_storage_max_volumes_count, server_type.scratch_storage_max_size);
    if !scratch.is_empty() && (most == 0 || largest == 0) {
        problems.push(format!("{name} has no scratch storage"));
    } else if scratch.len() > most as usize {
        problems.push(format!("{name} takes {most} scratch volumes, and {} are wanted", scratch.len()));
    } else if total > largest {
        problems.push(format!("{name} takes {} of scratch storage, and {} are wanted", shown(largest), shown(total)));
    }
    problems
}

/// A size in the unit that Scaleway counts in.
fn shown(bytes: u64) -> String {
    format!("{} GB", bytes as f64 / 1e9)
}

/// How long what a zone offers is taken as it was read, and how long the whole look may take.
const FRESH: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a question waits for a price.
const PRICE_PATIENCE: Duration = Duration::from_secs(5);

/// Since when the prices of a zone cannot be read.
pub(crate) type WithoutPrices = Mutex<BTreeMap<Zone, Instant>>;

/// What the zones offer, as it was read last.
pub(crate) type Catalogues = Mutex<BTreeMap<Zone, Arc<Answer<Arc<Catalogue>, Arc<windlass_scaleway::Error>>>>>;

impl Lifecycle {
    /// What Scaleway does not have for so many servers of a specification, and what could not be seen; see
    /// [`account_problems`] and [`check_quotas`]. Many creations in one zone read its catalogue once a minute, and the
    /// creations themselves use the image that is found here. Where Scaleway does not answer in time nothing is found:
    /// the creation will tell. For a `count` of 0 no quotas are asked: a caller that makes servers one by one would ask
    /// them for each.
    pub async fn account_problems(&self, specification: &ServerSpecification, count: usize) -> Vec<AccountProblem> {
        let client = &self.shared.client;
        let look = async {
            let mut problems = match self.shared.catalogue(&specification.zone).await {
                Ok(catalogue) => problems_of(client, &self.shared.images, specification, &catalogue).await,
                Err(error) if error.is_not_found() => {
                    let words = no_servers_in(&specification.zone);
                    return vec![AccountProblem::new("zone", FailureClass::NotFound, words)];
                }
                Err(error) => return vec![AccountProblem::of_error("types", &error)],
            };
            if count == 0 {
                return problems;
            }
            let demand = QuotaDemand { types: specification.types.clone(), made: count as u64, given_back: 0 };
            if let Err(refusal) = check_quotas(client, &specification.zone, &[demand]).await {
                problems.push(AccountProblem { field: "count", failure: refusal.failure });
            }
            problems
        };
        tokio::time::timeout(PATIENCE, look).await.unwrap_or_default()
    }
}

impl Shared {
    /// What an hour of a server type costs, as far as it can be seen soon.
    pub(crate) async fn price(&self, zone: &Zone, server_type: &str) -> Option<Money> {
        let is_unknown = |since: &Instant| since.elapsed() < FRESH;
        if self.without_prices.lock().get(zone).is_some_and(is_unknown) {
            return None;
        }
        match tokio::time::timeout(PRICE_PATIENCE, self.catalogue(zone)).await {
            Ok(Ok(catalogue)) => catalogue.price(server_type),
            // The next caller does not wait as long for the same failure.
            Ok(Err(_)) | Err(_) => {
                self.without_prices.lock().insert(zone.clone(), Instant::now());
                None
            }
        }
    }

    pub(crate) async fn catalogue(&self, zone: &Zone) -> Result<Arc<Catalogue>, Arc<windlass_scaleway::Error>> {
        let answer = Arc::clone(self.catalogues.lock().entry(zone.clone()).or_default());
        let ask = || {
            let (client, zone) = (self.client.clone(), zone.clone());
            async move { Ok(Arc::new(Catalogue::of(&client, &zone).await?)) }
        };
        answer.get(FRESH, ask).await
    }
}

/// What Scaleway does not have of what a specification names, and what could not be seen.
pub async fn account_problems(
    client: &Client,
    specification: &ServerSpecification,
    catalogue: &Catalogue,
) -> Vec<AccountProblem> {
    problems_of(client, &Arc::default(), specification, catalogue).await
}

async fn problems_of(
    client: &Client,
    images: &Arc<Images>,
    specification: &ServerSpecification,
    catalogue: &Catalogue,
) -> Vec<AccountProblem> {
    let mut wanted = specification.clone();
    wanted.normalize();
    let mut problems = Vec::new();
    catalogue.find_problems(&wanted, &mut problems);
    problems.extend(looked_up(client, images, &wanted, catalogue).await.1);
    problems
}

/// The name of a specification's image, where it is there, and what Scaleway does not have of all that a specification
/// names beside its server types, or what could not be seen. The image has to fit those server types that the catalogue
/// has.
pub async fn look_up(
    client: &Client,
    wanted: &ServerSpecification,
    catalogue: &Catalogue,
) -> (Option<String>, Vec<AccountProblem>) {
    looked_up(client, &Arc::default(), wanted, catalogue).await
}

async fn looked_up(
    client: &Client,
    images: &Arc<Images>,
    wanted: &ServerSpecification,
    catalogue: &Catalogue,
) -> (Option<String>, Vec<AccountProblem>) {
    let (image, groups, networks, volumes) = futures::join!(
        find_image(client, images, wanted, catalogue),
        group_problems(client, wanted),
        network_problems(client, wanted),
        existing_volume_problems(client, wanted),
    );
    let (name, problem) = match image {
        Ok(name) => (Some(name), None),
        Err(problem) => (None, Some(problem)),
    };
    (name, problem.into_iter().chain(groups).chain(networks).chain(volumes).collect())
}

/// That Scaleway knows no such zone, and which it knows.
#[must_use]
pub fn no_servers_in(zone: &Zone) -> String {
    let instead = if Zone::KNOWN.contains(&zone.as_str()) {
        "; the zone exists, so the API's URL is probably wrong (SCW_API_URL)".to_owned()
    } else if let Some(meant) = windlass_policy::nearest(zone.as_str(), Zone::KNOWN) {
        format!("; did you mean {meant}?")
    } else {
        format!("; there are {}", Zone::KNOWN.join(", "))
    };
    format!("Scaleway offers no servers in a zone {zone}{instead}")
}

/// That there is no image with this label, and what it resembles.
async fn no_image(client: &Client, label: &str) -> String {
    let known = client.marketplace().images().await.unwrap_or_default();
    let meant = windlass_policy::nearest(label, known.iter().map(|image| image.label.as_str()));
    let instead = match meant {
        Some(meant) => format!("did you mean {meant}?"),
        None => "`windlass image list` has those that there are; an image of your own is named by its id".to_owned(),
    };
    format!("there is no image with the label {label}; {instead}")
}

/// Its name; of the project's own, that of the newest for one of the types.
async fn find_image(
    client: &Client,
    resolver: &Arc<Images>,
    wanted: &ServerSpecification,
    catalogue: &Catalogue,
) -> Result<String, AccountProblem> {
    let (zone, image) = (&wanted.zone, &wanted.image);
    let usable: Vec<(&String, &ServerType)> = wanted
        .types
        .iter()
        .filter(|name| !catalogue.is_out(name))
        .filter_map(|name| Some((name, catalogue.find(name)?)))
        .collect();
    match image {
        ImageChoice::Label(label) => {
            let is_usable = !usable.is_empty();
            // A label that does not exist is said so also where no type is any good.
            let any = wanted.types.first().filter(|_| !is_usable);
            let names = usable.into_iter().map(|(name, _)| name).chain(any);
            let images = names.map(|name| Wanted::of(wanted, name, client));
            let resolved = join_all(images.map(|image| async move { resolver.resolve(client, &image).await })).await;
            for AttemptFailure { failure, .. } in resolved.into_iter().filter_map(Result::err) {
                if failure.class == FailureClass::NotFound {
                    let words = no_image(client, label).await;
                    return Err(AccountProblem::new("image", FailureClass::NotFound, words));
                }
                if is_usable {
                    return Err(AccountProblem { field: "image", failure });
                }
            }
            Ok(label.clone())
        }
        ImageChoice::Id(id) => match client.instance(zone).get_image(id).await {
            Ok(image) => {
                let Some((name, data)) = usable.into_iter().find(|(_, data)| data.arch != image.arch) else {
                    return Ok(image.name);
                };
                let words = format!("{id} is for {}, and {name} is {}", image.arch.as_str(), data.arch.as_str());
                Err(AccountProblem::new("image", FailureClass::InvalidArguments, words))
            }
            Err(error) if error.is_not_found() => {
                let words = format!("there is no image {id} in {zone}");
                Err(AccountProblem::new("image", FailureClass::NotFound, words))
            }
            Err(error) => Err(AccountProblem::of_error("image", &error)),
        },
        ImageChoice::Name(_) | ImageChoice::Tag(_) => {
            let project = wanted.project.as_deref().or(client.settings().project_id());
            let request = ListImages { project: project.map(str::to_owned), public: Some(false), arch: None };
            let images = client.instance(zone).list_images(&request).await;
            let images = images.map_err(|error| AccountProblem::of_error("image", &error))?;
            let mut name = String::new();
            for (_, data) in usable {
                let Some(newest) = image.newest_of(&images, &data.arch, project) else {
                    let words = image.absent(&data.arch, zone);
                    return Err(AccountProblem::new("image", FailureClass::NotFound, words));
                };
                name.clone_from(&newest.name);
            }
            Ok(name)
        }
    }
}

async fn group_problems(client: &Client, wanted: &ServerSpecification) -> Vec<AccountProblem> {
    let (zone, instance) = (&wanted.zone, client.instance(&wanted.zone));
    let mut problems = Vec::new();
    if let Some(id) = &wanted.security_group
        && let Err(error) = instance.get_security_group(id).await
    {
        problems.push(group_problem(client, zone, "security_group", id, &error).await);
    }
    if let Some(id) = &wanted.placement_group
        && let Err(error) = instance.get_placement_group(id).await
    {
        problems.push(group_problem(client, zone, "placement_group", id, &error).await);
    }
    problems
}

async fn group_problem(
    client: &Client,
    zone: &Zone,
    field: &'static str,
    id: &str,
    error: &windlass_scaleway::Error,
) -> AccountProblem {
    if !error.is_not_found() {
        return AccountProblem::of_error(field, error);
    }
    let existing = existing(client, &format!("/instance/v1/zones/{zone}/{field}s"), &format!("{field}s")).await;
    let words = format!("there is no {} {id} in {zone}{existing}", field.replace('_', " "));
    AccountProblem::new(field, FailureClass::NotFound, words)
}

/// Which resources a list has, for a user who named one that is not there. Nothing where the list cannot be read.
async fn existing(client: &Client, path: &str, key: &str) -> String {
    const NAMED: usize = 5;
    let Ok(answer) = client.send_raw("GET", path, None).await else { return String::new() };
    let list: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let Some(all) = list[key].as_array().filter(|_| answer.status == 200) else { return String::new() };
    let text = |one: &serde_json::Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let named: Vec<String> =
        all.iter().take(NAMED).map(|one| format!("{} ({})", text(one, "id"), text(one, "name"))).collect();
    let more = if all.len() > NAMED { " and others" } else { "" };
    if named.is_empty() { "; there is none".to_owned() } else { format!("; choose from {}{more}", named.join(", ")) }
}

async fn network_problems(client: &Client, wanted: &ServerSpecification) -> Vec<AccountProblem> {
    const FIELD: &str = "private_networks";
    let region = wanted.zone.region();
    let mut problems = Vec::new();
    for id in wanted.private_networks.iter().filter(|id| uuid::Uuid::parse_str(id).is_ok()) {
        let path = format!("/vpc/v2/regions/{region}/private-networks/{id}");
        let answer = match client.send_raw("GET", &path, None).await {
            Ok(answer) => answer,
            Err(error) => {
                problems.push(AccountProblem::of_error(FIELD, &error));
                continue;
            }
        };
        let class = match answer.status {
            200..=299 => continue,
            404 => {
                let path = format!("/vpc/v2/regions/{region}/private-networks");
                let existing = existing(client, &path, "private_networks").await;
                let zone = &wanted.zone;
                let words = format!("there is no private network {id} in {region}, where {zone} is{existing}");
                problems.push(AccountProblem::new(FIELD, FailureClass::NotFound, words));
                continue;
            }
            401 | 403 => FailureClass::PermissionDenied,
            429 => FailureClass::RateLimited,
            _ => FailureClass::ServerError,
        };
        let mut failure = of_class(class, format!("cannot check whether private network {id} exists"));
        (failure.method, failure.path, failure.status) = (Some("GET".to_owned()), Some(path), Some(answer.status));
        problems.push(AccountProblem { field: FIELD, failure });
    }
    problems
}

async fn existing_volume_problems(client: &Client, wanted: &ServerSpecification) -> Vec<AccountProblem> {
    const FIELD: &str = "volumes";
    let (zone, block) = (&wanted.zone, client.block(&wanted.zone));
    let mut problems = Vec::new();
    for id in wanted.existing_volumes().filter(|id| uuid::Uuid::parse_str(id).is_ok()) {
        match block.get_volume(id).await {
            Ok(volume) => {
                if let Some(server) = volume.references.first() {
                    let words = format!("{id} is attached to {}; detach it first", server.product_resource_id);
                    problems.push(AccountProblem::new(FIELD, FailureClass::PreconditionFailed, words));
                }
            }
            Err(error) if error.is_not_found() => {
                let words = format!("there is no Block Storage volume {id} in {zone}");
                problems.push(AccountProblem::new(FIELD, FailureClass::NotFound, words));
            }
            Err(error) => problems.push(AccountProblem::of_error(FIELD, &error)),
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specification::ExtraVolume;
    use windlass_scaleway::types::instance::SizeConstraint;

    fn gpu() -> ServerType {
        ServerType {
            volumes_constraint: Some(SizeConstraint { min_size: 0, max_size: 40_000_000_000 }),
            scratch_storage_max_size: 1_600_000_000_000,
            scratch_storage_max_volumes_count: 1,
            ..ServerType::default()
        }
    }

    fn problems(server_type: &ServerType, volumes: &[(VolumeKind, u64)]) -> Vec<String> {
        let image = ImageChoice::parse("ubuntu_noble");
        let mut wanted = ServerSpecification::new("ci".parse().unwrap(), "fr-par-2".parse().unwrap(), "G", image);
        let new = |(kind, gigabytes): &(VolumeKind, u64)| ExtraVolume::New {
            kind: *kind,
            size: gigabytes * 1_000_000_000,
            operations_per_second: None,
        };
        wanted.volumes = volumes.iter().map(new).collect();
        volume_problems(&wanted, "G", server_type)
    }

    #[test]
    fn scratch_storage_is_measured_by_what_the_type_has() {
        use VolumeKind::{Block, Local, Scratch};
        let none = Vec::<String>::new();
        assert_eq!(problems(&gpu(), &[(Scratch, 1_600), (Local, 40), (Block, 9_000)]), none);
        assert_eq!(problems(&ServerType::default(), &[(Scratch, 1)]), ["G has no scratch storage"]);
        let words = problems(&gpu(), &[(Scratch, 1), (Scratch, 1)]);
        assert_eq!(words, ["G takes 1 scratch volumes, and 2 are wanted"]);
        let words = problems(&gpu(), &[(Scratch, 1_601)]);
        assert_eq!(words, ["G takes 1600 GB of scratch storage, and 1601 GB are wanted"]);
        assert_eq!(problems(&gpu(), &[(Local, 41)]), ["G takes 40 GB of local volumes, and 41 GB are wanted"]);
    }
}
