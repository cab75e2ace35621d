use std::path::Path;

use super::*;

/// Own, made-up keys.
const KEY_A: &str = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa";
const KEY_B: &str = "bbbbbbbb-2222-4222-8222-bbbbbbbbbbbb";
const KEY_C: &str = "cccccccc-3333-4333-8333-cccccccccccc";
const PROJECT: &str = "dddddddd-4444-4444-8444-dddddddddddd";

const FILE: &str = "
access_key: SCWTOPLEVEL000000000
secret_key: cccccccc-3333-4333-8333-cccccccccccc
default_project_id: dddddddd-4444-4444-8444-dddddddddddd
default_zone: fr-par-1
send_telemetry: true
a_key_of_tomorrow: [1, 2]
profiles:
  named:
    secret_key: bbbbbbbb-2222-4222-8222-bbbbbbbbbbbb
    default_zone: nl-ams-2
    api_url: https://example.com/prefix
    insecure: true
    user_agent: ci
  empty:
";

struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    /// A home with this text as Scaleway's configuration file.
    fn with(file: &str) -> Self {
        let home = Self::empty();
        let folder = home.path().join(".config/scw");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.yaml"), file).unwrap();
        home
    }

    fn empty() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn environment(&self, variables: &[(&str, &str)]) -> Environment {
        let home = ("HOME".to_owned(), self.path().display().to_string());
        variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).chain([home]).collect()
    }

    fn load(&self, variables: &[(&str, &str)]) -> Result<Settings, ConfigurationError> {
        Settings::load(&ExplicitSettings::default(), &self.environment(variables))
    }
}

fn key_of(settings: &Settings) -> &str {
    settings.secret_key().expose()
}

#[test]
fn explicit_wins_over_environment_over_named_profile_over_top_level() {
    let home = Home::with(FILE);
    let explicit = ExplicitSettings { secret_key: Some(KEY_A.parse().unwrap()), ..Default::default() };
    type Case<'a> = (&'a ExplicitSettings, &'a [(&'a str, &'a str)], &'a str);
    let cases: [Case<'_>; 6] = [
        (&ExplicitSettings::default(), &[], KEY_C),
        (&ExplicitSettings::default(), &[("SCW_PROFILE", "named")], KEY_B),
        (&ExplicitSettings::default(), &[("SCW_SECRET_KEY", KEY_A)], KEY_A),
        (&ExplicitSettings::default(), &[("SCW_SECRET_KEY", KEY_A), ("SCW_PROFILE", "named")], KEY_A),
        (&explicit, &[("SCW_SECRET_KEY", KEY_B), ("SCW_PROFILE", "named")], KEY_A),
        (&ExplicitSettings::default(), &[("SCW_SECRET_KEY", "")], KEY_C),
    ];
    for (index, (explicit, variables, expected)) in cases.into_iter().enumerate() {
        let settings = Settings::load(explicit, &home.environment(variables)).unwrap();
        assert_eq!(key_of(&settings), expected, "case {index}");
    }
}

#[test]
fn the_place_of_the_secret_key_is_told_without_the_key() {
    let home = Home::with(FILE);
    let place = |explicit: &ExplicitSettings, variables: &[(&str, &str)]| {
        Settings::load(explicit, &home.environment(variables)).unwrap().secret_key_place().to_owned()
    };
    let none = ExplicitSettings::default();
    assert_eq!(place(&none, &[("SCW_SECRET_KEY", KEY_A)]), "SCW_SECRET_KEY");
    let of_profile = place(&none, &[("SCW_PROFILE", "named")]);
    assert!(of_profile.starts_with("`secret_key` in profile named of "), "{of_profile}");
    let given = ExplicitSettings { secret_key: Some(KEY_A.parse().unwrap()), ..ExplicitSettings::default() };
    assert_eq!(place(&given, &[("SCW_SECRET_KEY", KEY_B)]), "the given secret key");
}

