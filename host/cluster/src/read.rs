//! From a file to a specification: TOML or YAML, with errors that name place and remedy.

use std::io::Read as _;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::Error;
use crate::failure::short;
use crate::specification::{ClusterSpecification, InvalidSpecification};

/// A specification of 64 groups is some 30 KiB long.
const MAX_FILE_LEN: u64 = 1024 * 1024;

/// How a specification is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Toml,
    /// YAML, and so JSON.
    Yaml,
}

impl Format {
    /// By the file's ending.
    ///
    /// # Errors
    /// [`Error::SpecificationFile`] for an ending that says neither.
    pub fn of(path: &Path) -> Result<Self, Error> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("toml") => Ok(Self::Toml),
            Some("yaml" | "yml" | "json") => Ok(Self::Yaml),
            _ => Err(Error::SpecificationFile {
                path: path.to_owned(),
                problem: "its name must end in .toml, .yaml, .yml or .json, which says how it is written".to_owned(),
            }),
        }
    }
}

impl ClusterSpecification {
    /// Reads and checks a specification's text. Files that it names stay as they are written.
    ///
    /// # Errors
    /// Its place is a key, or a line.
    pub fn parse(text: &str, format: Format) -> Result<Self, InvalidSpecification> {
        // Both may quote the text.
        let shortened =
            |error: InvalidSpecification| InvalidSpecification::new(short(error.place), short(error.problem));
        Self::parse_whole(text, format).map_err(|mut error| {
            let also = std::mem::take(&mut error.also).into_iter().map(shortened).collect();
            InvalidSpecification { also, ..shortened(error) }
        })
    }

    fn parse_whole(text: &str, format: Format) -> Result<Self, InvalidSpecification> {
        let mut specification: Self = match format {
            Format::Toml => toml::from_str(text).map_err(|error| {
                let line = error.span().map_or(1, |span| line_of(text, span.start));
                InvalidSpecification::new(format!("line {line}"), with_nearest(error.message()))
            })?,
            Format::Yaml => serde_norway::from_str(text).map_err(|error| {
                let line = error.location().map_or(1, |location| location.line());
                let words = error.to_string();
                let words = words.split(" at line ").next().unwrap_or(&words);
                InvalidSpecification::new(format!("line {line}"), with_nearest(words))
            })?,
        };
        specification.normalize();
        specification.check()?;
        Ok(specification)
    }

    /// Reads and checks a specification's file. The files that it names are taken relative to its folder.
    ///
    /// # Errors
    /// [`Error::SpecificationFile`] when it cannot be read, [`Error::Specification`] when it is wrong.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let format = Format::of(path)?;
        let failed = |problem: String| Error::SpecificationFile { path: path.to_owned(), problem };
        let text = read_bounded(path, MAX_FILE_LEN).map_err(failed)?;
        let text = String::from_utf8(text).map_err(|_| failed("it is no UTF-8 text".to_owned()))?;
        let mut specification = Self::parse(&text, format)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = std::path::absolute(folder).map_err(|error| failed(error.to_string()))?;
        for group in specification.groups.values_mut() {
            if let Some(file) = &mut group.cloud_init_file {
                *file = folder.join(&*file).to_string_lossy().into_owned();
            }
        }
        let hooks = &mut specification.hooks;
        for hook in [&mut hooks.decommission, &mut hooks.configure, &mut hooks.start].into_iter().flatten() {
            hook.resolve(&folder);
        }
        Ok(specification)
    }
}

