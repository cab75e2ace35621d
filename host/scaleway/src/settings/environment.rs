use std::collections::BTreeMap;
use std::fmt;

/// Environment variables, injected so that tests and embedding programs decide what is in them.
///
/// An empty variable counts as absent. Its `Debug` form shows names only: values may be secrets.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// The process's own variables. Those that are no Unicode are left out.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// No variables at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The variable's value, when there is one and it is not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// All of them, by name.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self { variables: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.variables.keys()).finish()
    }
}
