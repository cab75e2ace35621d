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
        $(#[doc = $outer:literal])*
        $visibility:vis struct $name:ident {
            $( $(#[doc = $inner:literal])* $field_visibility:vis $field:ident : $type:ty = $default:expr ),* $(,)?
        }
        $( check($self_:ident) $body:block )?
    ) => {
        $(#[doc = $outer])*
        #[derive(Debug, Clone, PartialEq, $crate::reexports::serde::Deserialize)]
        #[serde(
            crate = "windlass_guest_sdk::reexports::serde",
            default,
            deny_unknown_fields,
            rename_all = "kebab-case"
        )]
        $visibility struct $name {
            $( $(#[doc = $inner])* $field_visibility $field: $type, )*
        }

        impl ::core::default::Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $crate::Setting for $name {
            fn schema(out: &mut ::std::string::String) {
                #[allow(unused_mut, reason = "there may be no property")]
                let mut object = $crate::reexports::ObjectSchema::begin(out, concat!($($outer),*));
                let Self { $($field),* } = Self::default();
                $( object.property(stringify!($field), concat!($($inner),*), &$field); )*
                object.end();
            }

            fn json(&self, out: &mut ::std::string::String) {
                out.push('{');
                $( $crate::reexports::member(stringify!($field), &self.$field, out); )*
                out.push('}');
            }
        }

        impl $crate::Settings for $name {
            $(
                fn check(&$self_) -> ::core::result::Result<(), ::std::string::String> $body
            )?
        }
    };
}

/// Makes an enumeration whose cases have names in a configuration: a type for a field of
/// [`settings!`](crate::settings).
///
/// ```
/// use windlass_guest_sdk::prelude::*;
///
/// choices! {
///     /// How much to say.
///     pub enum Loudness {
///         /// Nothing.
///         Silent = "silent",
///         /// Everything.
///         Loud = "loud",
///     }
/// }
/// assert_eq!(Loudness::from_name("loud"), Some(Loudness::Loud));
/// ```
#[macro_export]
macro_rules! choices {
    (
        $(#[$outer:meta])*
        $visibility:vis enum $name:ident {
            $( $(#[$inner:meta])* $variant:ident = $text:literal ),+ $(,)?
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $name {
            $( $(#[$inner])* $variant, )+
        }

        $crate::__named!($name { $($variant = $text,)+ });
    };
}

/// Gives an enumeration its names, for people and for configurations.
#[doc(hidden)]
#[macro_export]
macro_rules! __named {
    ($type:ident { $($variant:ident = $name:literal,)+ }) => {
        #[allow(dead_code, unreachable_pub, reason = "not every enumeration uses all of it, or is public")]
        impl $type {
            /// Every case, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name of the case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The case of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|case| case.name() == name)
            }
        }

        impl ::core::fmt::Display for $type {
            fn fmt(&self, formatter: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                formatter.write_str(self.name())
            }
        }

        impl<'de> $crate::reexports::serde::Deserialize<'de> for $type {
            fn deserialize<D: $crate::reexports::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <::std::string::String as $crate::reexports::serde::Deserialize>::deserialize(deserializer)?;
                Self::from_name(&name).ok_or_else(|| {
                    <D::Error as $crate::reexports::serde::de::Error>::unknown_variant(&name, &[$($name),+])
                })
            }
        }

        impl $crate::Setting for $type {
            fn schema(out: &mut ::std::string::String) {
                out.push_str(concat!("\"enum\":[", $crate::__quoted!($($name),+), "]"));
            }

            fn json(&self, out: &mut ::std::string::String) {
                $crate::reexports::quote(self.name(), out);
            }
        }
    };
}

/// `"a", "b"` as one literal.
#[doc(hidden)]
#[macro_export]
macro_rules! __quoted {
    ($first:literal $(, $rest:literal)*) => {
        concat!("\"", $first, "\"" $(, ",\"", $rest, "\"")*)
    };
}

pub(crate) use __named as named;

/// Exports a policy: `export_policy!(MyPolicy: retry, rollback);`
///
/// The type implements the trait of each slot that is named (`state_mapping`, `retry`, `rollback`, `release`,
/// `provisioning`, `placement`) and [`Policy`](crate::Policy) or [`Settings`](crate::Settings). What the component says
/// about itself is what its package says: name, version, description. Natively (in `cargo test`) it only checks the
/// types.
///
/// A panic says in the log what went wrong. `export_policy!(MyPolicy: retry; silent_panics);` leaves that out: a
/// component that logs nothing else then imports nothing, and a small policy decides a seventh faster, since an
/// instance of it is one module in place of three.
#[macro_export]
macro_rules! export_policy {
    (@with $begin:block $policy:ty : $($slot:ident),+) => {
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
                    $begin
                    $crate::reexports::describe::<$policy>(
                        env!("CARGO_PKG_NAME"),
                        env!("CARGO_PKG_VERSION"),
                        env!("CARGO_PKG_DESCRIPTION"),
                    )
                }

                fn configure(settings: ::std::string::String) -> ::core::result::Result<(), ::std::string::String> {
                    $begin
                    POLICY.configure(&settings)
                }
            }

            $crate::bindings::policy::export!(Exported with_types_in $crate::bindings::policy);
            $( $crate::__export_slot!($slot); )+
        };

        $( $crate::__check_slot!($slot $policy); )+
    };
    ($policy:ty : $($slot:ident),+ ; silent_panics) => {
        $crate::export_policy!(@with {} $policy: $($slot),+);
    };
    ($policy:ty : $($slot:ident),+ $(,)?) => {
        $crate::export_policy!(@with { $crate::reexports::report_panics() } $policy: $($slot),+);
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
    (rules) => {
        impl $crate::bindings::rules::exports::windlass::policy::rules::Guest for Exported {
            fn applied_rules() -> ::std::vec::Vec<$crate::rules::Applied> {
                $crate::rules::Policy::applied(POLICY.get())
            }

            fn remarks() -> ::std::vec::Vec<::std::string::String> {
                $crate::rules::Policy::remarks(POLICY.get())
            }
        }
        $crate::bindings::rules::export!(Exported with_types_in $crate::bindings::rules);
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

/// Checks natively that the policy has the trait of the slot, so that `cargo check` tells before the build for wasm
/// does.
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
