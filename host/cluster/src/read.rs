//! From a file to a specification: TOML or YAML, with errors that name place and remedy.

mod yaml;

use std::path::Path;

use toml::de::DeTable;
use windlass_policy::Mistake;
use windlass_process::read_text;

use crate::Error;
use crate::failure::short;
use crate::specification::{ClusterSpecification, InvalidSpecification, NodeGroup};

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
                problem: "its name must end in .toml, .yaml, .yml or .json, which says its format".to_owned(),
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
        Self::parse_and(text, format, Self::problems)
    }

    fn parse_and(
        text: &str,
        format: Format,
        check: impl FnOnce(&Self) -> Vec<Mistake>,
    ) -> Result<Self, InvalidSpecification> {
        let checked = |read: Self| match check(&read) {
            mistakes if mistakes.is_empty() => Ok(read),
            mistakes => Err(mistakes),
        };
        let read = match format {
            Format::Toml => read_toml(text, checked),
            Format::Yaml => yaml::read(text, checked),
        };
        let mut specification = read.map_err(|mistakes| {
            let mistakes = written_otherwise(text, format).map_or(mistakes, |mistake| vec![mistake]);
            // Both may quote the text.
            let mut all = mistakes
                .into_iter()
                .map(|Mistake { place, words }| InvalidSpecification::new(short(place), short(words)));
            let first = all.next().unwrap_or_else(|| InvalidSpecification::new("line 1", "it cannot be read"));
            InvalidSpecification { also: all.collect(), ..first }
        })?;
        specification.normalize();
        Ok(specification)
    }

    /// Reads and checks a specification's file. The files that it names are taken relative to its folder.
    ///
    /// # Errors
    /// [`Error::SpecificationFile`] when it cannot be read, [`Error::Specification`] when it is wrong.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |problem: String| Error::SpecificationFile { path: path.to_owned(), problem };
        if path.is_dir() {
            return Err(failed("it is a directory".to_owned()));
        }
        let format = Format::of(path)?;
        let text = read_text(path, MAX_FILE_LEN).map_err(|error| failed(error.to_string()))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = std::path::absolute(folder).map_err(|error| failed(error.to_string()))?;
        let check = |read: &Self| {
            let mut problems = read.problems();
            problems.extend(read.groups.iter().filter_map(|(name, group)| {
                let file = folder.join(group.cloud_init_file.as_ref()?);
                let error = read_text(&file, MAX_FILE_LEN).err()?;
                let words = format!("{} cannot be read: {error}", file.display());
                Some(Mistake::new(format!("groups.{name}.cloud_init_file"), words))
            }));
            let without_use = |group: &&NodeGroup| group.dynamic_address && !group.addresses.is_empty();
            problems.extend(read.groups.iter().filter(|(_, group)| without_use(group)).map(|(name, _)| {
                let words = "a dynamic address is for nodes without others: write addresses = [] too, or leave out \
                             dynamic_address";
                Mistake::new(format!("groups.{name}.dynamic_address"), words)
            }));
            problems
        };
        // What the hooks name may be on another machine, so a right specification is not refused for it here. With a
        // wrong one it is told too.
        let with_files_of_hooks = |read: &Self| {
            let mut problems = check(read);
            for (name, hook) in [
                ("decommission", &read.hooks.decommission),
                ("configure", &read.hooks.configure),
                ("start", &read.hooks.start),
            ] {
                let Some(mut hook) = hook.clone() else { continue };
                hook.resolve(&folder);
                let within = |Mistake { place, words }| Mistake::new(format!("hooks.{name}.{place}"), words);
                problems.extend(hook.file_problems().into_iter().map(within));
            }
            problems
        };
        let mut specification = Self::parse_and(&text, format, check)
            .map_err(|first| Self::parse_and(&text, format, with_files_of_hooks).err().unwrap_or(first))?;
        // YAML takes what JSON does not, such as a comma at the end of a list.
        if path.extension().is_some_and(|ending| ending == "json")
            && let Err(error) = serde_json::from_str::<serde_json::Value>(&text)
        {
            let words = error.to_string();
            let words = words.split(" at line ").next().unwrap_or_default();
            let place = format!("line {}", error.line());
            return Err(InvalidSpecification::new(place, format!("this is not valid JSON: {words}")).into());
        }
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

