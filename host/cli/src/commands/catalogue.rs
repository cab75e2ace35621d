//! `windlass type list`, `image list` and `zone list`: what servers can be created from, and where.

use serde::Serialize;
use windlass_inspect::failure::Failure;
use windlass_inspect::listing::Listing;
use windlass_scaleway::types::instance::{ListImages as OwnImages, ServerType, Stock};
use windlass_scaleway::{Client, Error, Zone};

use super::lifecycle::{no_servers_in, scaleway_failure};
use crate::arguments::{ListImages, ListTypes};
use crate::context::{Context, client, required_zone};
use crate::units::Size;

/// Document of `type list`.
#[derive(Serialize)]
struct Types {
    zone: Zone,
    types: Vec<Type>,
}

/// A server type.
#[derive(Serialize)]
struct Type {
    name: String,
    /// Other names of the same type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<String>,
    arch: String,
    cpus: u32,
    gpus: u32,
    /// Bytes.
    memory: u64,
    /// Euro, without volumes and addresses.
    hourly_price: f64,
    /// `available`, `scarce` or `shortage`; empty where Scaleway does not say.
    stock: String,
    /// Whether Scaleway withdraws it.
    end_of_service: bool,
}

impl Type {
    fn of(name: String, server_type: ServerType, stock: Option<&Stock>) -> Self {
        Type {
            name,
            aliases: server_type.alt_names,
            arch: server_type.arch.as_str().to_owned(),
            cpus: server_type.ncpus,
            gpus: server_type.gpu,
            memory: server_type.ram,
            hourly_price: server_type.hourly_price,
            stock: stock.map(|stock| stock.as_str().to_owned()).unwrap_or_default(),
            end_of_service: server_type.end_of_service,
        }
    }

    fn is_in_stock(&self) -> bool {
        [Stock::Available, Stock::Scarce].iter().any(|stock| stock.as_str() == self.stock)
    }

    fn stock_words(&self) -> String {
        match self.end_of_service {
            true => format!("{}, end of service", self.stock),
            false => self.stock.clone(),
        }
    }
}

/// Server types, the cheapest first.
pub(super) async fn types(context: &Context, arguments: &ListTypes) -> Result<(), Failure> {
    let (client, zone) = client_and_zone(context)?;
    let instance = client.instance(&zone);
    let read = futures::future::try_join(instance.list_server_types(), instance.server_type_availability()).await;
    let (types, stock) = read.map_err(|error| unreadable("the server types cannot be listed", &zone, &error))?;
    let types = types.into_iter().map(|(name, server_type)| {
        let stock = stock.get(&name);
        Type::of(name, server_type, stock)
    });
    let is_wanted = |one: &Type| {
        arguments.arch.as_ref().is_none_or(|arch| *arch == one.arch) && (!arguments.in_stock || one.is_in_stock())
    };
    let mut types: Vec<Type> = types.filter(is_wanted).collect();
    types.sort_by(|one, other| one.hourly_price.total_cmp(&other.hourly_price).then_with(|| one.name.cmp(&other.name)));
    let document = Types { zone, types };
    let listing = Listing::new(&document.types, "no server types", |one: &Type| one.name.clone())
        .column("type", |one| one.name.clone())
        .column("price/hour", |one| format!("{:.4} EUR", one.hourly_price))
        .column("stock", Type::stock_words)
        .column("cpus", |one| one.cpus.to_string())
        .column("memory", |one| Size(one.memory).to_string())
        .spare(1)
        .wide("gpus", |one| one.gpus.to_string())
        .column("architecture", |one| one.arch.clone())
        .spare(2)
        .wide("aliases", |one| one.aliases.join(", "));
    context.output.listing(&document, &listing);
    Ok(())
}

/// Document of `image list`.
#[derive(Serialize)]
struct Images {
    zone: Zone,
    images: Vec<Image>,
}

