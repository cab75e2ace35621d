//! The contract in `wit/policy`, as the generators of `tests/it` read it. Knows the names that its types have in Rust,
//! and nothing of what is made of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use wit_parser::{Docs, Interface, Resolve, Type, TypeDefKind, TypeId};

/// The interfaces that questions and answers are made of, those that others use first.
pub const INTERFACES: [&str; 7] =
    ["types", "state-mapping", "retry", "rollback", "release", "provisioning", "placement"];

/// The package `windlass:policy`.
pub struct Contract {
    /// As it was read.
    pub resolve: Resolve,
}

impl Contract {
    /// Reads it.
    ///
    /// # Panics
    /// Where it is no WIT.
    pub fn read() -> Contract {
        let mut resolve = Resolve::default();
        resolve.push_dir(repository().join("wit/policy")).unwrap_or_else(|error| panic!("{error:#}"));
        Contract { resolve }
    }

    /// An interface of it.
    ///
    /// # Panics
    /// Where there is none of that name.
    pub fn interface(&self, name: &str) -> &Interface {
        let mut interfaces = self.resolve.interfaces.iter().map(|(_, interface)| interface);
        let found = interfaces.find(|interface| interface.name.as_deref() == Some(name));
        found.unwrap_or_else(|| panic!("the contract has no interface {name}"))
    }

    /// The type behind names that stand for another: those that `use` takes over, and words for a number.
    pub fn original(&self, of: &Type) -> Type {
        match of {
            Type::Id(id) => match &self.resolve.types[*id].kind {
                TypeDefKind::Type(other) => self.original(other),
                _ => *of,
            },
            _ => *of,
        }
    }

    /// What a type is; none of a primitive one.
    pub fn kind(&self, of: &Type) -> Option<&TypeDefKind> {
        match self.original(of) {
            Type::Id(id) => Some(&self.resolve.types[id].kind),
            _ => None,
        }
    }

    /// The name of the interface in which a type is defined.
    pub fn owner(&self, id: TypeId) -> Option<&str> {
        match self.resolve.types[id].owner {
            wit_parser::TypeOwner::Interface(owner) => self.resolve.interfaces[owner].name.as_deref(),
            _ => None,
        }
    }

    /// The name of a type.
    ///
    /// # Panics
    /// Where it has none, as an option.
    pub fn name(&self, id: TypeId) -> &str {
        self.resolve.types[id].name.as_deref().expect("records, enums and variants have names")
    }
}

/// `FailureClass` of `failure-class`.
pub fn camel(name: &str) -> String {
    name.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// `failure_class` of `failure-class`.
pub fn snake(name: &str) -> String {
    name.replace('-', "_")
}

/// `FAILURE_CLASS` of `failure-class`.
pub fn shout(name: &str) -> String {
    snake(name).to_uppercase()
}

/// The contract's words about something as comments, each line begun like this.
pub fn comment(text: &mut String, begun: &str, docs: &Docs) {
    for line in docs.contents.iter().flat_map(|contents| contents.trim_end().lines()) {
        let _ = writeln!(text, "{}", format!("{begun} {line}").trim_end());
    }
}

/// The repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a file, by its path in the repository, with what was made; with `WINDLASS_BLESS` set it is written.
///
/// # Panics
/// Where they differ.
pub fn hold(file: &str, made: &str) {
    let path = repository().join(file);
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(&path, made).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(present == made, "{file} is not what the contract in wit/ says: run `just bindings`");
}
