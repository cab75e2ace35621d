use crate::random::Random;
use crate::world::{Image, RootVolume};

/// A public image: its label, its name and its sizes.
struct Offer {
    label: &'static str,
    name: &'static str,
    /// Architectures in the order of the API's answer, which is not the same for all labels (recorded).
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
pub(crate) const LABELS: [&str; 10] = [
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

/// The images of `label` in `zone`, those for local storage first (`type_asc`).
pub(crate) fn local_images(seed: u64, zone: &str, label: &str) -> Vec<LocalImage> {
    OFFERS
        .iter()
        .filter(|offer| offer.label == label)
        .flat_map(|offer| each(seed, zone, offer))
        .map(|(image, _)| image)
        .collect()
}

/// The image with this id, in the Instance API's view.
pub(crate) fn image(seed: u64, zone: &str, id: &str) -> Option<Image> {
    OFFERS
        .iter()
        .flat_map(|offer| each(seed, zone, offer).map(move |found| (offer, found)))
        .find(|(_, (local, _))| local.id == id)
        .map(|(offer, (local, key))| {
            let vendor = Random::named_id(seed, "the organization of public images");
            let snapshot = Random::named_id(seed, &format!("snapshot {key}"));
            let root = match local.kind {
                "instance_local" => RootVolume::Local { snapshot, name: offer.name.to_owned(), size: offer.root_size },
                _ => RootVolume::Block { snapshot, size: offer.root_size },
            };
            Image {
                id: local.id,
                zone: zone.to_owned(),
                name: offer.name.to_owned(),
                arch: local.arch.to_owned(),
                organization: vendor.clone(),
                project: vendor,
                public: true,
                root,
                from_server: String::new(),
                state: "available",
                tags: Vec::new(),
                created: 0,
                modified: 0,
            }
        })
}

fn each<'a>(seed: u64, zone: &'a str, offer: &'a Offer) -> impl Iterator<Item = (LocalImage, String)> + 'a {
    ["instance_local", "instance_sbs"].into_iter().flat_map(move |kind| {
        // Assumption from the recordings: for local storage only x86_64 images exist.
        let archs = if kind == "instance_local" { X86_ONLY } else { offer.archs };
        archs.iter().map(move |arch| {
            let key = format!("{zone} {} {kind} {arch}", offer.label);
            let image = LocalImage {
                id: Random::named_id(seed, &format!("image {key}")),
                label: offer.label,
                zone: zone.to_owned(),
                arch,
                kind,
                compatible: super::types::compatible(arch, offer.gpu, kind == "instance_local"),
            };
            (image, key)
        })
    })
}
