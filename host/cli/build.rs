//! Builds the policies that `windlass demo` swaps into `OUT_DIR/<name>.wasm`, from where `include_bytes!` embeds them.

fn main() -> Result<(), windlass_guest_build::Error> {
    windlass_guest_build::Build::from_build_script()?
        .package("windlass-guest-state-mapping", "state-mapping")
        .package("grace-for-stopped", "grace-for-stopped")
        .run()?;
    Ok(())
}
