//! Compiles the wire contracts in `proto/` with `protox`, so that no `protoc` has to be installed.

type BuildError = Box<dyn std::error::Error>;

fn main() -> Result<(), BuildError> {
    let files = ["proto/fleeting.proto", "proto/go_plugin.proto", "proto/status.proto"];
    for file in files {
        println!("cargo::rerun-if-changed={file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure()
        // The transport is chosen where a client is made: the tests connect over a unix socket.
        .build_transport(false)
        // Only the tests call a plugin; the plugin itself serves.
        .client_mod_attribute("proto", "#[cfg(test)]")
        .client_mod_attribute("plugin", "#[cfg(test)]")
        .compile_fds(descriptors)?;
    Ok(())
}