/// A file whose name does not say how it is written. `None`: it does.
fn written_otherwise(text: &str, format: Format) -> Option<Mistake> {
    let (is_toml, is_yaml) = (DeTable::parse(text).is_ok(), yaml::has_keys(text));
    let problem = match format {
        Format::Toml if !is_toml && is_yaml => {
            "this is YAML or JSON, not TOML: give the file a name that ends in .yaml or .json"
        }
        Format::Yaml if !is_yaml && is_toml => {
            "this is TOML, not YAML or JSON: give the file a name that ends in .toml"
        }
        _ => return None,
    };
    Some(Mistake::new("line 1", problem))
}

fn read_toml(
    text: &str,
    checked: impl FnOnce(ClusterSpecification) -> Result<ClusterSpecification, Vec<Mistake>>,
) -> Result<ClusterSpecification, Vec<Mistake>> {
    windlass_policy::read_toml(text, checked).map_err(|mut mistakes| {
        for words in mistakes.iter_mut().map(|mistake| &mut mistake.words) {
            if words.starts_with("`groups`: ") && words.ends_with("must be a table") {
                words.push_str(": write [groups.web] instead of [[groups]]");
            }
        }
        mistakes
    })
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
    fn a_file_called_json_is_read_as_json_and_not_as_yaml() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("farm.json");
        let groups = r#""groups": {"web": {"count": 1, "types": ["DEV1-S"], "image": "ubuntu_noble",}}"#;
        std::fs::write(&file, format!("{{\"name\": \"farm\", \"zone\": \"fr-par-1\",\n {groups}}}")).unwrap();
        let error = ClusterSpecification::read(&file).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("this is not valid JSON: trailing comma"), "{error}");
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
    fn all_mistakes_of_a_file_are_told_at_once_in_plain_words_each_with_its_line_and_key() {
        let text = "nmae = 1\nname = 'farm'\nzone = 'fr-par-1'\nwait_deadline = 60\n[groups.workers]\ncount = '3'\n\
            typs = 1\ntypes = 'DEV1-S'\nimage = 5\nvolumes = [{ size = 20 }, { szie = '20GB' }]\n";
        let error = ClusterSpecification::parse(text, Format::Toml).unwrap_err();
        let mut found: Vec<String> = error.also.iter().map(ToString::to_string).collect();
        found.insert(0, format!("{}: {}", error.place, error.problem));
        for (found, expected) in found.iter().zip([
            "line 1: there is no key `nmae` here; did you mean `name`?",
            "line 4: `wait_deadline`: the number 60 must be a duration in quotes, for example \"10m\"",
            "line 6: `count`: the text \"3\" must be a whole number, 0 or more, without quotes",
            "line 7: there is no key `typs` here; did you mean `types`?",
            "line 8: `types`: the text \"DEV1-S\" must be a list: [...]",
            "line 9: `image`: the number 5 must be a text in quotes",
            "line 10: `size`: the number 20 must be a size in quotes, for example \"20GB\"",
            "line 10: there is no key `szie` here; did you mean `size`?",
        ]) {
            assert_eq!(found, expected);
        }
        assert_eq!(found.len(), 8, "{found:#?}");
        let words = refused(&GOOD.replace("zone = 'fr-par-1'", "zone = fr-par-1"), Format::Toml);
        assert!(words.contains("line 2: ") && words.contains("a text needs quotes"), "{words}");
        let words = refused(&SAME_IN_YAML.replace("count: 3", "count: three"), Format::Yaml);
        assert!(words.contains("line ") && words.contains("must be a whole number"), "{words}");
    }

    #[test]
    fn all_mistakes_of_yaml_and_of_json_are_told_at_once_as_those_of_toml() {
        let yaml = "nmae: 1\nname: farm\nzone: fr-par-1\nwait_deadline: 60\ngroups:\n  workers:\n    count: '3'\n    \
            typs: 1\n    types: DEV1-S\n    image: 5\n    volumes:\n      - size: 20\n      - szie: 20GB\n";
        let json = "{\n \"nmae\": 1, \"name\": \"farm\", \"zone\": \"fr-par-1\",\n \"groups\": {\"workers\": {\n  \
            \"count\": \"3\",\n  \"types\": [\"DEV1-S\"], \"image\": 5}}\n}\n";
        let all = |text: &str| {
            let error = ClusterSpecification::parse(text, Format::Yaml).unwrap_err();
            let more = error.also.iter().map(ToString::to_string);
            std::iter::once(format!("{}: {}", error.place, error.problem)).chain(more).collect::<Vec<_>>()
        };
        assert_eq!(
            all(yaml),
            [
                "line 1: there is no key `nmae` here; did you mean `name`?",
                "line 4: `wait_deadline`: the number 60 must be a duration in quotes, for example \"10m\"",
                "line 7: `count`: the text \"3\" must be a whole number, 0 or more, without quotes",
                "line 8: there is no key `typs` here; did you mean `types`?",
                "line 9: `types`: the text \"DEV1-S\" must be a list: [...]",
                "line 10: `image`: the number 5 must be a text in quotes",
                "line 12: `size`: the number 20 must be a size in quotes, for example \"20GB\"",
                "line 13: there is no key `szie` here; did you mean `size`?",
            ]
        );
        assert_eq!(
            all(json),
            [
                "line 2: there is no key `nmae` here; did you mean `name`?",
                "line 4: `count`: the text \"3\" must be a whole number, 0 or more, without quotes",
                "line 5: `image`: the number 5 must be a text in quotes",
            ]
        );
        let without = SAME_IN_YAML.replace("image: ubuntu_noble", "image:");
        assert_eq!(all(&without), ["groups.workers.image: it is empty or longer than 128 bytes"]);
        assert_eq!(all("name: farm\n  zone: b\n").len(), 1, "no YAML");
    }

    #[test]
    fn what_is_no_yaml_or_has_a_key_twice_is_told_with_its_line_beside_a_wrong_value() {
        let all = |text: &str| {
            let error = ClusterSpecification::parse(text, Format::Yaml).unwrap_err();
            let more = error.also.iter().map(ToString::to_string);
            std::iter::once(format!("{}: {}", error.place, error.problem)).chain(more).collect::<Vec<_>>()
        };
        assert_eq!(
            all("name: farm\ngroups:\n\tworkers:\n"),
            ["line 3: the line begins with a tab: indent with spaces"]
        );
        assert_eq!(all("name: farm\nname: farm\nzone: fr-par-1\n"), ["line 2: the key `name` is set twice; keep one"]);
        let both = all("name: farm\nzone: fr-par-1\ngroups:\n  workers:\n    count: one\n   image: x\n");
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(both[0].starts_with("line 5: ") && both[1].contains("is not indented as the lines around"), "{both:?}");
        assert!(all("[1, 2]")[0].starts_with("line 1: a specification is a table"));
    }

    #[test]
    fn a_mistake_brings_no_other_ones_with_it() {
        let all = |text: &str| {
            let error = ClusterSpecification::parse(text, Format::Toml).unwrap_err();
            let more = error.also.iter().map(ToString::to_string);
            std::iter::once(format!("{}: {}", error.place, error.problem)).chain(more).collect::<Vec<_>>()
        };
        assert_eq!(
            all("name = 'farm'\n[groups.a]\ncount = 1\nimage = 'ubuntu_noble'\n"),
            ["line 1: the key `zone` is missing", "line 2: `a`: the key `types` is missing"]
        );
        let found = all(&format!("{GOOD}[hooks.start.webhook]\nurl = 'example.com'\nsecret_env = 'S'\n"));
        assert!(found.len() == 1 && found[0].contains("it is no URL"), "{found:?}");
    }

    #[test]
    fn with_a_wrong_value_the_files_of_all_hooks_are_told_too() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("farm.toml");
        let hooks = "[hooks.configure.program]\ncommand = './missing.sh'\nworking_directory = 'nodir'\n\
            [hooks.decommission.webhook]\nurl = 'https://a.example'\nsecret_file = 'none'\n\
            [hooks.start.ssh]\ncommand = 'x'\nkey_file = 'none'\n";
        std::fs::write(&file, format!("{GOOD}{hooks}port = 70000\n")).unwrap();
        let told = ClusterSpecification::read(&file).unwrap_err().to_string();
        for place in [
            "`port`",
            "hooks.configure.program.command: the hook could not be started: ",
            "hooks.configure.program.working_directory: ",
            "hooks.decommission.webhook.secret_file: the hook cannot be signed: ",
            "hooks.start.ssh.key_file: the hook ",
        ] {
            assert!(told.contains(place), "{place}: {told}");
        }
        // They may be on another machine.
        std::fs::write(&file, format!("{GOOD}{hooks}")).unwrap();
        assert!(ClusterSpecification::read(&file).is_ok());
        std::fs::write(&file, format!("{GOOD}dynamic_address = true\n")).unwrap();
        assert!(ClusterSpecification::read(&file).unwrap_err().to_string().contains("write addresses = []"));
    }

    #[test]
    fn keys_values_files_and_hooks_that_are_wrong_are_told_in_one_pass() {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = 'Farm'\nwait_deadline = '0s'\n[groups.a]\ncount = '3'\ntypes = []\nimage = ''\n\
            volumes = [{ kind = 'local', size = '30GB', operations_per_second = 5000 }, { kind = 'local' }]\n\
            cloud_init_file = 'missing.yaml'\ntags = ['a,b']\n[groups.b]\ncount = 20000\n\
            [hooks.configure]\ntime_limit = '2d'\nprogram = { command = '' }\n\
            [hooks.start]\nssh = { command = 'x', key_file = 'k', port = 99999, user = '', parallel = 0 }\n\
            [hooks.decommission]\nwebhook = { url = 'http://ci.example.com/' }\n[hooks.stop]\n";
        let file = folder.path().join("farm.toml");
        std::fs::write(&file, text).unwrap();
        let error = ClusterSpecification::read(&file).unwrap_err().to_string();
        for told in [
            "line 1: `name`: ",
            "the key `zone` is missing",
            "wait_deadline: ",
            "line 4: `count`: ",
            "groups.a.types: ",
            "groups.a.image: ",
            "groups.a.volumes: operations",
            "groups.a.volumes[1].size: ",
            "groups.a.cloud_init_file: ",
            "groups.a.tags: ",
            "`b`: the key `types` is missing",
            "`b`: the key `image` is missing",
            "hooks.configure.time_limit: ",
            "hooks.configure.program.command: ",
            "`port`: ",
            "hooks.start.ssh.user: ",
            "hooks.start.ssh.parallel: ",
            "hooks.decommission.webhook.url: ",
            "hooks.decommission.webhook: a webhook is signed",
            "there is no key `stop` here; ",
        ] {
            assert!(error.contains(told), "{told:?} is not in: {error}");
        }
        assert!(!error.contains("size is no positive"), "{error}");
    }

    #[test]
    fn a_file_named_as_another_format_is_told_which_it_is_written_in() {
        let json = r#"{"name": "farm", "zone": "fr-par-1", "groups": {}}"#;
        let toml = "line 1: this is TOML, not YAML or JSON: give the file a name that ends in .toml";
        let yaml = "line 1: this is YAML or JSON, not TOML: give the file a name that ends in .yaml or .json";
        for (text, format, said) in
            [(GOOD, Format::Yaml, toml), (SAME_IN_YAML, Format::Toml, yaml), (json, Format::Toml, yaml)]
        {
            let error = ClusterSpecification::parse(text, format).unwrap_err();
            assert_eq!(format!("{}: {}", error.place, error.problem), said);
        }
        // A mistake in the format that the name says stays a mistake of that format.
        assert!(refused("name = farm", Format::Toml).contains("a text needs quotes"));
        assert!(!refused("name: [farm", Format::Yaml).contains("TOML"));
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
        let missing = ClusterSpecification::read(&file).unwrap_err().to_string();
        assert!(missing.contains("groups.workers.cloud_init_file") && missing.contains("init.yaml"), "{missing}");
        std::fs::write(folder.path().join("init.yaml"), "#cloud-config\n").unwrap();
        let specification = ClusterSpecification::read(&file).unwrap();
        let group = specification.groups.values().next().unwrap();
        assert_eq!(group.cloud_init_file.as_deref(), folder.path().join("init.yaml").to_str());
        assert!(Format::of(Path::new("farm.txt")).unwrap_err().to_string().contains(".toml"));
    }
}
