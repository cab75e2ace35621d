//! Links between the pages, and to their sections.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page of the project.
pub(crate) fn pages() -> BTreeMap<PathBuf, String> {
    let root = root();
    let mut pages = BTreeMap::new();
    let mut folders =
        vec![root.join("docs"), root.join("guest"), root.join("host"), root.join("tests"), root.join("wit")];
    for entry in std::fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let text = std::fs::read_to_string(&path).unwrap();
            pages.insert(path, text);
        }
    }
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&name.as_str()) {
                folders.push(path);
            } else if name.ends_with(".md") {
                let text = std::fs::read_to_string(&path).unwrap();
                pages.insert(path, text);
            }
        }
    }
    pages
}

/// Its lines outside of examples.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut example = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        example ^= fence;
        !example && !fence
    })
}

/// The names by which its sections are linked to, as GitHub and GitLab make them of headings.
fn sections(text: &str) -> BTreeSet<String> {
    let mut sections = BTreeSet::new();
    for heading in prose(text).filter(|line| line.starts_with('#')) {
        let name: String = heading
            .trim_start_matches('#')
            .trim()
            .to_lowercase()
            .chars()
            .filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_'))
            .map(|character| if character == ' ' { '-' } else { character })
            .collect();
        let again = (1..).map(|number| format!("{name}-{number}"));
        sections.extend(std::iter::once(name.clone()).chain(again).find(|name| !sections.contains(name)));
    }
    sections
}

/// What it links to, other people's pages left out.
fn links(text: &str) -> Vec<String> {
    let whole = prose(text).collect::<Vec<_>>().join("\n");
    // A pattern in backticks is no link.
    let whole: String = whole.split('`').step_by(2).collect();
    let inline = whole.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let defined = whole.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ")).map(|(_, target)| target);
    let ours = |target: &&str| !target.contains("://") && !target.starts_with("mailto:") && !target.contains(' ');
    inline.chain(defined).filter(ours).map(str::to_owned).collect()
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[test]
fn every_link_between_pages_leads_to_a_file_and_a_section_that_exist() {
    let pages = pages();
    let mut seen = 0;
    let mut dead = Vec::new();
    for (page, text) in &pages {
        for link in links(text) {
            seen += 1;
            let (file, section) = link.split_once('#').map_or((link.as_str(), None), |(file, name)| (file, Some(name)));
            let target = if file.is_empty() { page.clone() } else { normal(&page.parent().unwrap().join(file)) };
            let found = match (pages.get(&target), section) {
                (Some(text), Some(section)) => sections(text).contains(section),
                (_, None) => target.exists(),
                // A line of a file of code, for example.
                (None, Some(_)) => target.exists(),
            };
            if !found {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(seen > 100, "only {seen} links were seen");
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn the_map_of_the_architecture_names_every_crate() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows: Vec<&str> =
        map.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | ")).map(|row| row.0).collect();
    let mut crates = 0;
    for folder in ["guest", "host", "tests"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if !path.join("Cargo.toml").exists() {
                continue;
            }
            crates += 1;
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // A row may leave the folder out where it names several.
            let names = |row: &&&str| row.starts_with(&format!("{folder}/")) && row.contains(&name);
            assert!(rows.iter().any(|row| names(&row)), "{folder}/{name} is not on the map");
        }
    }
    assert!(crates > 30, "only {crates} crates were found");
}