#[test]
fn each_value_has_the_place_where_it_was_found_and_a_given_one_has_none() {
    let home = Home::with("default_zone: pl-waw-1\napi_url: http://127.0.0.1:1\n");
    let variables = [("SCW_SECRET_KEY", KEY_A), ("SCW_DEFAULT_PROJECT_ID", KEY_B)];
    let places = home.load(&variables).unwrap().places().clone();
    assert_eq!(places.project_id.as_deref(), Some("SCW_DEFAULT_PROJECT_ID"));
    for (found, key) in [(&places.zone, "default_zone"), (&places.api_url, "api_url")] {
        let found = found.as_deref().unwrap_or_default();
        assert!(found.starts_with(&format!("`{key}` in the top level of ")), "{found}");
    }
    assert!(places.profile.is_some_and(|profile| profile.starts_with("the top level of ")));
    assert_eq!((places.access_key, places.organization_id), (None, None));
    let given = ExplicitSettings { zone: Some("fr-par-1".parse().unwrap()), ..ExplicitSettings::default() };
    let given = Settings::load(&given, &home.environment(&variables)).unwrap();
    assert_eq!(given.places().zone, None);
}

#[test]
fn the_profile_is_the_given_one_else_scw_profile_else_active_profile_else_the_top_level() {
    let home = Home::with(&format!("active_profile: named\n{FILE}\n  other:\n    default_zone: pl-waw-1\n"));
    let zone = |explicit: Option<&str>, variables: &[(&str, &str)]| {
        let explicit = ExplicitSettings { profile: explicit.map(str::to_owned), ..Default::default() };
        Settings::load(&explicit, &home.environment(variables)).unwrap().zone().unwrap().to_string()
    };
    assert_eq!(zone(None, &[]), "nl-ams-2");
    assert_eq!(zone(None, &[("SCW_PROFILE", "other")]), "pl-waw-1");
    assert_eq!(zone(Some("empty"), &[("SCW_PROFILE", "other")]), "fr-par-1");
    assert_eq!(Home::with(FILE).load(&[]).unwrap().zone().unwrap().as_str(), "fr-par-1");
}

