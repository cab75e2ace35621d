use crate::Error;

/// Makes a component of a core module that wit-bindgen's guest bindings describe, and checks that it is a valid one.
///
/// `package` only names the culprit in an error.
///
/// # Errors
/// [`Error::Encode`] where the module carries no component types, lacks one of its exports, or is not valid.
pub fn encode(package: &str, module: &[u8]) -> Result<Vec<u8>, Error> {
    wit_component::ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| Error::Encode { package: package.to_owned(), reason: format!("{error:#}") })
}
