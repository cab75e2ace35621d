//! Rehearsals that were saved.

use maud::{Markup, html};

use super::empty;

/// Those that there are.
pub(crate) fn rehearsals(names: &[String]) -> Markup {
    html! {
        h1 { "Rehearsals" }
        @if names.is_empty() {
            (empty("None is saved here.", "windlass rehearse SCENARIO --arm NAME=FILE --save"))
        } @else {
            ul.needs { @for name in names { li { a href={ "/rehearsals/" (name) } { (name) } } } }
        }
    }
}
