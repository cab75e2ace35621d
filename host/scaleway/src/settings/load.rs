use url::Url;

use super::file::{self, ConfigFile, ConfigPath, Profile};
use super::secret::{SecretKey, is_uuid};
use super::{ConfigurationError, Environment, ExplicitSettings, Settings, SettingsPlaces, own_user_agent};
use crate::location::{Region, Zone};

/// Scaleway's limit on the length of a user agent, in bytes.
const USER_AGENT_BYTES: usize = 512;

/// A value and where it came from.
struct Found<T> {
    value: T,
    place: String,
}

/// Everything a value can come from.
struct Sources<'a> {
    environment: &'a Environment,
    profile: Profile,
    /// `profile ci of /home/me/.config/scw/config.yaml`.
    profile_place: String,
    notices: Vec<String>,
}

impl Settings {
    /// Reads credentials and defaults as Scaleway's own tools do.
    ///
    /// # Order
    /// For each value: `explicit`, else the environment (`SCW_*`), else the profile of the configuration file.
    /// The file: `explicit.config_path`, else `SCW_CONFIG_PATH`, else `$XDG_CONFIG_HOME/scw/config.yaml`, else
    /// `$HOME/.config/scw/config.yaml`. The profile: `explicit.profile`, else `SCW_PROFILE`, else the file's
    /// `active_profile`, else its top level; a named profile inherits what it does not set from the top level (SDK).
    ///
    /// Deprecated variables (`SCW_TOKEN`, `SCW_ORGANIZATION`, `SCW_REGION`, `SCW_TLSVERIFY`, `SCALEWAY_TOKEN`,
    /// `SCALEWAY_ACCESS_KEY`, `SCALEWAY_ORGANIZATION`, `SCALEWAY_REGION`) count where the current one is absent, as
    /// in Scaleway's SDK, and each leaves a notice. Where no region is configured, the zone's is the default.
    ///
    /// # Where we are stricter than Scaleway's SDK
    /// A named file or profile that does not exist is an error, a boolean that is none too, and an empty variable
    /// counts as absent.
    ///
    /// # Errors
    /// One line with the place and the remedy; never the value of a key.
    pub fn load(explicit: &ExplicitSettings, environment: &Environment) -> Result<Settings, ConfigurationError> {
        let place = file::config_path(explicit.config_path.as_deref(), environment);
        let config = match &place {
            Some(place) => file::read(place)?,
            None => None,
        };
        let looked_in_file = match (&place, &config) {
            (Some(place), Some(_)) => place.path.display().to_string(),
            (Some(place), None) => format!("{} (absent)", place.path.display()),
            (None, _) => "no configuration file, as neither XDG_CONFIG_HOME nor HOME is set".to_owned(),
        };
        let config_applies = config.is_some();
        let (profile, profile_place) = active_profile(explicit, environment, &place, config, &looked_in_file)?;
        let mut places =
            SettingsPlaces { profile: config_applies.then(|| profile_place.clone()), ..Default::default() };
        let mut wrong = Vec::new();
        let mut sources = Sources { environment, profile, profile_place, notices: Vec::new() };

        let access_key = match &explicit.access_key {
            Some(key) => Some(Found { value: key.clone(), place: "the given access key".to_owned() }),
            None => {
                sources.text(&["SCW_ACCESS_KEY", "SCALEWAY_ACCESS_KEY"], |profile| &profile.access_key, "access_key")
            }
        };
        let secret_key = match &explicit.secret_key {
            Some(key) => Some((key.clone(), super::GIVEN_SECRET_KEY.to_owned())),
            None => kept(&mut wrong, sources.secret_key(&looked_in_file)),
        };
        places.access_key = place_of(&access_key, explicit.access_key.is_none());
        let access_key = kept(&mut wrong, access_key.map(access_key_checked).transpose()).flatten().flatten();

        let organization_id = match &explicit.organization_id {
            Some(id) => Some(Found { value: id.clone(), place: "the organization".to_owned() }),
            None => sources.text(
                &["SCW_DEFAULT_ORGANIZATION_ID", "SCW_ORGANIZATION", "SCALEWAY_ORGANIZATION"],
                |profile| &profile.default_organization_id,
                "default_organization_id",
            ),
        };
        let project_id = match &explicit.project_id {
            Some(id) => Some(Found { value: id.clone(), place: "the project".to_owned() }),
            None => {
                sources.text(&["SCW_DEFAULT_PROJECT_ID"], |profile| &profile.default_project_id, "default_project_id")
            }
        };
        places.organization_id = place_of(&organization_id, explicit.organization_id.is_none());
        places.project_id = place_of(&project_id, explicit.project_id.is_none());
        let zone = match &explicit.zone {
            Some(zone) => Some(zone.clone()),
            None => {
                let found = sources.text(&["SCW_DEFAULT_ZONE"], |profile| &profile.default_zone, "default_zone");
                places.zone = place_of(&found, true);
                kept(&mut wrong, found.map(located::<Zone>).transpose()).flatten()
            }
        };
        let region = match &explicit.region {
            Some(region) => Some(region.clone()),
            None => {
                let found = sources.text(
                    &["SCW_DEFAULT_REGION", "SCW_REGION", "SCALEWAY_REGION"],
                    |profile| &profile.default_region,
                    "default_region",
                );
                kept(&mut wrong, found.map(|found| sources.region(found)).transpose()).flatten()
            }
        };
        let region = region.or_else(|| zone.as_ref().map(Zone::region));

        let api_url = match &explicit.api_url {
            Some(url) => kept(&mut wrong, api_url(url, "the given address of the API (api-url)")),
            None => match sources.text(&["SCW_API_URL"], |profile| &profile.api_url, "api_url") {
                Some(found) => {
                    places.api_url = Some(found.place.clone());
                    kept(&mut wrong, api_url(&found.value, &found.place))
                }
                None => kept(&mut wrong, api_url(super::DEFAULT_API_URL, "the default")),
            },
        };
        let insecure = match explicit.insecure {
            Some(insecure) => insecure,
            None => kept(&mut wrong, sources.insecure()).unwrap_or_default(),
        };
        let user_agent = match &explicit.user_agent {
            Some(agent) => Some(Found { value: agent.clone(), place: "the given user agent".to_owned() }),
            None => sources.text(&["SCW_USER_AGENT"], |profile| &profile.user_agent, "user_agent"),
        };
        let user_agent = kept(&mut wrong, user_agent.map(user_agent_appended).transpose()).flatten();
        let organization_id = kept(&mut wrong, organization_id.map(identifier).transpose()).flatten();
        let project_id = kept(&mut wrong, project_id.map(identifier).transpose()).flatten();
        let (Some((secret_key, secret_key_place)), Some(api_url), true) = (secret_key, api_url, wrong.is_empty())
        else {
            return Err(ConfigurationError::of(wrong));
        };

        let mut notices = sources.notices;
        if insecure {
            notices
                .push("TLS certificates are not checked (insecure): anybody on the way can read the token".to_owned());
        }
        if api_url.scheme() == "http" && !crate::transport::is_loopback(&api_url) {
            notices.push(format!("the token travels unencrypted to {api_url}: use https"));
        }
        Ok(Settings {
            secret_key,
            secret_key_place,
            access_key,
            organization_id,
            project_id,
            region,
            zone,
            api_url,
            insecure,
            user_agent: user_agent.unwrap_or_else(own_user_agent),
            limits: explicit.limits.unwrap_or_default(),
            notices,
            places,
        })
    }
}

