use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::random::Random;
use crate::world::{Image, RootVolume};

/// A public image: its label, its name and its sizes.
struct Offer {
    label: &'static str,
    name: &'static str,
    /// Architectures in the order of the API's answer, which is not the same for all labels and zones (recorded).
    archs: &'static [&'static str],
    gpu: bool,
    root_size: u64,
}

const ARM_FIRST: &[&str] = &["arm64", "x86_64"];
const X86_FIRST: &[&str] = &["x86_64", "arm64"];
const X86_ONLY: &[&str] = &["x86_64"];
const GB: u64 = 1_000_000_000;

const OFFERS: &[Offer] = &[
    Offer { label: "almalinux_9", name: "AlmaLinux 9", archs: X86_FIRST, gpu: false, root_size: 10 * GB },
    Offer { label: "debian_bookworm", name: "Debian Bookworm", archs: X86_FIRST, gpu: false, root_size: 10 * GB },
    Offer { label: "debian_bullseye", name: "Debian Bullseye", archs: X86_FIRST, gpu: false, root_size: 10 * GB },
    Offer { label: "debian_trixie", name: "Debian Trixie", archs: X86_FIRST, gpu: false, root_size: 10 * GB },
    Offer { label: "fedora_41", name: "Fedora 41", archs: X86_FIRST, gpu: false, root_size: 10 * GB },
    Offer { label: "rockylinux_9", name: "Rocky Linux 9", archs: X86_FIRST, gpu: false, root_size: 10 * GB },
    Offer { label: "ubuntu_focal", name: "Ubuntu 20.04 Focal Fossa", archs: ARM_FIRST, gpu: false, root_size: 10 * GB },
    Offer {
        label: "ubuntu_jammy",
        name: "Ubuntu 22.04 Jammy Jellyfish",
        archs: X86_FIRST,
        gpu: false,
        root_size: 10 * GB,
    },
    Offer {
        label: "ubuntu_jammy_gpu_os_12",
        name: "Ubuntu Jammy GPU OS 12 passthrough",
        archs: X86_ONLY,
        gpu: true,
        root_size: 20 * GB,
    },
    Offer {
        label: "ubuntu_noble",
        name: "Ubuntu 24.04 Noble Numbat",
        archs: ARM_FIRST,
        gpu: false,
        root_size: 10 * GB,
    },
];

/// Every label of the catalogue.
pub const LABELS: [&str; 10] = [
    "almalinux_9",
    "debian_bookworm",
    "debian_bullseye",
    "debian_trixie",
    "fedora_41",
    "rockylinux_9",
    "ubuntu_focal",
    "ubuntu_jammy",
    "ubuntu_jammy_gpu_os_12",
    "ubuntu_noble",
];

/// What the marketplace says about an image in one zone.
#[derive(Debug, Clone)]
pub(crate) struct LocalImage {
    pub(crate) id: String,
    pub(crate) label: &'static str,
    pub(crate) zone: String,
    pub(crate) arch: &'static str,
    /// `instance_sbs` or `instance_local`.
    pub(crate) kind: &'static str,
    pub(crate) compatible: Vec<&'static str>,
}

/// An image as the marketplace and as the Instance API show it.
#[derive(Debug, Clone)]
pub(crate) struct PublicImage {
    pub(crate) local: LocalImage,
    pub(crate) image: Image,
}

/// The public images of one simulator: their ids come from its seed. A zone's are made when they are first asked for,
/// because tests make simulators by the thousand.
#[derive(Debug)]
pub(crate) struct PublicImages {
    seed: u64,
    zones: BTreeMap<&'static str, OnceCell<Vec<PublicImage>>>,
}

impl PublicImages {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, zones: super::ZONES.into_iter().map(|zone| (zone, OnceCell::new())).collect() }
    }

    /// Each image of the marketplace: its id, its label and its name.
    pub(crate) fn offers(&self) -> impl Iterator<Item = (String, &'static str, &'static str)> {
        let id = |label| Random::named_id(self.seed, &format!("marketplace {label}"));
        OFFERS.iter().map(move |offer| (id(offer.label), offer.label, offer.name))
    }

    /// By label, those for local storage first (`type_asc`).
    pub(crate) fn in_zone(&self, zone: &str) -> &[PublicImage] {
        let made = self.zones.get(zone).map(|images| {
            images.get_or_init(|| OFFERS.iter().flat_map(|offer| make(self.seed, zone, offer)).collect())
        });
        made.map_or(&[], Vec::as_slice)
    }
}

fn make(seed: u64, zone: &str, offer: &Offer) -> Vec<PublicImage> {
    let vendor = Random::named_id(seed, "the organization of public images");
    let mut images = Vec::new();
    for kind in ["instance_local", "instance_sbs"] {
        // Assumption from the recordings: for local storage only x86_64 images exist.
        let archs = match kind {
            "instance_local" => X86_ONLY,
            _ if zone == "pl-waw-1" && offer.archs == X86_FIRST => ARM_FIRST,
            _ => offer.archs,
        };
        for arch in archs {
            let key = format!("{zone} {} {kind} {arch}", offer.label);
            let snapshot = Random::named_id(seed, &format!("snapshot {key}"));
            let root = match kind {
                "instance_local" => RootVolume::Local { snapshot, name: offer.name.to_owned(), size: offer.root_size },
                _ => RootVolume::Block { snapshot, size: offer.root_size },
            };
            let local = LocalImage {
                id: Random::named_id(seed, &format!("image {key}")),
                label: offer.label,
                zone: zone.to_owned(),
                arch,
                kind,
                compatible: super::types::compatible(arch, offer.gpu, kind == "instance_local"),
            };
            let image = Image {
                id: local.id.clone(),
                zone: zone.to_owned(),
                name: offer.name.to_owned(),
                arch: (*arch).to_owned(),
                organization: vendor.clone(),
                project: vendor.clone(),
                public: true,
                root,
                from_server: String::new(),
                state: "available",
                tags: Vec::new(),
                created: 0,
                modified: 0,
            };
            images.push(PublicImage { local, image });
        }
    }
    images
}
