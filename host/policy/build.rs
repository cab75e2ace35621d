//! Builds the default policies into `OUT_DIR/<slot>.wasm` and what evaluates rules into `OUT_DIR/rules.wasm`, from where
//! `include_bytes!` embeds them.

fn main() -> Result<(), windlass_guest_build::Error> {
    windlass_guest_build::Build::from_build_script()?
        .package("windlass-guest-state-mapping", "state-mapping")
        .package("windlass-guest-retry", "retry")
        .package("windlass-guest-rollback", "rollback")
        .package("windlass-guest-release", "release")
        .package("windlass-guest-provisioning", "provisioning")
        .package("windlass-guest-rules", "rules")
        .run()?;
    Ok(())
}