/// What `--image` takes.
#[derive(Serialize)]
struct Image {
    /// A label, or the id of an own one.
    image: String,
    name: String,
    /// Whether it is one of the key's own projects.
    own: bool,
    /// Architecture, for images of the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    arch: Option<String>,
    /// Creation time (RFC 3339), for images of the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
}

/// Images of the marketplace by their labels, and the own ones by their ids.
pub(super) async fn images(context: &Context, arguments: &ListImages) -> Result<(), Failure> {
    let (client, zone) = client_and_zone(context)?;
    let request = OwnImages { project: None, public: Some(false), arch: None };
    let own = client.instance(&zone).list_images(&request).await;
    let own = own.map_err(|error| unreadable("the images cannot be listed", &zone, &error))?;
    let mut images: Vec<Image> = own
        .into_iter()
        .filter(|image| !image.public)
        .map(|image| Image {
            image: image.id,
            name: image.name,
            own: true,
            arch: Some(image.arch.as_str().to_owned()),
            created_at: Some(image.creation_date),
        })
        .collect();
    if !arguments.own {
        // It is the same for all zones, so that its absence says nothing about one.
        const WHAT: &str = "the images of the marketplace cannot be listed";
        let public = client.marketplace().images().await.map_err(|error| scaleway_failure(WHAT, None, &error))?;
        let public = public.into_iter().filter(|image| !image.label.is_empty());
        images.extend(public.map(|image| Image {
            image: image.label,
            name: image.name,
            own: false,
            arch: None,
            created_at: None,
        }));
    }
    images.sort_by(|one, other| other.own.cmp(&one.own).then_with(|| one.image.cmp(&other.image)));
    let document = Images { zone, images };
    let listing = Listing::new(&document.images, "no images", |one: &Image| one.image.clone())
        .column("image", |one| one.image.clone())
        .column("name", |one| one.name.clone())
        .column("owner", |one| if one.own { "you" } else { "marketplace" }.to_owned())
        .spare(1)
        .column("architecture", |one| one.arch.clone().unwrap_or_else(|| "as the server type".to_owned()))
        .spare(2)
        .wide("created", |one| one.created_at.clone().unwrap_or_default());
    context.output.listing(&document, &listing);
    Ok(())
}

/// Document of `zone list`.
#[derive(Serialize)]
struct Zones {
    zones: Vec<KnownZone>,
}

#[derive(Serialize)]
struct KnownZone {
    zone: String,
    region: String,
    /// Whether it is the one in force.
    default: bool,
}

/// The zones that this version knows; another one that Scaleway opens works as well.
pub(super) fn zones(context: &Context) -> Result<(), Failure> {
    // A zone that cannot be read is a mistake; none at all is not.
    let in_force = match context.quiet_settings(None) {
        Ok(settings) => settings.require_zone().ok().cloned(),
        Err(error) if context.global.zone.is_some() => return Err(error),
        Err(_) => None,
    };
    let known = Zone::KNOWN.iter().filter_map(|zone| zone.parse::<Zone>().ok());
    let other = in_force.clone().filter(|zone| !Zone::KNOWN.contains(&zone.as_str()));
    let zones = known.chain(other).map(|zone| KnownZone {
        region: zone.region().as_str().to_owned(),
        default: in_force.as_ref() == Some(&zone),
        zone: zone.to_string(),
    });
    let document = Zones { zones: zones.collect() };
    let listing = Listing::new(&document.zones, "no zones", |one: &KnownZone| one.zone.clone())
        .column("zone", |one| one.zone.clone())
        .column("region", |one| one.region.clone())
        .column("default", |one| if one.default { "yes" } else { "" }.to_owned());
    context.output.listing(&document, &listing);
    Ok(())
}

fn client_and_zone(context: &Context) -> Result<(Client, Zone), Failure> {
    let settings = context.settings(None)?;
    let zone = required_zone(&settings)?;
    Ok((client(settings)?, zone))
}

fn unreadable(what: &str, zone: &Zone, error: &Error) -> Failure {
    match error.is_not_found() {
        true => no_servers_in(zone),
        false => scaleway_failure(what, None, error),
    }
}
