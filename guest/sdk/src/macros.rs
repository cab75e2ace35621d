/// Makes a settings type, which is a policy at the same time.
///
/// Each field is documented (the text becomes its description in the JSON Schema) and has a default. Keys are written
/// in the configuration with dashes: `wait_ms` is `wait-ms`. Unknown keys are refused with the nearest valid one.
///
/// After the struct, `check(self) { ... }` may refuse combinations that make no sense: it returns `Result<(), String>`.
///
/// ```
/// use windlass_guest_sdk::prelude::*;
///
/// settings! {
///     /// Backs off.
///     pub struct Backoff {
///         /// The first wait, in milliseconds.
///         pub base_ms: u64 = 500,
///         /// The longest wait, in milliseconds.
///         pub cap_ms: u64 = 30_000,
///     }
///     check(self) {
///         if self.base_ms > self.cap_ms {
///             return Err("`base-ms` is above `cap-ms`".into());
///         }
///         Ok(())
///     }
/// }
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[$outer:meta])*
        $visibility:vis struct $name:ident {
            $( $(#[$inner:meta])* $field_visibility:vis $field:ident : $type:ty = $default:expr ),* $(,)?
        }
        $( check($self_:ident) $body:block )?
    ) => {
        $(#[$outer])*
        #[derive(
            Debug,
            Clone,
            PartialEq,
            $crate::reexports::serde::Serialize,
            $crate::reexports::serde::Deserialize,
            $crate::reexports::schemars::JsonSchema,
        )]
        #[serde(
            crate = "windlass_guest_sdk::reexports::serde",
            default,
            deny_unknown_fields,
            rename_all = "kebab-case"
        )]
        #[schemars(crate = "windlass_guest_sdk::reexports::schemars")]
        $visibility struct $name {
            $( $(#[$inner])* $field_visibility $field: $type, )*
        }

        impl ::core::default::Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $crate::Settings for $name {
            $(
                fn check(&$self_) -> ::core::result::Result<(), ::std::string::String> $body
            )?
        }
    };
}

/// Exports a policy: `export_policy!(MyPolicy: retry, rollback);`
///
/// The type implements the trait of each slot that is named (`state_mapping`, `retry`, `rollback`, `release`,
/// `provisioning`) and [`Policy`](crate::Policy) or [`Settings`](crate::Settings). What the component says about itself
/// is what its package says: name, version, description. Natively (in `cargo test`) it only checks the types.
#[macro_export]
macro_rules! export_policy {
    ($policy:ty : $($slot:ident),+ $(,)?) => {
        const _: () = {
            const fn is_a_policy<P: $crate::Policy>() {}
            is_a_policy::<$policy>();
        };

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            static POLICY: $crate::reexports::Configured<$policy> = $crate::reexports::Configured::new();

            struct Exported;

            impl $crate::bindings::policy::exports::windlass::policy::policy::Guest for Exported {
                fn describe() -> $crate::bindings::policy::exports::windlass::policy::policy::Description {
                    $crate::reexports::describe::<$policy>(
                        env!("CARGO_PKG_NAME"),
                        env!("CARGO_PKG_VERSION"),
                        env!("CARGO_PKG_DESCRIPTION"),
                    )
                }

                fn configure(settings: ::std::string::String) -> ::core::result::Result<(), ::std::string::String> {
                    POLICY.configure(&settings)
                }
            }

            $crate::bindings::policy::export!(Exported with_types_in $crate::bindings::policy);
            $( $crate::__export_slot!($slot); )+
        };

        $( $crate::__check_slot!($slot $policy); )+
    };
}

/// One slot of [`export_policy!`](crate::export_policy).
#[doc(hidden)]
#[macro_export]
macro_rules! __export_slot {
    (state_mapping) => {
        impl $crate::bindings::state_mapping::exports::windlass::policy::state_mapping::Guest for Exported {
            fn decide(question: $crate::state_mapping::Question) -> ::std::vec::Vec<$crate::state_mapping::Answer> {
                $crate::StateMapping::decide_all(POLICY.get(), &question)
            }
        }
        $crate::bindings::state_mapping::export!(Exported with_types_in $crate::bindings::state_mapping);
    };
    ($slot:ident) => {
        impl $crate::bindings::$slot::exports::windlass::policy::$slot::Guest for Exported {
            fn decide(question: $crate::$slot::Question) -> $crate::$slot::Answer {
                $crate::$slot::Policy::decide(POLICY.get(), question)
            }
        }
        $crate::bindings::$slot::export!(Exported with_types_in $crate::bindings::$slot);
    };
}

/// Checks natively that the policy has the trait of the slot, so that `cargo check` tells before the build for wasm does.
#[doc(hidden)]
#[macro_export]
macro_rules! __check_slot {
    ($slot:ident $policy:ty) => {
        const _: () = {
            const fn decides<P: $crate::$slot::Policy>() {}
            decides::<$policy>();
        };
    };
}
