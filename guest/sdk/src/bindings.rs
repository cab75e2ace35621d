//! What wit-bindgen makes of the contract in `wit/`.
//!
//! One world for each slot, so that a component exports just the slots it names, and one for everything that can be
//! imported, from which the linker keeps what is used. The types of `windlass:policy/types` are generated once and
//! shared by all.
#![allow(unsafe_code, missing_docs, unreachable_pub)]
#![allow(clippy::all)]

/// Everything a policy may import.
pub mod imports {
    wit_bindgen::generate!({
        path: ["../../wit/policy", "../../wit/scaleway"],
        inline: "
            package windlass:guest-sdk;
            world imports {
                import windlass:policy/types@0.1.0;
                import windlass:policy/log@0.1.0;
                import windlass:scaleway/look-ups@0.1.0;
                import windlass:scaleway/request@0.1.0;
            }
        ",
        generate_all,
        generate_unused_types: true,
        additional_derives: [PartialEq],
    });
}

/// `describe` and `configure`.
pub mod policy {
    wit_bindgen::generate!({
        path: "../../wit/policy",
        inline: "
            package windlass:guest-sdk;
            world description { export windlass:policy/policy@0.1.0; }
        ",
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "windlass_guest_sdk::bindings::policy",
    });
}

/// The slot `state-mapping`.
pub mod state_mapping {
    wit_bindgen::generate!({
        path: "../../wit/policy",
        inline: "
            package windlass:guest-sdk;
            world state-mapping { export windlass:policy/state-mapping@0.1.0; }
        ",
        with: {
            "windlass:policy/types@0.1.0": crate::bindings::imports::windlass::policy::types,
            "windlass:policy/state-mapping@0.1.0": generate,
        },
        additional_derives: [PartialEq],
        pub_export_macro: true,
        default_bindings_module: "windlass_guest_sdk::bindings::state_mapping",
    });
}

/// The slot `retry`.
pub mod retry {
    wit_bindgen::generate!({
        path: "../../wit/policy",
        inline: "
            package windlass:guest-sdk;
            world retry { export windlass:policy/retry@0.1.0; }
        ",
        with: {
            "windlass:policy/types@0.1.0": crate::bindings::imports::windlass::policy::types,
            "windlass:policy/retry@0.1.0": generate,
        },
        additional_derives: [PartialEq],
        pub_export_macro: true,
        default_bindings_module: "windlass_guest_sdk::bindings::retry",
    });
}

/// The slot `rollback`.
pub mod rollback {
    wit_bindgen::generate!({
        path: "../../wit/policy",
        inline: "
            package windlass:guest-sdk;
            world rollback { export windlass:policy/rollback@0.1.0; }
        ",
        with: {
            "windlass:policy/types@0.1.0": crate::bindings::imports::windlass::policy::types,
            "windlass:policy/rollback@0.1.0": generate,
        },
        additional_derives: [PartialEq],
        pub_export_macro: true,
        default_bindings_module: "windlass_guest_sdk::bindings::rollback",
    });
}

/// The slot `release`.
pub mod release {
    wit_bindgen::generate!({
        path: "../../wit/policy",
        inline: "
            package windlass:guest-sdk;
            world release { export windlass:policy/release@0.1.0; }
        ",
        with: {
            "windlass:policy/types@0.1.0": crate::bindings::imports::windlass::policy::types,
            "windlass:policy/release@0.1.0": generate,
        },
        additional_derives: [PartialEq],
        pub_export_macro: true,
        default_bindings_module: "windlass_guest_sdk::bindings::release",
    });
}

/// The slot `provisioning`.
pub mod provisioning {
    wit_bindgen::generate!({
        path: "../../wit/policy",
        inline: "
            package windlass:guest-sdk;
            world provisioning { export windlass:policy/provisioning@0.1.0; }
        ",
        with: {
            "windlass:policy/types@0.1.0": crate::bindings::imports::windlass::policy::types,
            "windlass:policy/provisioning@0.1.0": generate,
        },
        additional_derives: [PartialEq],
        pub_export_macro: true,
        default_bindings_module: "windlass_guest_sdk::bindings::provisioning",
    });
}
