use serde::{Deserialize, Deserializer};

/// Reads `null` as the field's default: Scaleway writes `null`, an empty value or nothing at all for the same fact,
/// depending on the backend that answers (recorded).
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Declares an object of Scaleway's answers: unknown fields are ignored, an absent field and a `null` one are the
/// field's default. A field of the wrong JSON type is an error, because guessing there would hide a broken answer.
macro_rules! answers {
    (
        $(
            $(#[$meta:meta])*
            pub struct $name:ident {
                $( $(#[$field_meta:meta])* pub $field:ident : $type:ty ),* $(,)?
            }
        )+
    ) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
            #[serde(default)]
            pub struct $name {
                $(
                    $(#[$field_meta])*
                    #[serde(deserialize_with = "crate::types::tolerant::null_as_default")]
                    pub $field: $type,
                )*
            }
        )+
    };
}

pub(crate) use answers;
