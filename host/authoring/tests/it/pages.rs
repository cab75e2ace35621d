//! docs/slots.md.

use std::path::Path;

#[test]
fn the_page_of_the_slots_is_made_of_the_contract() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/slots.md");
    let made = windlass_authoring::reference().unwrap();
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(&page, &made).unwrap();
    }
    let present = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(present == made, "docs/slots.md differs from the contract in wit/: run `just reference`");
}