/// What was read; an error is kept beside the others, so that all are told at once.
fn kept<T>(wrong: &mut Vec<ConfigurationError>, read: Result<T, ConfigurationError>) -> Option<T> {
    read.map_err(|error| wrong.push(error)).ok()
}

fn place_of<T>(found: &Option<Found<T>>, looked: bool) -> Option<String> {
    found.as_ref().filter(|_| looked).map(|found| found.place.clone())
}

/// Chooses the profile and merges it over the top level.
fn active_profile(
    explicit: &ExplicitSettings,
    environment: &Environment,
    place: &Option<ConfigPath>,
    config: Option<ConfigFile>,
    looked_in_file: &str,
) -> Result<(Profile, String), ConfigurationError> {
    let asked = match (&explicit.profile, environment.get("SCW_PROFILE")) {
        (Some(profile), _) => Some((profile.clone(), "an option or the configuration")),
        (None, Some(profile)) => Some((profile.to_owned(), "SCW_PROFILE")),
        (None, None) => None,
    };
    let unknown =
        |(profile, named_by): (String, &'static str), known: Vec<String>| ConfigurationError::UnknownProfile {
            profile,
            named_by,
            looked: looked_in_file.to_owned(),
            known: listed(&known),
        };
    let (Some(place), Some(config)) = (place, config) else {
        return match asked {
            Some(asked) => Err(unknown(asked, Vec::new())),
            None => Ok((Profile::default(), looked_in_file.to_owned())),
        };
    };
    let path = place.path.display();
    let named =
        asked.or_else(|| config.active_profile.filter(|name| !name.is_empty()).map(|name| (name, "active_profile")));
    let Some((name, named_by)) = named else {
        return Ok((config.top_level, format!("the top level of {path}")));
    };
    let mut profiles = config.profiles.unwrap_or_default();
    match profiles.remove(&name) {
        Some(profile) => {
            let merged = profile.unwrap_or_default().over(config.top_level);
            Ok((merged, format!("profile {name} of {path}")))
        }
        None => Err(unknown((name, named_by), profiles.into_keys().collect())),
    }
}

