//! Names, ids and places that come from command lines, tags, files and other people's objects. An input is such a text.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_cluster::{ClusterName, NodeGroupName};
use windlass_lifecycle::{GroupName, OperationId, OwnerName, PoolPrefix};
use windlass_policy::{DecisionId, Digest};
use windlass_scaleway::{Region, SecretKey, Zone};

use crate::support::{is_read_again, is_short};

const MAX_WORDS_LEN: usize = 1024;

/// What is taken is written as it was, or in one form of it.
fn is_read<T>(text: &str)
where
    T: FromStr<Err: Display> + Display + Debug + PartialEq + Serialize + DeserializeOwned,
{
    match text.parse::<T>() {
        Ok(name) => {
            assert_eq!(name.to_string().parse::<T>().map_err(|error| error.to_string()).as_ref(), Ok(&name));
            is_read_again(&name);
        }
        Err(error) => is_short(&error.to_string(), MAX_WORDS_LEN),
    }
}

#[test]
fn a_name_that_is_taken_is_read_again_and_any_other_refused_in_few_words() {
    windlass_test_fuzz::check("names", |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        is_read::<GroupName>(text);
        is_read::<OwnerName>(text);
        is_read::<ClusterName>(text);
        is_read::<NodeGroupName>(text);
        is_read::<Zone>(text);
        is_read::<Region>(text);
        is_read::<Digest>(text);
        is_read::<DecisionId>(text);
        match OperationId::parse(text) {
            Ok(id) => {
                is_read_again(&id);
                assert!(id.made_at() > 0);
            }
            Err(error) => is_short(&error.to_string(), MAX_WORDS_LEN),
        }
        if let Err(error) = text.parse::<PoolPrefix>() {
            is_short(&error.to_string(), MAX_WORDS_LEN);
        }
        if let Err(error) = text.parse::<SecretKey>() {
            let reported = format!("{error} {error:?}");
            is_short(&reported, MAX_WORDS_LEN);
            assert!(text.len() < 12 || !reported.contains(text), "a key is told: {reported}");
        }
    });
}
