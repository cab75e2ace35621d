//! Where credentials and defaults come from. See [`Settings::load`].

mod environment;
mod error;
mod file;
mod load;
mod secret;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::location::{Region, Zone};

pub use environment::Environment;
pub use error::ConfigurationError;
pub use load::{check_api_url, check_identifier};
pub use secret::SecretKey;

/// Scaleway's API.
pub const DEFAULT_API_URL: &str = "https://api.scaleway.com";

/// The place of a key that the caller gave itself.
const GIVEN_SECRET_KEY: &str = "the given secret key";

/// Everything a [`Client`](crate::Client) needs to know. Make one with [`Settings::load`] (as Scaleway's tools do) or
/// [`Settings::new`] (explicitly). Its `Debug` form shows no secret.
#[derive(Debug, Clone)]
pub struct Settings {
    secret_key: SecretKey,
    secret_key_place: String,
    access_key: Option<String>,
    organization_id: Option<String>,
    project_id: Option<String>,
    region: Option<Region>,
    zone: Option<Zone>,
    api_url: Url,
    insecure: bool,
    user_agent: String,
    limits: Limits,
    notices: Vec<String>,
    places: SettingsPlaces,
}

/// Where the values of [`Settings`] were found, in words: a variable, or a key and its file. `None`: nowhere, or the
/// caller set it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettingsPlaces {
    /// The profile that applies, with its file.
    pub profile: Option<String>,
    pub access_key: Option<String>,
    pub organization_id: Option<String>,
    pub project_id: Option<String>,
    pub zone: Option<String>,
    /// The API's address.
    pub api_url: Option<String>,
}

/// What the caller sets itself; it wins over the environment and the configuration file.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ExplicitSettings {
    /// The configuration file to read instead of Scaleway's usual places. It must exist.
    pub config_path: Option<PathBuf>,
    /// The profile of the configuration file. It must exist.
    pub profile: Option<String>,
    /// Access key: `SCW` and 17 capitals or digits. The APIs don't need it.
    pub access_key: Option<String>,
    /// Secret key: a UUID.
    pub secret_key: Option<SecretKey>,
    /// Default organization.
    pub organization_id: Option<String>,
    /// Default project: the owner of what is created.
    pub project_id: Option<String>,
    /// Default region.
    pub region: Option<Region>,
    /// Default zone.
    pub zone: Option<Zone>,
    /// Base of all calls, with an optional path prefix.
    pub api_url: Option<String>,
    /// Accept any TLS certificate.
    pub insecure: Option<bool>,
    /// Appended to `windlass/<version>`.
    pub user_agent: Option<String>,
    /// Limits of the client. No environment variable and no file sets them.
    pub limits: Option<Limits>,
}

/// The client's own limits, shared by all its clones. They protect Scaleway and us; they are no promise by Scaleway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Calls per second in the long run. Default 30.
    ///
    /// Scaleway publishes no number (assumption: rate-limit). Recorded: the first 429 came when one client sent 65 or
    /// more calls within a second. A burst of 30 and 30 per second is at most 60 in any second.
    pub calls_per_second: NonZeroU32,
    /// Calls that may be made at once after a pause. Default 30.
    pub burst: NonZeroU32,
    /// Calls under way at the same time to one product's API (Instance, Block, ...), so that one that hangs does not
    /// keep the others waiting. Default 32.
    pub concurrent_calls: NonZeroU32,
    /// From sending to the whole answer, for each call. Default 30 s.
    pub call_deadline: Duration,
    /// Longest wait for the limits above before a call is given up unsent. Default 120 s.
    pub queue_deadline: Duration,
    /// Longest answer that is read, in bytes. Default 16 MiB.
    pub answer_bytes: usize,
}

const fn positive(number: u32) -> NonZeroU32 {
    match NonZeroU32::new(number) {
        Some(number) => number,
        None => panic!("the default limits are positive"),
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls_per_second: positive(30),
            burst: positive(30),
            concurrent_calls: positive(32),
            call_deadline: Duration::from_secs(30),
            queue_deadline: Duration::from_secs(120),
            answer_bytes: 16 * 1024 * 1024,
        }
    }
}

