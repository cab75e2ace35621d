//! What a policy says of itself.

use futures::FutureExt;
use semver::Version;
use wasmtime::Store;
use wasmtime::component::{Component, Instance};

use super::export::{failed, function, lacks_function, wrong_type};
use crate::error::Refusal;
use crate::guest::Guest;
use crate::limits::Limits;
use crate::policy::Description;
use crate::settings_schema::SettingsSchema;
use crate::text::{MAX_REASON_BYTES, is_unprintable};

/// The longest name and the longest version, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Calls `describe`, and checks what it says; its schema of settings is understood.
pub(super) fn describe(
    store: &mut Store<Guest>,
    instance: &Instance,
    component: &Component,
    export: &str,
    limits: &Limits,
) -> Result<(Description, SettingsSchema), Refusal> {
    let index = function(component, export, "describe").ok_or_else(|| lacks_function(export, "describe"))?;
    let describe = instance
        .get_typed_func::<(), (Description,)>(&mut *store, &index)
        .map_err(|error| wrong_type(export, "describe", &error))?;
    let called = describe.call_async(&mut *store, ()).now_or_never();
    let described = called.unwrap_or_else(|| Err(wasmtime::format_err!("it waits for something")));
    let (description,) = described.map_err(|error| failed("describe", &error, store.data(), limits))?;
    check(&description).map_err(Refusal::Description)?;
    let schema = SettingsSchema::read(&description.settings_schema).map_err(Refusal::Description)?;
    Ok((description, schema))
}

fn check(description: &Description) -> Result<(), String> {
    let Description { name, version, summary, settings_schema: _ } = description;
    let is_name_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_name_letter) {
        return Err("`name` must be 1 to 64 lower-case letters, digits and dashes".into());
    }
    if version.len() > MAX_NAME_BYTES || Version::parse(version).is_err() {
        return Err("`version` must be a semantic version such as 1.2.3".into());
    }
    if summary.len() > MAX_REASON_BYTES || summary.contains(is_unprintable) {
        return Err("`summary` must be one line of at most 1,024 bytes".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_one_by_the_rules_of_semantic_versioning() {
        let with = |version: &str| Description {
            name: "a".into(),
            version: version.into(),
            summary: String::new(),
            settings_schema: String::new(),
        };
        for version in ["1.2.3", "0.1.0-rc.1", "1.0.0-alpha+build.7", "10.20.30"] {
            assert_eq!(check(&with(version)), Ok(()), "{version}");
        }
        for version in ["", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3+", "1.2.3-a..b", "1.2.3-01", "v1.2.3"] {
            assert!(check(&with(version)).is_err(), "{version}");
        }
    }
}
