//! What [`export_policy!`](crate::export_policy) puts behind the component's exports.

use std::sync::OnceLock;

use crate::bindings::policy::exports::windlass::policy::policy::Description;
use crate::configuration::{Policy, configure};
use crate::setting::Setting;

/// The one configured policy of a component.
#[derive(Debug)]
pub struct Configured<P>(OnceLock<P>);

impl<P: Policy> Configured<P> {
    /// Nothing is configured yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// `configure` of the contract.
    ///
    /// # Errors
    /// The policy's own words, or that it was configured before.
    pub fn configure(&self, settings: &str) -> Result<(), String> {
        self.0.set(configure(settings)?).map_err(|_| String::from("this instance is configured already"))
    }

    /// The policy. An instance that was never configured decides with the default settings.
    ///
    /// # Panics
    /// Traps where the policy refuses its own defaults; the host then goes on to the next policy.
    pub fn get(&self) -> &P {
        self.0.get_or_init(|| configure("{}").expect("a policy accepts its own defaults"))
    }
}

impl<P: Policy> Default for Configured<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// `describe` of the contract.
#[must_use]
pub fn describe<P: Policy>(name: &str, version: &str, summary: &str) -> Description {
    Description {
        name: name.into(),
        version: version.into(),
        summary: summary.into(),
        settings_schema: schema_of::<P>(),
    }
}

/// Has a panic say in the log what went wrong, before it traps. Set in `configure`, it is part of the snapshot from
/// which every decision starts.
#[cfg(target_arch = "wasm32")]
pub fn report_panics() {
    std::panic::set_hook(Box::new(|panic| crate::log::error(panic.to_string())));
}

/// The JSON Schema (2020-12) of a policy's settings, as one line of text.
pub(crate) fn schema_of<P: Policy>() -> String {
    let mut schema = String::from(r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","#);
    <P::Settings as Setting>::schema(&mut schema);
    schema.push('}');
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    settings! {
        /// For these tests.
        struct Steps {
            /// The waits of the first attempts, in milliseconds.
            waits_ms: Vec<u64> = vec![1, 10],
        }
        check(self) {
            match self.waits_ms.is_empty() {
                true => Err("`waits-ms` is empty".into()),
                false => Ok(()),
            }
        }
    }

    /// A policy that works something out from its settings, once.
    #[derive(Debug, PartialEq)]
    struct Sum {
        total_ms: u64,
    }

    impl Policy for Sum {
        type Settings = Steps;

        fn configure(settings: Steps) -> Result<Self, String> {
            let total = settings.waits_ms.iter().try_fold(0_u64, |sum, wait| sum.checked_add(*wait));
            Ok(Self { total_ms: total.ok_or("`waits-ms` come to more than 64 bits")? })
        }
    }

    #[test]
    fn what_configure_works_out_is_what_decides() {
        let configured = Configured::<Sum>::new();
        assert_eq!(configured.configure(r#"{"waits-ms": [5, 6]}"#), Ok(()));
        assert_eq!(configured.get(), &Sum { total_ms: 11 });
    }

    #[test]
    fn the_settings_check_themselves_before_the_policy_sees_them() {
        let refused = Configured::<Sum>::new().configure(r#"{"waits-ms": []}"#);
        assert_eq!(refused, Err("`waits-ms` is empty".into()));
        let too_much = Configured::<Sum>::new().configure(r#"{"waits-ms": [18446744073709551615, 1]}"#);
        assert_eq!(too_much, Err("`waits-ms` come to more than 64 bits".into()));
    }

    #[test]
    fn an_instance_is_configured_once_and_decides_with_its_defaults_when_it_never_was() {
        let configured = Configured::<Sum>::new();
        assert_eq!(configured.get(), &Sum { total_ms: 11 });
        assert_eq!(configured.configure("{}"), Err("this instance is configured already".into()));
    }

    #[test]
    fn a_policy_describes_itself_with_its_packages_words() {
        let description = describe::<Sum>("sum", "1.2.3", "Adds up.");
        assert_eq!((description.name.as_str(), description.version.as_str()), ("sum", "1.2.3"));
        assert!(
            description
                .settings_schema
                .contains(r#""waits-ms":{"type":"array","items":{"type":"integer","minimum":0}"#)
        );
    }
}
