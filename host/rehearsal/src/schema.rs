//! The JSON Schema of scenarios.

use serde_json::{Value, json};
use windlass_fleeting::Scenario;

use crate::figure::FIGURES;

/// The JSON Schema of a scenario's file, for editors and for those who write scenarios with programs.
#[must_use]
pub fn scenario_schema() -> Value {
    let mut schema = Scenario::schema();
    schema["title"] = "A scenario of `windlass rehearse`".into();
    schema["properties"]["observed"]["propertyNames"] = json!({ "enum": FIGURES.map(|figure| figure.name) });
    schema
}
