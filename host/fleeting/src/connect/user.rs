//! Who logs in: by the family of the image.

/// What is known of a family of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// The operating system in Go's words, which are the runner's.
    pub(crate) operating_system: &'static str,
    /// Who can log in with a key.
    pub(crate) user: &'static str,
}

/// Scaleway's Linux images let root log in with the authorized keys. Known of those the existing plugins are used
/// with, Ubuntu and Debian: their default is root for every image (assumption: image-accounts).
/// `connector_config.username` wins.
const LINUX: Family = Family { operating_system: "linux", user: "root" };
/// Scaleway's Windows images log in as Microsoft's default account (assumption: image-accounts).
const WINDOWS: Family = Family { operating_system: "windows", user: "Administrator" };

/// The family of an image, by its label or name.
pub(crate) fn family(image: &str) -> Family {
    if image.to_ascii_lowercase().contains("windows") { WINDOWS } else { LINUX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_names_lead_to_their_family() {
        assert_eq!(family("ubuntu_noble").user, "root");
        assert_eq!(family("Debian Bookworm"), LINUX);
        assert_eq!(family("windows_server_2022").operating_system, "windows");
    }
}
