//! `plugin_config`, as GitLab Runner hands it on. An input is that JSON.

use windlass_fleeting::{GroupConfiguration, ProcessEnvironment};

use crate::support::{KEY, folder, is_short};

/// Of one mistake.
const MAX_WORDS_LEN: usize = 2 * 1024;

#[test]
fn every_mistake_is_told_briefly_and_without_the_key() {
    thread_local!(static HOME: tempfile::TempDir = folder());
    windlass_test_fuzz::check("plugin-configuration", |input| {
        // An empty home: nothing of this machine is read.
        let home = HOME.with(|home| home.path().to_str().unwrap().to_owned());
        let process_environment: ProcessEnvironment = [("HOME", home)].into_iter().collect();
        let text = String::from_utf8_lossy(input);
        let is_secret = text.matches(KEY).count() == 1 && text.contains(&format!("\"secret_key\": \"{KEY}\""));
        let reported = match GroupConfiguration::read(input, &process_environment) {
            Ok(configuration) => format!("{configuration:?}"),
            Err(errors) => {
                assert!(!errors.problems().is_empty());
                errors.problems().iter().for_each(|problem| is_short(&problem.to_string(), MAX_WORDS_LEN));
                format!("{errors} {errors:?}")
            }
        };
        assert!(!is_secret || !reported.contains(KEY), "{reported}");
    });
}
