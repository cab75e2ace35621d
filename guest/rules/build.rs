//! Asks for more stack than other policies need: expressions are read and evaluated by recursion.

/// For expressions as deep as `src/check.rs` lets them be. Every page of it is reset after each decision.
const STACK_BYTES: u32 = 64 * 1024;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|target| target == "wasm32") {
        println!("cargo::rustc-link-arg-cdylib=-zstack-size={STACK_BYTES}");
    }
}
