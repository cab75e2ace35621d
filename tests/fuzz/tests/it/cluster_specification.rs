//! A cluster's specification. An input is the text of its file.

use windlass_cluster::{ClusterSpecification, Format};

use crate::support::{is_read_from, is_short};

const MAX_WORDS_LEN: usize = 2 * 1024;

#[test]
fn a_specification_that_is_taken_is_stored_as_it_is_and_any_other_refused_in_few_words() {
    windlass_test_fuzz::check("cluster-specification", |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        for format in [Format::Toml, Format::Yaml] {
            match ClusterSpecification::parse(text, format) {
                Ok(specification) => is_read_from(&specification.with_secrets().unwrap().to_string(), &specification),
                Err(error) => is_short(&error.to_string(), MAX_WORDS_LEN),
            }
        }
    });
}
