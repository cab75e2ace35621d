/// Declares an enumeration whose values are words in Scaleway's JSON.
///
/// A word that this version does not know is kept as `Unknown(word)` and written back unchanged, so that a new state at
/// Scaleway never breaks parsing. The order of `KNOWN` is the order of declaration.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $word:literal ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )+
            /// A word this version does not know, or an empty one where Scaleway sent none.
            Unknown(String),
        }

        impl $name {
            /// Every value this version knows.
            pub const KNOWN: &'static [$name] = &[$( $name::$variant ),+];

            /// The word as Scaleway writes it.
            pub fn as_str(&self) -> &str {
                match self {
                    $( $name::$variant => $word, )+
                    $name::Unknown(word) => word,
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name::Unknown(String::new())
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $( $word => $name::$variant, )+
                    other => $name::Unknown(other.to_owned()),
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                match word.as_str() {
                    $( $word => $name::$variant, )+
                    _ => $name::Unknown(word),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Word;

                // Without a `String` in between: most words are known, and lists have many.
                impl serde::de::Visitor<'_> for Word {
                    type Value = $name;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        formatter.write_str("a string")
                    }

                    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<$name, E> {
                        Ok($name::from(word))
                    }
                }

                deserializer.deserialize_str(Word)
            }
        }
    };
}

pub(crate) use words;
