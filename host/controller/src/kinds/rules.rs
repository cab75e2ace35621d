//! Rules of the definitions that the API server checks, in CEL.

use std::fmt::Write as _;

use kube::core::Rule;

/// The form of a zone's name. Any other is refused before Scaleway is called.
pub(super) const ZONE: &str = "^(fr-par|it-mil|nl-ams|pl-waw)-[1-9]$";

/// None of these fields may change: neither those that always have a value nor those that may have none. `within` is
/// what stands before their names (`spec.`).
pub(super) fn unchanged(within: &str, required: &[&str], optional: &[&str], message: &str) -> Rule {
    let mut rule = String::new();
    for field in required {
        let and = if rule.is_empty() { "" } else { " && " };
        let _ = write!(rule, "{and}self.{within}{field} == oldSelf.{within}{field}");
    }
    for field in optional {
        let and = if rule.is_empty() { "" } else { " && " };
        let (new, old) = (format!("self.{within}{field}"), format!("oldSelf.{within}{field}"));
        let _ = write!(rule, "{and}has({new}) == has({old}) && (!has({new}) || {new} == {old})");
    }
    Rule::new(rule).message(message)
}

/// The object's name is a DNS label of at most so many characters.
pub(super) fn dns_label(most: usize, message: &str) -> Rule {
    let label = "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";
    Rule::new(format!("self.metadata.name.size() <= {most} && {label}")).message(message)
}
