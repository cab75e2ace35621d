//! Messages about misspelt words.

/// The one of the known words that was probably meant.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let distances = known.into_iter().map(|word| (strsim::damerau_levenshtein(written, word), word));
    distances.min().filter(|(distance, word)| *distance <= 1 + word.len() / 4).map(|(_, word)| word)
}

/// The end of a message about an unknown word: the nearest of the known words, or all of them.
pub fn meant<'k>(written: &str, known: impl IntoIterator<Item = &'k str, IntoIter: Clone>) -> String {
    let known = known.into_iter();
    match nearest(written, known.clone()) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => {
            let known: Vec<String> = known.map(|word| format!("`{word}`")).collect();
            format!("; there are {}", known.join(", "))
        }
    }
}