/// The first names, and how many there are besides.
fn listed(profiles: &[String]) -> String {
    const SHOWN: usize = 16;
    let names: Vec<String> = profiles.iter().take(SHOWN).map(|name| name.chars().take(64).collect()).collect();
    match profiles.len() {
        0 => "no profiles".to_owned(),
        1..=SHOWN => names.join(", "),
        more => format!("{} and {} more", names.join(", "), more - SHOWN),
    }
}

impl Profile {
    /// What this profile does not set comes from `base`.
    fn over(self, base: Profile) -> Profile {
        Profile {
            access_key: self.access_key.or(base.access_key),
            secret_key: self.secret_key.or(base.secret_key),
            api_url: self.api_url.or(base.api_url),
            insecure: self.insecure.or(base.insecure),
            default_organization_id: self.default_organization_id.or(base.default_organization_id),
            default_project_id: self.default_project_id.or(base.default_project_id),
            default_region: self.default_region.or(base.default_region),
            default_zone: self.default_zone.or(base.default_zone),
            user_agent: self.user_agent.or(base.user_agent),
        }
    }
}

impl Sources<'_> {
    /// The first variable that is set; the names after the first are deprecated and leave a notice.
    fn variable(&mut self, names: &[&'static str]) -> Option<Found<String>> {
        for (index, name) in names.iter().enumerate() {
            if let Some(value) = self.environment.get(name) {
                if index > 0 {
                    self.notices.push(format!("{name} is deprecated, use {}", names[0]));
                }
                return Some(Found { value: value.to_owned(), place: (*name).to_owned() });
            }
        }
        None
    }

    fn text(
        &mut self,
        names: &[&'static str],
        of_profile: impl Fn(&Profile) -> &Option<String>,
        key: &str,
    ) -> Option<Found<String>> {
        self.variable(names).or_else(|| {
            let value = of_profile(&self.profile).clone().filter(|value| !value.is_empty())?;
            Some(Found { value, place: format!("`{key}` in {}", self.profile_place) })
        })
    }

    /// The secret key, and where it was found.
    fn secret_key(&mut self, looked_in_file: &str) -> Result<(SecretKey, String), ConfigurationError> {
        // SCALEWAY_ACCESS_KEY was once used for both keys (SDK); it is the secret one only when it looks like one.
        let names = match self.environment.get("SCALEWAY_ACCESS_KEY") {
            Some(key) if is_uuid(key) => &["SCW_SECRET_KEY", "SCW_TOKEN", "SCALEWAY_TOKEN", "SCALEWAY_ACCESS_KEY"][..],
            _ => &["SCW_SECRET_KEY", "SCW_TOKEN", "SCALEWAY_TOKEN"][..],
        };
        match self.text(names, |profile| &profile.secret_key, "secret_key") {
            Some(found) => Ok((SecretKey::parse(&found.value, &found.place)?, found.place)),
            None => Err(ConfigurationError::Missing {
                what: "secret key",
                variable: "SCW_SECRET_KEY",
                key: "secret_key",
                looked: if self.profile_place == looked_in_file {
                    format!("the environment and {looked_in_file}")
                } else {
                    format!("the environment and {}", self.profile_place)
                },
            }),
        }
    }

    /// The regions' oldest names are still understood, as in the SDK.
    fn region(&mut self, found: Found<String>) -> Result<Region, ConfigurationError> {
        let current = match found.value.as_str() {
            "par1" => "fr-par",
            "ams1" => "nl-ams",
            _ => return located(found),
        };
        self.notices.push(format!("{}: {} is a deprecated name, use {current}", found.place, found.value));
        located(Found { value: current.to_owned(), place: found.place })
    }

    fn insecure(&mut self) -> Result<bool, ConfigurationError> {
        let Some(found) = self.variable(&["SCW_INSECURE", "SCW_TLSVERIFY"]) else {
            return Ok(self.profile.insecure.unwrap_or(false));
        };
        // Go's ParseBool, which Scaleway's tools use.
        let value = match found.value.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => {
                return Err(ConfigurationError::Invalid {
                    place: found.place,
                    problem: "takes true or false (or 1, t, 0, f)".to_owned(),
                });
            }
        };
        // The deprecated variable asks the opposite question.
        Ok(if found.place == "SCW_TLSVERIFY" { !value } else { value })
    }
}

