/// Whether `path` fits `pattern`: `*` for anything within a segment, `**` for any number of segments.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.trim_matches('/').split('/').collect();
    let path: Vec<&str> = path.trim_matches('/').split('/').collect();
    segments(&pattern, &path)
}

fn segments(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        (["**", rest @ ..], _) => {
            // A row of `**` is one, or matching would take exponential time.
            let rest = &rest[rest.iter().take_while(|segment| **segment == "**").count()..];
            (0..=path.len()).any(|skipped| segments(rest, &path[skipped..]))
        }
        ([first, rest @ ..], [segment, others @ ..]) => {
            within(first.as_bytes(), segment.as_bytes()) && segments(rest, others)
        }
        _ => false,
    }
}

/// Wildcards within a segment, in linear space and without recursion.
fn within(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(byte) if *byte == text[seen] => {
                at += 1;
                seen += 1;
            }
            _ => match &mut star {
                Some((star_at, taken)) => {
                    *taken += 1;
                    at = *star_at + 1;
                    seen = *taken;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn one_star_stays_within_a_segment_and_two_cross() {
        for (pattern, path, expected) in [
            ("/instance/v1/zones/*/servers", "/instance/v1/zones/fr-par-1/servers", true),
            ("/instance/v1/zones/*/servers", "/instance/v1/zones/fr-par-1/x/servers", false),
            ("/instance/v1/zones/fr-*-1/servers", "/instance/v1/zones/fr-par-1/servers", true),
            ("**/action", "/instance/v1/zones/fr-par-1/servers/1/action", true),
            ("/**", "/", true),
            ("/instance/**", "/instance", true),
            ("/instance/**", "/block/v1", false),
            ("/**/servers/*", "/instance/v1/zones/z/servers/1", true),
            ("/**/servers/*", "/instance/v1/zones/z/servers/1/action", false),
            ("/a*b*c", "/aXbYbZc", true),
            ("/a*b*c", "/aXbYbZ", false),
            ("/servers", "/servers/", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} on {path}");
        }
    }
}
