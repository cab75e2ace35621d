//! Messages about misspelt words.

/// The longest word that is compared: a comparison takes the product of both lengths, and nobody misspells a longer
/// one.
const MAX_WORD_BYTES: usize = 64;

/// The one of the known words that was probably meant, if any resembles what was written.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if written.len() > MAX_WORD_BYTES {
        return None;
    }
    let lower = written.to_ascii_lowercase();
    let distance = |word: &str| strsim::damerau_levenshtein(&lower, &word.to_ascii_lowercase());
    let words = known.into_iter().filter(|word| word.len() <= MAX_WORD_BYTES);
    let (distance, word) = words.map(|word| (distance(word), word)).min()?;
    (distance <= 1 + word.len() / 4).then_some(word)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_one_that_resembles_what_was_written() {
        assert_eq!(nearest("bass", ["cap", "base"]), Some("base"));
        assert_eq!(nearest("colour", ["cap", "base"]), None);
        // Long words are not even compared.
        let (long, longer) = ("x".repeat(MAX_WORD_BYTES), "x".repeat(MAX_WORD_BYTES + 1));
        assert_eq!(nearest(&long, [long.as_str()]), Some(long.as_str()));
        assert_eq!(nearest(&long, [longer.as_str()]), None);
        assert_eq!(nearest(&longer, [long.as_str()]), None);
    }
}
