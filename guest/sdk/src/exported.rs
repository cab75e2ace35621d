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

/// The JSON Schema (2020-12) of a policy's settings, as one line of text.
pub(crate) fn schema_of<P: Policy>() -> String {
    let mut schema = String::from(r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","#);
    <P::Settings as Setting>::schema(&mut schema);
    schema.push('}');
    schema
}