fn located<T>(found: Found<String>) -> Result<T, ConfigurationError>
where
    T: std::str::FromStr<Err = crate::location::InvalidLocation>,
{
    found.value.parse().map_err(|error: T::Err| ConfigurationError::Invalid {
        place: found.place,
        problem: format!("is wrong: {error}"),
    })
}

/// `None` for a deprecated variable that holds the secret key (see `secret_key`).
fn access_key_checked(found: Found<String>) -> Result<Option<String>, ConfigurationError> {
    let Found { value, place } = found;
    let is_access_key = value.len() == 20
        && value.starts_with("SCW")
        && value.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    if is_access_key {
        Ok(Some(value))
    } else if place == "SCALEWAY_ACCESS_KEY" && is_uuid(&value) {
        Ok(None)
    } else {
        Err(ConfigurationError::Invalid {
            place,
            problem: "is not an access key: one is SCW and 17 capitals or digits; it is not shown here, because it \
                      may be the secret key in the wrong place"
                .to_owned(),
        })
    }
}

/// Organizations and projects: UUIDs, checked here because they end up in bodies that Scaleway would refuse one by one.
fn identifier(found: Found<String>) -> Result<String, ConfigurationError> {
    match check_identifier(&found.value) {
        Ok(()) => Ok(found.value),
        Err(problem) => Err(ConfigurationError::Invalid { place: found.place, problem }),
    }
}

/// Checks the id of an organization or project.
///
/// # Errors
/// What is wrong with it, in words that follow its place.
pub fn check_identifier(id: &str) -> Result<(), String> {
    if is_uuid(id) {
        Ok(())
    } else {
        Err("is not a UUID: copy the id, not the name, from Scaleway's console".to_owned())
    }
}

fn user_agent_appended(found: Found<String>) -> Result<String, ConfigurationError> {
    let agent = format!("{} {}", own_user_agent(), found.value.trim());
    if agent.len() <= USER_AGENT_BYTES && agent.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        Ok(agent)
    } else {
        Err(ConfigurationError::Invalid {
            place: found.place,
            problem: format!("makes no user agent: at most {USER_AGENT_BYTES} printable ASCII characters in all"),
        })
    }
}

pub(super) fn api_url(text: &str, place: &str) -> Result<Url, ConfigurationError> {
    check_api_url(text).map_err(|problem| ConfigurationError::Invalid { place: place.to_owned(), problem })
}

/// Checks the base of all calls: an address and an optional path, nothing that would travel along unnoticed.
///
/// # Errors
/// What is wrong with it, in words that follow its place.
pub fn check_api_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).map_err(|_| "is not an address like https://api.scaleway.com".to_owned())?;
    let problem = if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        "is not an http or https address: write https://api.scaleway.com, or leave it out"
    } else if !url.username().is_empty() || url.password().is_some() {
        "holds a user name or password, which belong nowhere in an address"
    } else if url.query().is_some() || url.fragment().is_some() {
        "holds a query or a fragment: leave out what begins with ? or #"
    } else {
        return Ok(url);
    };
    Err(problem.to_owned())
}
