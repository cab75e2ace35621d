//! `adopt`: once, and on purpose, takes over what a state directory knows nothing of, as `adopt = true` has Init do.
//! Nothing else is begun: what was under way is taken up by the plugin when the runner starts it.

use windlass_lifecycle::{Runtime, RuntimeOptions, StateDirectory};
use windlass_policy::{Asker, Compiler};
use windlass_scaleway::Client;

use super::apple_silicon::Macs;
use super::error::StartError;
use super::instances::Instances;
use super::start;
use crate::configuration::{Common, ConfigurationErrors, GroupConfiguration, ProcessEnvironment, read_file};

/// Why nothing was taken over.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The runner's configuration cannot be read.
    #[error("{0}; say where the runner's configuration is with --config")]
    Unreadable(String),
    /// It is no configuration.
    #[error("the runner's configuration is no TOML")]
    Toml(#[from] toml::de::Error),
    /// None of its groups is meant.
    #[error("{wanted}; the groups of this plugin in the runner's configuration are: {found}")]
    Group {
        /// What was looked for.
        wanted: String,
        /// The groups' names.
        found: String,
    },
    /// Something configured is wrong.
    #[error(transparent)]
    Configuration(#[from] ConfigurationErrors),
    /// As at Init.
    #[error(transparent)]
    Start(Box<StartError>),
}

impl From<StartError> for AdoptError {
    fn from(error: StartError) -> Self {
        Self::Start(Box::new(error))
    }
}

/// Takes over the servers or Macs of one group of the runner's `config.toml` at this path, by the group's name where
/// there are several. Answers their ids.
///
/// # Errors
/// As Init, where a plugin still works on the group among others; and when it is not clear which group is meant.
pub async fn adopt(
    config: &str,
    name: Option<&str>,
    process_environment: &ProcessEnvironment,
    compiler: Option<Compiler>,
) -> Result<Vec<String>, AdoptError> {
    let text = read_file(config).map_err(AdoptError::Unreadable)?;
    let json = plugin_config(&text, name)?.to_string();
    let configuration = GroupConfiguration::read(json.as_bytes(), process_environment)?;
    let common: &Common = configuration.as_ref();
    let client = Client::new(common.settings.clone()).map_err(StartError::from)?;
    let state = StateDirectory::open(&common.folder()).map_err(StartError::from)?;
    // Nothing is judged; but a lifecycle is not opened without policies.
    let mut options = RuntimeOptions::new(client.clone(), state, Asker::Instances);
    options.compiler = compiler;
    let runtime = tokio::task::spawn_blocking(move || Runtime::build(options)).await.map_err(StartError::from)?;
    let policies = runtime.map_err(StartError::from)?.policies;
    Ok(match configuration {
        GroupConfiguration::Instances(it) => start::adopt::<Instances>(&it, client, policies).await?,
        GroupConfiguration::AppleSilicon(it) => start::adopt::<Macs>(&it, client, policies).await?,
    })
}

/// The `plugin_config` of the group that is meant, with `adopt = true`.
fn plugin_config(config_toml: &str, name: Option<&str>) -> Result<serde_json::Value, AdoptError> {
    let all: serde_json::Value = toml::from_str(config_toml)?;
    let autoscalers = all["runners"].as_array().into_iter().flatten().map(|runner| &runner["autoscaler"]);
    let ours = autoscalers.filter(|it| it["plugin"].as_str().is_some_and(|plugin| plugin.contains("scaleway")));
    let configurations: Vec<&serde_json::Value> = ours.map(|it| &it["plugin_config"]).collect();
    let name_of = |configuration: &serde_json::Value| configuration["name"].as_str().unwrap_or_default().to_owned();
    let mut meant = configurations.iter().filter(|it| name.is_none_or(|name| name_of(it) == name));
    let (first, more) = (meant.next(), meant.next().is_some());
    let wanted = match (first, more, name) {
        (Some(configuration), false, _) if configuration.is_object() => {
            let mut configuration = (*configuration).clone();
            configuration["adopt"] = true.into();
            return Ok(configuration);
        }
        (Some(_), true, None) => "say which group is meant, by its `name`".to_owned(),
        (_, _, Some(name)) => format!("there is not one group with `name = {name:?}` in plugin_config"),
        (_, _, None) => "there is no group of this plugin".to_owned(),
    };
    let found: Vec<String> = configurations.into_iter().map(name_of).collect();
    Err(AdoptError::Group { wanted, found: if found.is_empty() { "none".to_owned() } else { found.join(", ") } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_that_is_meant_is_found_in_a_runners_configuration_or_said_not_to_be_clear() {
        let group = |plugin: &str, name: &str| {
            format!(
                "[[runners]]\nname = \"r\"\n[runners.autoscaler]\nplugin = \"{plugin}\"\n\
                 [runners.autoscaler.plugin_config]\nname = \"{name}\"\nadopt = false\n"
            )
        };
        let one = group("fleeting-plugin-scaleway", "ci");
        let found = plugin_config(&one, None).unwrap();
        assert_eq!((&found["name"], &found["adopt"]), (&"ci".into(), &true.into()));
        let several = [one.clone(), group("aws", "other"), group("example.com/ci/scaleway:0.1", "macs")].concat();
        assert_eq!(plugin_config(&several, Some("macs")).unwrap()["name"], "macs");
        for (text, name, words) in [
            (&several, None, "say which group is meant, by its `name`; the groups"),
            (&several, Some("other"), "there is not one group with `name = \"other\"`"),
            (&[one.clone(), one.clone()].concat(), Some("ci"), "there is not one group with `name = \"ci\"`"),
            (&"concurrent = 1".to_owned(), None, "there is no group of this plugin"),
        ] {
            let error = plugin_config(text, name).unwrap_err().to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
        assert!(plugin_config(&several, None).unwrap_err().to_string().ends_with("are: ci, macs"));
        assert!(matches!(plugin_config("[[", None), Err(AdoptError::Toml(_))));
    }
}
