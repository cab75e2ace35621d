//! The code that prost and tonic generate from the protobuf definitions is checked in, so building the hosts needs no
//! protobuf compiler. These tests generate it again with `protox`, which needs no `protoc`.

use std::path::Path;

use windlass_test_contract::{hold, repository};

fn hold_as(file: &str, made: &Path, name: &str) {
    hold(file, &std::fs::read_to_string(made.join(name)).expect("it was made"));
}

#[test]
fn the_services_of_the_runner_plugin_are_those_of_their_definitions() {
    let made = tempfile::tempdir().expect("a folder");
    let folder = repository().join("host/fleeting/proto");
    let files = ["fleeting.proto", "go_plugin.proto", "status.proto"];
    tonic_prost_build::configure()
        // The transport is chosen where a client is made: the tests connect over a unix socket.
        .build_transport(false)
        // Only the tests call a plugin; the plugin itself serves.
        .client_mod_attribute("proto", "#[cfg(test)]")
        .client_mod_attribute("plugin", "#[cfg(test)]")
        .out_dir(made.path())
        .compile_fds(protox::compile(files.map(|file| folder.join(file)), [&folder]).expect("valid definitions"))
        .expect("made");
    for (file, name) in [("proto", "proto.rs"), ("plugin", "plugin.rs"), ("status", "windlass.status.rs")] {
        hold_as(&format!("host/fleeting/src/bindings/{file}.rs"), made.path(), name);
    }
}

#[test]
fn the_messages_of_the_policy_server_are_those_of_their_definitions() {
    let made = tempfile::tempdir().expect("a folder");
    let folder = repository().join("host/serve/proto");
    let files = ["windlass/policy/v1/server.proto", "windlass/policy/v1/slots.proto"];
    prost_build::Config::new()
        .bytes(["."])
        .out_dir(made.path())
        .compile_fds(protox::compile(files.map(|file| folder.join(file)), [&folder]).expect("valid definitions"))
        .expect("made");
    hold_as("host/serve/src/bindings/messages.rs", made.path(), "windlass.policy.v1.rs");
}
