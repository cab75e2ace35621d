//! `windlass example`: the files that the documentation uses, to begin with.

use serde_json::json;
use windlass_inspect::failure::Failure;
use windlass_inspect::listing::Listing;
use windlass_inspect::output::Output;

use crate::arguments;
use crate::files::{Existing, write_atomically};

/// A file to begin with.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    about: &'static str,
    /// The page that explains it.
    page: &'static str,
    text: &'static str,
}

macro_rules! examples {
    ($($name:literal, $about:literal, $page:literal;)*) => {
        /// All of them.
        pub(crate) const EXAMPLES: &[Example] = &[$(Example {
            name: $name,
            about: $about,
            page: $page,
            text: include_str!(concat!("../../../../docs/examples/", $name)),
        },)*];
    };
}

examples! {
    "farm.toml", "a cluster of two groups", "README.md";
    "farm-with-hooks.toml", "a cluster with two hooks", "docs/clusters.md";
    "configure.sh", "a hook that writes new nodes into an inventory", "docs/clusters.md";
    "decommission.sh", "a hook that takes nodes out of the inventory", "docs/clusters.md";
    "config.toml", "a configuration of the command line", "docs/operating.md";
    "patience.rules.toml", "a policy of one rule that waits for stock", "docs/rules.md";
    "keep-ci.rules.toml", "a policy of one rule that keeps servers", "docs/decisions.md";
    "laws.toml", "laws that `windlass policy prove` decides", "docs/proving-policies.md";
    "gitlab-runner.toml", "GitLab Runner's `config.toml` with the plugin", "docs/gitlab-runner.md";
    "monday.toml", "a scenario for `windlass rehearse`", "docs/rehearse.md";
}

pub(crate) fn run(output: Output, arguments: &arguments::Example) -> Result<(), Failure> {
    let Some(name) = &arguments.name else {
        list(output);
        return Ok(());
    };
    let example = EXAMPLES.iter().find(|example| example.name == name).ok_or_else(|| {
        let without_ending = |example: &str| example.split('.').next() == Some(name.as_str());
        let names = || EXAMPLES.iter().map(|example| example.name);
        let near = names().find(|example| without_ending(example));
        let near = near.or_else(|| windlass_policy::nearest(name, names()));
        let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
        Failure::usage(format!("there is no example '{name}'{near}")).remedy("windlass example")
    })?;
    let Some(file) = &arguments.out else {
        let document = json!({ "name": example.name, "about": example.about, "text": example.text });
        output.result(&document, || example.text.to_owned());
        return Ok(());
    };
    let existing = if arguments.overwrite { Existing::Replace } else { Existing::Keep };
    write_atomically(file, example.text.as_bytes(), existing).map_err(|error| {
        let failure = Failure::usage("the example cannot be written").at(file.display().to_string());
        match error.kind() {
            _ if file.is_dir() => failure.because("it is a directory").remedy("name a file in it with --out"),
            std::io::ErrorKind::AlreadyExists => {
                failure.because("the file exists").remedy("name another file with --out, or add --overwrite")
            }
            _ => failure.because(error.to_string()).remedy("name a file in a folder that you may write"),
        }
    })?;
    let document = json!({ "name": example.name, "about": example.about, "file": file });
    output.result(&document, || format!("wrote {}: {}\n", file.display(), example.about));
    Ok(())
}

fn list(output: Output) {
    let fields = |example: &Example| json!({ "name": example.name, "about": example.about, "page": example.page });
    let document = json!({ "examples": EXAMPLES.iter().map(fields).collect::<Vec<_>>() });
    let listing = Listing::new(EXAMPLES, "no examples", |example: &Example| example.name.to_owned())
        .column("example", |example| example.name.to_owned())
        .column("what", |example| example.about.to_owned())
        .wide("page", |example| example.page.to_owned());
    output.listing(&document, &listing);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_shown_whole_or_printed_on_its_page() {
        for Example { name, page, text, .. } in EXAMPLES {
            let page_text = std::fs::read_to_string(windlass_test_reference::repository().join(page));
            let page_text = page_text.expect("the page exists");
            let is_shown = page_text.contains(&format!("\n{text}```\n"));
            let is_printed = page_text.contains(&format!("\n$ windlass example {name} > {name}\n"));
            assert!(is_shown || is_printed, "{page} does not show {name} as it is");
        }
    }

    #[test]
    fn every_file_of_the_folder_is_an_example() {
        let folder = windlass_test_reference::repository().join("docs/examples");
        let names = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("read").file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().expect("UTF-8")).collect();
        names.sort();
        let mut known: Vec<&str> = EXAMPLES.iter().map(|example| example.name).collect();
        known.sort_unstable();
        assert_eq!(names, known);
    }
}