#[test]
fn a_named_profile_inherits_from_the_top_level_what_it_does_not_set() {
    let settings = Home::with(FILE).load(&[("SCW_PROFILE", "named")]).unwrap();
    assert_eq!(settings.access_key(), Some("SCWTOPLEVEL000000000"));
    assert_eq!(settings.project_id(), Some(PROJECT));
    assert_eq!(settings.zone().unwrap().as_str(), "nl-ams-2");
    assert_eq!(settings.region().unwrap().as_str(), "nl-ams", "the zone's, as none is configured");
    assert_eq!(settings.api_url().as_str(), "https://example.com/prefix");
    assert!(settings.insecure());
    assert_eq!(settings.user_agent(), format!("windlass/{} ci", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_file_is_the_given_one_else_scw_config_path_else_xdg_else_home() {
    let home = Home::with("secret_key: aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa");
    let xdg = Home::with("");
    std::fs::create_dir_all(xdg.path().join("scw")).unwrap();
    std::fs::write(xdg.path().join("scw/config.yaml"), format!("secret_key: {KEY_B}")).unwrap();
    let named = xdg.path().join("named.yaml");
    std::fs::write(&named, format!("secret_key: {KEY_C}")).unwrap();
    let (xdg_text, named_text) = (xdg.path().display().to_string(), named.display().to_string());

    assert_eq!(key_of(&home.load(&[]).unwrap()), KEY_A);
    assert_eq!(key_of(&home.load(&[("XDG_CONFIG_HOME", &xdg_text)]).unwrap()), KEY_B);
    let both = [("XDG_CONFIG_HOME", xdg_text.as_str()), ("SCW_CONFIG_PATH", named_text.as_str())];
    assert_eq!(key_of(&home.load(&both).unwrap()), KEY_C);
    let explicit = ExplicitSettings { config_path: Some(xdg.path().join("scw/config.yaml")), ..Default::default() };
    assert_eq!(key_of(&Settings::load(&explicit, &home.environment(&both)).unwrap()), KEY_B);
}

#[test]
fn a_missing_key_is_one_line_that_says_what_to_set_and_where_it_was_looked_for() {
    let home = Home::empty();
    let message = home.load(&[]).unwrap_err().to_string();
    let file = home.path().join(".config/scw/config.yaml");
    assert_eq!(
        message,
        format!(
            "no secret key: set SCW_SECRET_KEY, or `secret_key` in a profile (looked in the environment and {} \
             (absent))",
            file.display()
        )
    );
    let home = Home::with("default_zone: fr-par-1\nprofiles:\n  ci:\n    default_zone: fr-par-2\n");
    let message = home.load(&[("SCW_PROFILE", "ci")]).unwrap_err().to_string();
    assert!(message.contains("profile ci of"), "{message}");
    let message = Settings::load(&ExplicitSettings::default(), &Environment::empty()).unwrap_err().to_string();
    assert!(message.contains("neither XDG_CONFIG_HOME nor HOME"), "{message}");
    assert!(!message.contains('\n'));
}

#[test]
fn a_missing_zone_or_project_is_said_in_the_same_way() {
    let settings = Home::empty().load(&[("SCW_SECRET_KEY", KEY_A)]).unwrap();
    assert!(settings.require_zone().unwrap_err().to_string().contains("set SCW_DEFAULT_ZONE, or `default_zone`"));
    assert!(settings.require_project_id().unwrap_err().to_string().contains("SCW_DEFAULT_PROJECT_ID"));
}

#[test]
fn deprecated_variables_count_last_and_leave_a_notice() {
    let home = Home::with(FILE);
    for name in ["SCW_TOKEN", "SCALEWAY_TOKEN", "SCALEWAY_ACCESS_KEY"] {
        let settings = home.load(&[(name, KEY_A)]).unwrap();
        assert_eq!(key_of(&settings), KEY_A, "{name}");
        assert!(
            settings.notices().contains(&format!("{name} is deprecated, use SCW_SECRET_KEY")),
            "{:?}",
            settings.notices()
        );
        let settings = home.load(&[(name, KEY_A), ("SCW_SECRET_KEY", KEY_B)]).unwrap();
        assert_eq!(key_of(&settings), KEY_B, "{name}");
    }
    let settings = home
        .load(&[("SCALEWAY_ORGANIZATION", PROJECT), ("SCALEWAY_REGION", "par1"), ("SCW_TLSVERIFY", "false")])
        .unwrap();
    assert_eq!(settings.organization_id(), Some(PROJECT));
    assert_eq!(settings.region().unwrap().as_str(), "fr-par");
    assert!(settings.insecure(), "SCW_TLSVERIFY asks the opposite question");
    assert!(settings.notices().iter().any(|notice| notice.contains("par1 is a deprecated name, use fr-par")));
}

#[test]
fn insecure_is_read_as_go_reads_it() {
    let home = Home::with(FILE);
    for (value, expected) in [("1", true), ("TRUE", true), ("t", true), ("0", false), ("False", false)] {
        assert_eq!(home.load(&[("SCW_INSECURE", value)]).unwrap().insecure(), expected, "{value}");
    }
    let message = home.load(&[("SCW_INSECURE", "yes")]).unwrap_err().to_string();
    assert_eq!(message, "SCW_INSECURE takes true or false (or 1, t, 0, f)");
    let settings = home.load(&[("SCW_INSECURE", "1"), ("SCW_API_URL", "http://example.com")]).unwrap();
    assert_eq!(settings.notices().len(), 2, "{:?}", settings.notices());
    assert!(home.load(&[("SCW_API_URL", "http://127.0.0.1:1")]).unwrap().notices().is_empty());
}

#[test]
fn bad_values_are_refused_with_their_place_and_never_shown_when_they_may_be_secrets() {
    let home = Home::with(FILE);
    let cases: [(&str, &str, &str); 9] = [
        ("SCW_SECRET_KEY", "SECRETSECRET", "SCW_SECRET_KEY is not a secret key"),
        ("SCW_ACCESS_KEY", KEY_A, "SCW_ACCESS_KEY is not an access key"),
        ("SCW_DEFAULT_ZONE", "paris", "SCW_DEFAULT_ZONE is wrong: `paris` is not the name of a zone"),
        ("SCW_DEFAULT_REGION", "fr-par-1", "SCW_DEFAULT_REGION is wrong"),
        ("SCW_DEFAULT_PROJECT_ID", "default", "SCW_DEFAULT_PROJECT_ID is not a UUID"),
        ("SCW_API_URL", "ftp://example.com", "SCW_API_URL is not an http or https address"),
        ("SCW_API_URL", "https://user:SECRETSECRET@example.com", "SCW_API_URL holds a user name or password"),
        ("SCW_API_URL", "https://example.com/?a=b", "SCW_API_URL holds a query"),
        ("SCW_USER_AGENT", "ä", "SCW_USER_AGENT makes no user agent"),
    ];
    for (name, value, expected) in cases {
        let message = home.load(&[(name, value)]).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{name}={value}: {message}");
        assert!(!message.contains("SECRETSECRET") && !message.contains(KEY_A), "{message}");
    }
}

#[test]
fn a_bad_file_is_refused_with_its_place_and_without_its_content() {
    for text in [
        "secret_key: [SECRETSECRET]",
        "SECRETSECRET",
        "secret_key: SECRETSECRET\n  x: - y",
        "profiles: [1]",
        "insecure: SECRETSECRET",
    ] {
        let home = Home::with(text);
        let error = home.load(&[]).unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, ConfigurationError::InvalidFile { .. }), "{text:?}: {message}");
        assert!(message.contains("config.yaml") && !message.contains("SECRETSECRET"), "{message}");
    }
    let message = Home::with("secret_key: SECRETSECRET\ndefault_zone: fr-paris").load(&[]).unwrap_err().to_string();
    assert!(message.contains("`secret_key` in") && message.contains("; `default_zone` in"), "{message}");
    // YAML takes this one for a text, and it is refused as a key.
    let message = Home::with("secret_key: SECRETSECRET").load(&[]).unwrap_err().to_string();
    assert!(message.starts_with("`secret_key` in the top level of") && !message.contains("SECRETSECRET"), "{message}");
}

#[test]
fn a_file_or_profile_that_was_named_must_exist() {
    let home = Home::with(FILE);
    let message = home.load(&[("SCW_CONFIG_PATH", "/nowhere/config.yaml")]).unwrap_err().to_string();
    assert!(message.starts_with("configuration file /nowhere/config.yaml, named by SCW_CONFIG_PATH:"), "{message}");
    let message = home.load(&[("SCW_PROFILE", "nmaed")]).unwrap_err().to_string();
    assert!(
        message.contains("no profile `nmaed` (named by SCW_PROFILE)") && message.contains("it has empty, named"),
        "{message}"
    );
    let message = Home::empty().load(&[("SCW_PROFILE", "named"), ("SCW_SECRET_KEY", KEY_A)]).unwrap_err().to_string();
    assert!(message.contains("(absent); it has no profiles"), "{message}");
}

#[test]
fn a_file_beyond_all_measure_is_not_read() {
    let message = Home::with(&"# x\n".repeat(300_000)).load(&[("SCW_SECRET_KEY", KEY_A)]).unwrap_err().to_string();
    assert!(message.contains("is larger than 1048576 bytes"), "{message}");
    let cut = format!("# {}é", "x".repeat((1 << 20) - 2));
    let message = Home::with(&cut).load(&[("SCW_SECRET_KEY", KEY_A)]).unwrap_err().to_string();
    assert!(message.contains("is larger than 1048576 bytes"), "the limit cuts a character in two: {message}");
}

#[test]
fn what_is_no_file_is_not_opened() {
    let home = Home::empty();
    std::fs::create_dir_all(home.path().join(".config/scw/config.yaml")).unwrap();
    let message = home.load(&[("SCW_SECRET_KEY", KEY_A)]).unwrap_err().to_string();
    assert!(message.contains("where Scaleway's tools keep it: is a directory"), "{message}");

    let pipe = home.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if made.is_ok_and(|status| status.success()) {
        let variables = [("SCW_SECRET_KEY", KEY_A), ("SCW_CONFIG_PATH", pipe.to_str().unwrap())];
        let message = home.load(&variables).unwrap_err().to_string();
        assert!(message.ends_with("is not a file"), "{message}");
    }
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_of_a_dotfile_manager_is_followed() {
    let home = Home::with(FILE);
    let elsewhere = Home::with(&format!("secret_key: {KEY_A}"));
    let link = home.path().join(".config/scw/config.yaml");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join(".config/scw/config.yaml"), link).unwrap();
    assert_eq!(key_of(&home.load(&[]).unwrap()), KEY_A);
}

#[test]
fn no_debug_form_shows_a_key() {
    let home = Home::with(FILE);
    let environment = home.environment(&[("SCW_SECRET_KEY", KEY_A)]);
    let explicit = ExplicitSettings { secret_key: Some(KEY_B.parse().unwrap()), ..Default::default() };
    let settings = Settings::load(&explicit, &environment).unwrap();
    let client = crate::Client::new(settings.clone()).unwrap();
    for text in [format!("{environment:?}"), format!("{explicit:?}"), format!("{settings:?}"), format!("{client:?}")] {
        assert!(!text.contains(KEY_A) && !text.contains(KEY_B), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_file_makes_it_panic(text in ".{0,200}", zone in "[a-z0-9-]{0,10}") {
        let home = Home::with(&text);
        let _ = home.load(&[("SCW_DEFAULT_ZONE", zone.as_str())]);
    }
}
