//! The fixtures, put to the policy natively (`windlass policy test` puts them to the component), and its README.

use namespace_budget::NamespaceBudget;
use windlass_guest_sdk::prelude::*;
use windlass_guest_sdk::testing::{configure, fixtures, readme};

#[test]
fn the_fixtures_hold() {
    for fixture in fixtures("fixtures") {
        let policy: NamespaceBudget =
            configure(&fixture.settings()).unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        let run = fixture.host().run(|| policy.decide(fixture.question()));
        fixture.assert(&run.answer);
    }
}

#[test]
fn the_readme_has_the_settings() {
    readme::assert_settings::<NamespaceBudget>("README.md");
}