impl Settings {
    /// Settings with this key and nothing else: Scaleway's own address, default limits, no default zone or project.
    ///
    /// Reads neither environment nor files.
    pub fn new(secret_key: SecretKey) -> Self {
        Self {
            secret_key,
            secret_key_place: GIVEN_SECRET_KEY.to_owned(),
            access_key: None,
            organization_id: None,
            project_id: None,
            region: None,
            zone: None,
            api_url: Url::parse(DEFAULT_API_URL).expect("the constant is a URL"),
            insecure: false,
            user_agent: own_user_agent(),
            limits: Limits::default(),
            notices: Vec::new(),
            places: SettingsPlaces::default(),
        }
    }

    /// The same with another base of all calls.
    ///
    /// # Errors
    /// When it is no `http` or `https` address, or holds credentials, a query or a fragment.
    pub fn with_api_url(mut self, api_url: &str) -> Result<Self, ConfigurationError> {
        self.api_url = load::api_url(api_url, "the given address of the API (api-url)")?;
        Ok(self)
    }

    /// The same with other limits.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same with a default organization.
    pub fn with_organization_id(mut self, organization_id: impl Into<String>) -> Self {
        self.organization_id = Some(organization_id.into());
        self
    }

    /// The same with a default project.
    pub fn with_project_id(mut self, project_id: impl Into<String>) -> Self {
        self.project_id = Some(project_id.into());
        self
    }

    /// The same with a default zone, and its region as default region.
    pub fn with_zone(mut self, zone: Zone) -> Self {
        self.region = Some(zone.region());
        self.zone = Some(zone);
        self
    }

    /// The secret key, wrapped so that it does not show.
    pub fn secret_key(&self) -> &SecretKey {
        &self.secret_key
    }

    /// Where the secret key was found, for people: `SCW_SECRET_KEY`, `` `secret_key` in profile ci of ... ``.
    pub fn secret_key_place(&self) -> &str {
        &self.secret_key_place
    }

    /// The access key, when one is configured. Not a secret.
    pub fn access_key(&self) -> Option<&str> {
        self.access_key.as_deref()
    }

    /// The default organization, when one is configured.
    pub fn organization_id(&self) -> Option<&str> {
        self.organization_id.as_deref()
    }

    /// The default project, when one is configured.
    pub fn project_id(&self) -> Option<&str> {
        self.project_id.as_deref()
    }

    /// The default region, when one is configured; else the default zone's.
    pub fn region(&self) -> Option<&Region> {
        self.region.as_ref()
    }

    /// The default zone, when one is configured.
    pub fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref()
    }

    /// The default zone.
    ///
    /// # Errors
    /// When none is configured: which variable or profile key to set.
    pub fn require_zone(&self) -> Result<&Zone, ConfigurationError> {
        self.zone.as_ref().ok_or(ConfigurationError::Missing {
            what: "zone",
            variable: "SCW_DEFAULT_ZONE",
            key: "default_zone",
            looked: "the environment and the configuration file".to_owned(),
        })
    }

    /// The default project.
    ///
    /// # Errors
    /// When none is configured: which variable or profile key to set.
    pub fn require_project_id(&self) -> Result<&str, ConfigurationError> {
        self.project_id.as_deref().ok_or(ConfigurationError::Missing {
            what: "project",
            variable: "SCW_DEFAULT_PROJECT_ID",
            key: "default_project_id",
            looked: "the environment and the configuration file".to_owned(),
        })
    }

    /// Base of all calls.
    pub fn api_url(&self) -> &Url {
        &self.api_url
    }

    /// Whether any TLS certificate is accepted.
    pub fn insecure(&self) -> bool {
        self.insecure
    }

    /// What the client calls itself: `windlass/<version>`, and what was configured after it.
    pub fn user_agent(&self) -> &str {
        &self.user_agent
    }

    /// The client's limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Where the values were found; of the secret key, [`Settings::secret_key_place`] says it.
    pub fn places(&self) -> &SettingsPlaces {
        &self.places
    }

    /// What the user should know: deprecated names that were used, certificates that are not checked, a token that
    /// travels unencrypted. One line each, without secrets.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }
}

fn own_user_agent() -> String {
    format!("windlass/{}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests;
