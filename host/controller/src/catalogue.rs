//! The types of machines that Scaleway has in a zone, as they were listed last.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::Architecture;

/// How old a catalogue may be: types come and go in months.
pub(crate) const FRESH: Duration = Duration::from_secs(3600);
/// Zones of which a catalogue is kept at most: whoever may write a template names one.
const MAX_ZONES: usize = 64;

/// What a machine of one type has. What is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) cpus: Option<u64>,
    /// In bytes.
    pub(crate) memory: Option<u64>,
    /// In bytes.
    pub(crate) disk: Option<u64>,
    /// Graphics processors that NVIDIA's plugin offers.
    pub(crate) gpus: u64,
    /// As Kubernetes names it.
    pub(crate) architecture: Option<&'static str>,
    /// Of an hour, in millionths of a euro.
    pub(crate) price: Option<u64>,
}

pub(crate) type Types = Arc<BTreeMap<String, Type>>;

/// Which of Scaleway's products a template is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Product {
    Instance,
    AppleSilicon,
}

/// The types of each zone, as they were listed last.
#[derive(Debug, Default)]
pub(crate) struct Catalogue(Mutex<HashMap<(Product, Zone), (Instant, Types)>>);

impl Catalogue {
    pub(crate) async fn types(
        &self,
        client: &windlass_scaleway::Client,
        product: Product,
        zone: &Zone,
    ) -> Result<Types, windlass_scaleway::Error> {
        // Held while a zone is listed, so that many templates ask once.
        let mut known = self.0.lock().await;
        let place = (product, zone.clone());
        if let Some((at, types)) = known.get(&place)
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(types));
        }
        let types: Types = Arc::new(match product {
            Product::Instance => {
                let listed = client.instance(zone).list_server_types().await?;
                listed.into_iter().map(|(name, kind)| (name, of_instance(&kind))).collect()
            }
            Product::AppleSilicon => {
                let listed = client.apple_silicon(zone).list_server_types().await?;
                listed.into_iter().map(|kind| (kind.name.clone(), of_host(&kind))).collect()
            }
        });
        known.retain(|_, (at, _)| at.elapsed() < FRESH);
        if known.len() < MAX_ZONES {
            known.insert(place, (Instant::now(), Arc::clone(&types)));
        }
        Ok(types)
    }
}

pub(crate) fn known(number: impl Into<u64>) -> Option<u64> {
    Some(number.into()).filter(|number| *number > 0)
}

fn of_instance(kind: &windlass_scaleway::types::instance::ServerType) -> Type {
    let architecture = match kind.arch {
        Architecture::X86_64 => Some("amd64"),
        Architecture::Arm64 => Some("arm64"),
        _ => None,
    };
    let is_nvidia = kind.gpu_info.as_ref().is_some_and(|info| info.gpu_manufacturer.eq_ignore_ascii_case("nvidia"));
    // Nothing is free: 0 is what a type has of which Scaleway tells no price.
    let price = windlass_lifecycle::euros(kind.hourly_price).and_then(|price| known(price.micros));
    let gpus = if is_nvidia { kind.gpu.into() } else { 0 };
    Type { cpus: known(kind.ncpus), memory: known(kind.ram), disk: None, gpus, architecture, price }
}

fn of_host(kind: &windlass_scaleway::types::apple_silicon::ServerType) -> Type {
    Type {
        cpus: kind.cpu.as_ref().and_then(|cpu| known(cpu.core_count)),
        memory: kind.memory.as_ref().and_then(|memory| known(memory.capacity)),
        disk: kind.disk.as_ref().and_then(|disk| known(disk.capacity)),
        // The cores of its graphics processor are no devices that a pod could have.
        gpus: 0,
        architecture: Some("arm64"),
        price: None,
    }
}
