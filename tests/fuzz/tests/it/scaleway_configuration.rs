//! The configuration file of Scaleway's own tools. An input is such a file.

use windlass_scaleway::{Environment, ExplicitSettings, Settings};

use crate::support::{KEY, folder, is_short};

/// A file's path, a profile's name and the names of those that there are.
const MAX_WORDS_LEN: usize = 4 * 1024;

#[test]
fn whatever_the_file_holds_no_error_tells_its_key() {
    thread_local!(static FOLDER: tempfile::TempDir = folder());
    windlass_test_fuzz::check("scaleway-configuration", |input| {
        let path = FOLDER.with(|folder| folder.path().join("config.yaml"));
        std::fs::write(&path, input).unwrap();
        // Where it stands as a key and nowhere else, it is a secret.
        let text = String::from_utf8_lossy(input);
        let is_secret = text.matches(KEY).count() == 1 && text.contains(&format!("secret_key: {KEY}\n"));
        for profile in [None, Some("ci".to_owned())] {
            let mut explicit = ExplicitSettings::default();
            explicit.config_path = Some(path.clone());
            explicit.profile = profile;
            let reported = match Settings::load(&explicit, &Environment::empty()) {
                Ok(settings) => format!("{settings:?}"),
                Err(error) => {
                    is_short(&error.to_string(), MAX_WORDS_LEN);
                    format!("{error} {error:?}")
                }
            };
            assert!(!is_secret || !reported.contains(KEY), "{reported}");
        }
    });
}
