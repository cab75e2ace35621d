//! What every name is that has rules: text that was checked once.

/// A type for names that keep rules: `$check` tells what is wrong with one, as an `$error`.
#[doc(hidden)]
#[macro_export]
macro_rules! __name {
    ($(#[$doc:meta])* $type:ident, $error:ty, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = $error;

            fn from_str(name: &str) -> Result<Self, $error> {
                Self::try_from(name.to_owned())
            }
        }

        impl TryFrom<String> for $type {
            type Error = $error;

            fn try_from(name: String) -> Result<Self, $error> {
                ($check)(&name)?;
                Ok(Self(name))
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

pub(crate) use __name as name;
