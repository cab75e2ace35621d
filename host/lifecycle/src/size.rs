//! Sizes as people write them: `20GB`.

/// Reads a number of bytes: `20GB`, `20 GiB`, `1TB`, in any case.
///
/// # Errors
/// What is wrong and how to write it. A number alone is refused: bytes and gigabytes are too easily confused. So is
/// zero.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| format!("'{text}' is not a size: write for example 20GB"))?;
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "" => return Err(format!("'{text}' lacks a unit: write {text}GB, {text}GiB, {text}TB, ...")),
        other => return Err(format!("'{other}' is no unit of size: use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB")),
    };
    match number.checked_mul(factor) {
        None => Err(format!("'{text}' is too large: the largest size is 18446744TB")),
        Some(0) => Err("a size cannot be zero: write for example 20GB".to_owned()),
        Some(bytes) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_decimal_and_binary_units_in_any_case() {
        for (text, bytes) in [("20GB", 20_000_000_000), ("20 gb", 20_000_000_000), ("1TiB", 1 << 40), ("512b", 512)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_size_without_unit_zero_or_beyond_all_bounds_is_refused_with_the_remedy() {
        assert_eq!(parse_size("20").expect_err("refused"), "'20' lacks a unit: write 20GB, 20GiB, 20TB, ...");
        for wrong in ["", "GB", "-1GB", "0GB", "20 floppies", "99999999999999TB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
