use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One field of a PATCH body, where "leave it", "empty it" (`null`) and "set it" are three different wishes.
///
/// Use it with `#[serde(default, skip_serializing_if = "Patch::is_keep")]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// The field is absent from the body: nothing changes.
    #[default]
    Keep,
    /// The field is `null`: the value is taken away (an address is detached, a placement group left).
    Clear,
    /// The field takes this value.
    Set(T),
}

impl<T> Patch<T> {
    /// True when the field must not appear in the body.
    pub fn is_keep(&self) -> bool {
        matches!(self, Patch::Keep)
    }
}

impl<T> From<T> for Patch<T> {
    fn from(value: T) -> Self {
        Patch::Set(value)
    }
}

impl<T: Serialize> Serialize for Patch<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Patch::Keep | Patch::Clear => serializer.serialize_none(),
            Patch::Set(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Option::<T>::deserialize(deserializer)? {
            Some(value) => Patch::Set(value),
            None => Patch::Clear,
        })
    }
}