/// The content of a file that a user named, through a handle on its folder.
pub(crate) fn read_bounded(path: &Path, longest: u64) -> Result<Vec<u8>, String> {
    let name = path.file_name().ok_or("it is no file")?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = Dir::open_ambient_dir(folder, ambient_authority()).map_err(|error| error.to_string())?;
    let file = folder.open(name).map_err(|error| error.to_string())?;
    let mut content = Vec::new();
    file.take(longest + 1).read_to_end(&mut content).map_err(|error| error.to_string())?;
    if content.len() as u64 > longest {
        return Err(format!("it is longer than {longest} bytes"));
    }
    Ok(content)
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// serde's words about an unknown key, with the nearest valid one.
fn with_nearest(words: &str) -> String {
    let words = words.trim_end();
    let quoted: Vec<&str> = words.split('`').skip(1).step_by(2).collect();
    let Some((unknown, valid)) = quoted.split_first() else { return words.to_owned() };
    if !words.contains("unknown field") && !words.contains("unknown variant") {
        return words.to_owned();
    }
    match windlass_policy::nearest(unknown, valid.iter().copied()) {
        Some(near) => format!("{words}; did you mean `{near}`?"),
        None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name = 'farm'\nzone = 'fr-par-1'\n[groups.workers]\ncount = 3\ntypes = ['DEV1-S', \
        'DEV1-M']\nimage = 'ubuntu_noble'\nvolumes = [{ size = '20GB' }]\n";
    const SAME_IN_YAML: &str = "name: farm\nzone: fr-par-1\ngroups:\n  workers:\n    count: 3\n    types: [DEV1-S, \
        DEV1-M]\n    image: ubuntu_noble\n    volumes:\n      - size: 20GB\n";

    fn refused(text: &str, format: Format) -> String {
        ClusterSpecification::parse(text, format).unwrap_err().to_string()
    }

    #[test]
    fn toml_and_yaml_say_the_same() {
        let toml = ClusterSpecification::parse(GOOD, Format::Toml).unwrap();
        assert_eq!(toml, ClusterSpecification::parse(SAME_IN_YAML, Format::Yaml).unwrap());
        let group = &toml.groups.values().next().unwrap();
        assert_eq!((group.count, group.volumes[0].size), (3, Some(20_000_000_000)));
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let specification = ClusterSpecification::parse(GOOD, Format::Toml).unwrap();
        let stored = serde_json::to_string(&specification).unwrap();
        assert_eq!(serde_json::from_str::<ClusterSpecification>(&stored).unwrap(), specification);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_valid_one() {
        let words = refused(&GOOD.replace("image", "imgae"), Format::Toml);
        assert!(words.contains("line 6") && words.contains("did you mean `image`?"), "{words}");
        let words = refused(&SAME_IN_YAML.replace("image", "imgae"), Format::Yaml);
        assert!(words.contains("line ") && words.contains("did you mean `image`?"), "{words}");
        let words = refused(&format!("nmae = 'x'\n{GOOD}"), Format::Toml);
        assert!(words.contains("line 1") && words.contains("did you mean `name`?"), "{words}");
    }

    #[test]
    fn wrong_values_are_refused_with_their_place() {
        for (from, to, words) in [
            ("'farm'", "'Farm'", "lower-case"),
            ("'20GB'", "'20'", "lacks a unit"),
            ("[{ size = '20GB' }]", "[{ kind = 'local' }]", "groups.workers.volumes[0].size"),
            ("['DEV1-S', 'DEV1-M']", "[]", "groups.workers.types"),
            ("count = 3", "count = 20000", "more than 10000"),
            ("count = 3", "count = -1", "line 4"),
            ("image =", "private_networks = ['lan']\nimage =", "no id of a private network"),
        ] {
            let error = refused(&GOOD.replacen(from, to, 1), Format::Toml);
            assert!(error.contains(words), "{to}: {error}");
        }
    }

    #[test]
    fn files_are_relative_to_the_specification() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("farm.toml");
        std::fs::write(&file, format!("{GOOD}cloud_init_file = 'init.yaml'\n")).unwrap();
        let specification = ClusterSpecification::read(&file).unwrap();
        let group = specification.groups.values().next().unwrap();
        assert_eq!(group.cloud_init_file.as_deref(), folder.path().join("init.yaml").to_str());
        assert!(Format::of(Path::new("farm.txt")).unwrap_err().to_string().contains(".toml"));
    }
}
