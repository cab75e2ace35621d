use crate::types::tolerant::answers;

answers! {
    /// An operating system that hosts can be installed with.
    pub struct OperatingSystem {
        /// UUID. A new release has a new one: `15.6` and `15.6.1` are two systems.
        pub id: String,
        /// `macos-sequoia-15.6`. Stays the same over patch releases (recorded: `15.6` names version `15.6.1`).
        pub name: String,
        /// For people: `macOS Sequoia 15.6`.
        pub label: String,
        /// `Sequoia`.
        pub family: String,
        /// `15.6.1`.
        pub version: String,
        /// The major version of the Xcode that is installed.
        pub xcode_version: String,
        /// Whether Apple still tests it.
        pub is_beta: bool,
        /// Names of the server types that it runs on.
        pub compatible_server_types: Vec<String>,
        /// How soon it is delivered on which type. Empty inside a server (recorded).
        pub supported_server_types: Vec<SupportedServerType>,
        /// Tags of Scaleway's own.
        pub tags: Vec<String>,
        /// For people.
        pub description: String,
        pub release_notes_url: String,
    }

    /// How soon an operating system is delivered on a server type.
    pub struct SupportedServerType {
        /// The server type's name.
        pub server_type: String,
        /// Whether hosts stand ready with it.
        pub fast_delivery_available: bool,
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListOperatingSystems {
    /// Only those for this server type.
    pub server_type: Option<String>,
    /// Only with this name; a beginning of the version does: `11.1` finds `11.1.2` (SDK).
    pub name: Option<String>,
}
