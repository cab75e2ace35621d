//! Builds the default policies into `OUT_DIR/<slot>.wasm` and what evaluates rules into `OUT_DIR/rules.wasm`, from
//! where `include_bytes!` embeds them.

use windlass_guest_build::{Build, Error};

fn main() -> Result<(), Error> {
    Build::from_build_script()?
        .package("windlass-guest-state-mapping", "state-mapping")
        .package("windlass-guest-retry", "retry")
        .package("windlass-guest-rollback", "rollback")
        .package("windlass-guest-release", "release")
        .package("windlass-guest-provisioning", "provisioning")
        .run()?;
    // By itself: it has dependencies that would give those of the others more features, and so other bytes.
    Build::from_build_script()?.package("windlass-guest-rules", "rules").run()?;
    Ok(())
}
