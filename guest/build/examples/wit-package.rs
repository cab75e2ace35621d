//! Encodes a folder of WIT as one binary package, as registries keep them: `wit-package FOLDER FILE`.

use std::error::Error;

use wit_parser::Resolve;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, file] = arguments.as_slice() else { return Err("usage: wit-package FOLDER FILE".into()) };
    let mut contract = Resolve::default();
    let (package, _) = contract.push_dir(folder).map_err(|error| format!("{folder}: {error:#}"))?;
    std::fs::write(file, wit_component::encode(&contract, package)?).map_err(|error| format!("{file}: {error}"))?;
    Ok(())
}
