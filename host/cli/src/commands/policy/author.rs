//! `windlass policy new`, `build` and `schema`: what an author begins with.

use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde::Serialize;
use serde_json::{Map, Value};
use windlass_authoring::{Built, Error, PolicyName, SchemaOf};
use windlass_inspect::failure::Failure;
use windlass_inspect::text::printable;
use windlass_policy::Digest;

use crate::arguments::{self, BuildPolicy, NewPolicy, PolicySchema};
use crate::context::Context;
use crate::files::read_bounded;
use crate::policy_file::MAX_COMPONENT_BYTES;
use crate::units::Size;

/// Document of `policy new`.
#[derive(Serialize)]
struct Begun {
    folder: PathBuf,
    /// The files that an author reads and changes.
    files: Vec<PathBuf>,
}

pub(super) fn new(context: &Context, arguments: &NewPolicy) -> Result<(), Failure> {
    let name: PolicyName = arguments.name.parse().map_err(|error: Error| Failure::usage(error.to_string()))?;
    let folder = arguments.folder.clone().unwrap_or_else(|| PathBuf::from(name.as_str()));
    let language = match arguments.language {
        arguments::Language::Rust => windlass_authoring::Language::Rust,
        arguments::Language::Rules => windlass_authoring::Language::Rules,
        arguments::Language::JavaScript => windlass_authoring::Language::JavaScript,
        arguments::Language::TypeScript => windlass_authoring::Language::TypeScript,
        arguments::Language::Python => windlass_authoring::Language::Python,
    };
    let policy = windlass_authoring::NewPolicy { name, slot: arguments.slot, language };
    let files = policy.write(&folder).map_err(|error| match &error {
        Error::NotEmpty(_) => Failure::usage(error.to_string()).remedy("name another with --folder"),
        _ => Failure::usage("the policy's folder cannot be written").because(error.to_string()),
    })?;
    let begun = Begun { folder, files };
    context.output.result(&begun, || {
        let mut text = String::new();
        for file in &begun.files {
            text.push_str(&format!("{}\n", printable(&begun.folder.join(file).display().to_string())));
        }
        text.push_str(&format!("\nnext: windlass policy test {}\n", printable(&begun.folder.display().to_string())));
        text
    });
    Ok(())
}

/// Document of `policy build`.
#[derive(Serialize)]
struct BuiltDocument {
    package: String,
    file: PathBuf,
    bytes: usize,
    digest: String,
}

pub(super) fn build(context: &Context, arguments: &BuildPolicy) -> Result<(), Failure> {
    let Built { package, path, bytes } = built(&arguments.folder, arguments.out.as_deref())?;
    let digest = Digest::of(&read_bounded(&path, "the component", MAX_COMPONENT_BYTES)?).to_string();
    let document = BuiltDocument { package, file: path, bytes, digest };
    context.output.result(&document, || {
        let file = printable(&document.file.display().to_string());
        format!("{file}  {}  {}\n", Size(document.bytes as u64), document.digest)
    });
    Ok(())
}

/// Builds a policy's folder. Cargo tells on stderr how it goes; so does what installs the tools for scripts.
pub(super) fn built(folder: &Path, out: Option<&Path>) -> Result<Built, Failure> {
    windlass_authoring::build(folder, out, &|line| eprintln!("{line}")).map_err(|error| {
        let place = folder.display().to_string();
        match &error {
            _ if error.is_of_the_source() => {
                Failure::undone("the policy does not compile").at(place).because(error.to_string())
            }
            Error::NoPackage { .. } => {
                Failure::usage("there is no policy to build").at(place).because(error.to_string()).remedy(
                    "windlass policy new NAME --slot SLOT --language rust; rules (.rules.toml) are used as they are",
                )
            }
            Error::Toolchain { problem, remedy } => Failure::usage("what the policy is built with cannot be used")
                .at(place)
                .because(problem.clone())
                .remedy(*remedy),
            _ => Failure::usage("the policy cannot be built").at(place).because(error.to_string()),
        }
    })
}

pub(super) fn schema(context: &Context, arguments: &PolicySchema) -> Result<(), Failure> {
    let schema = |of: SchemaOf| {
        windlass_authoring::schema(arguments.slot, of)
            .map_err(|error| Failure::undone("the schema cannot be made").because(error.to_string()))
    };
    if let Some(folder) = &arguments.folder {
        return write(context, folder, &schema);
    }
    let document = match arguments.of {
        Some(arguments::SchemaOf::Question) => schema(SchemaOf::Question)?,
        Some(arguments::SchemaOf::Answer) => schema(SchemaOf::Answer)?,
        Some(arguments::SchemaOf::Fixture) => schema(SchemaOf::Fixture)?,
        Some(arguments::SchemaOf::Rules) => schema(SchemaOf::Rules)?,
        None => {
            let one = |of: SchemaOf| Ok((of.as_str().to_owned(), schema(of)?));
            Value::Object(SchemaOf::ALL.into_iter().map(one).collect::<Result<Map<_, _>, Failure>>()?)
        }
    };
    context.output.file(&document, || pretty(&document));
    Ok(())
}

/// Document of `policy schema --folder`.
#[derive(Serialize)]
struct Written {
    files: Vec<PathBuf>,
}

fn write(
    context: &Context,
    folder: &Path,
    schema: &impl Fn(SchemaOf) -> Result<Value, Failure>,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::usage("the schemas cannot be written").at(folder.display().to_string()).because(error.to_string())
    };
    Dir::create_ambient_dir_all(folder, ambient_authority()).map_err(failed)?;
    let dir = Dir::open_ambient_dir(folder, ambient_authority()).map_err(failed)?;
    let mut files = Vec::new();
    for of in SchemaOf::ALL {
        let name = format!("{}.json", of.as_str());
        dir.write(&name, pretty(&schema(of)?)).map_err(failed)?;
        files.push(folder.join(name));
    }
    let written = Written { files };
    context.output.result(&written, || {
        written.files.iter().map(|file| format!("{}\n", printable(&file.display().to_string()))).collect()
    });
    Ok(())
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
