//! The fixtures, put to the policy natively (`windlass policy test` puts them to the component), and its README.

use maximum_age::MaximumAge;
use windlass_guest_sdk::prelude::*;
use windlass_guest_sdk::testing::{configure, fixtures, readme};

#[test]
fn the_fixtures_hold() {
    for fixture in fixtures("fixtures") {
        let policy: MaximumAge =
            configure(&fixture.settings()).unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        let run = fixture.host().run(|| policy.decide_all(&fixture.question()));
        fixture.assert(&run.answer);
    }
}

#[test]
fn the_readme_has_the_settings() {
    readme::assert_settings::<MaximumAge>("README.md");
}
