//! Compiles the messages in `proto/` with `protox`, so that no `protoc` has to be installed.

type BuildError = Box<dyn std::error::Error>;

fn main() -> Result<(), BuildError> {
    let files = ["proto/windlass/policy/v1/server.proto", "proto/windlass/policy/v1/slots.proto"];
    for file in files {
        println!("cargo::rerun-if-changed={file}");
    }
    prost_build::Config::new().bytes(["."]).compile_fds(protox::compile(files, ["proto"])?)?;
    Ok(())
}
