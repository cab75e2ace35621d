//! Messages about misspelt words.

/// The message's end: the nearest of the known words, or all of them.
pub(crate) fn meant<'k>(written: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    let nearest = known
        .clone()
        .map(|word| (strsim::damerau_levenshtein(written, word), word))
        .min()
        .filter(|(distance, word)| *distance <= 1 + word.len() / 4);
    match nearest {
        Some((_, nearest)) => format!("; did you mean `{nearest}`?"),
        None => {
            let known: Vec<String> = known.map(|word| format!("`{word}`")).collect();
            format!("; there are {}", known.join(", "))
        }
    }
}
