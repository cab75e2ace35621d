//! Takes from a question or an answer exactly the values that an expression names, straight from the Rust types: a
//! law is held against millions of answers, and most of each question has nothing to do with it.

use std::fmt;

use cel::Value;
use cel::common::types::CelBool;
use cel::common::value::Val;
use serde::ser::{self, Impossible, Serialize};

/// What is wanted of a value and of what lies below it.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// The place of the value itself. Of a variant: the name of its case.
    pub(super) value: Option<usize>,
    /// The place of whether it is there.
    pub(super) presence: Option<usize>,
    /// By the name of a field, or of a variant's case.
    pub(super) below: Vec<(String, Wanted)>,
}

impl Wanted {
    /// What is wanted at the end of this path.
    pub(super) fn at<'p>(&mut self, path: impl IntoIterator<Item = &'p str>) -> &mut Wanted {
        path.into_iter().fold(self, |wanted, name| {
            let position = wanted.below.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
                wanted.below.push((name.to_owned(), Wanted::default()));
                wanted.below.len() - 1
            });
            &mut wanted.below[position].1
        })
    }

    fn below(&self, name: &str) -> Option<&Wanted> {
        self.below.iter().find(|(known, _)| known == name).map(|(_, wanted)| wanted)
    }
}

/// The values that were found, by their places. What is absent is null.
pub(super) type Found = Vec<Option<Box<dyn Val>>>;

/// A value that cannot be an expression's.
#[derive(Debug)]
pub(super) struct PickError(String);

impl fmt::Display for PickError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PickError {}

impl ser::Error for PickError {
    fn custom<T: fmt::Display>(message: T) -> PickError {
        PickError(message.to_string())
    }
}

/// Puts what is wanted of a value in its places.
pub(super) fn pick<T: Serialize + ?Sized>(wanted: &Wanted, value: &T, found: &mut Found) -> Result<(), PickError> {
    let whole = value.serialize(Pick { wanted, found })?;
    if let (true, Some(place)) = (whole, wanted.value) {
        let value = cel::to_value(value).map_err(|error| PickError(error.to_string()))?;
        found[place] = Some(val(in_contracts_words(value))?);
    }
    Ok(())
}

fn val(value: Value) -> Result<Box<dyn Val>, PickError> {
    Box::<dyn Val>::try_from(value).map_err(|error| PickError(error.to_string()))
}

/// Fields with `_` for `-`, and numbers as CEL's literals are where they fit.
fn in_contracts_words(value: Value) -> Value {
    match value {
        Value::UInt(number) => i64::try_from(number).map_or(Value::UInt(number), Value::Int),
        Value::List(items) => items.iter().cloned().map(in_contracts_words).collect::<Vec<_>>().into(),
        Value::Map(map) => map
            .map
            .iter()
            .map(|(key, value)| (key.to_string().replace('-', "_"), in_contracts_words(value.clone())))
            .collect::<std::collections::HashMap<_, _>>()
            .into(),
        value => value,
    }
}

/// Returns whether the value itself is wanted and was not put in its place, since it is no single word or number.
struct Pick<'a> {
    wanted: &'a Wanted,
    found: &'a mut Found,
}

impl Pick<'_> {
    fn present(&mut self) {
        if let Some(place) = self.wanted.presence {
            self.found[place] = Some(Box::new(CelBool::from(true)));
        }
    }

    fn single(mut self, value: impl FnOnce() -> Value) -> Result<bool, PickError> {
        self.present();
        if let Some(place) = self.wanted.value {
            self.found[place] = Some(val(value())?);
        }
        Ok(false)
    }

    fn number(self, number: u64) -> Result<bool, PickError> {
        self.single(|| in_contracts_words(Value::UInt(number)))
    }

    fn whole(mut self) -> Self {
        self.present();
        self
    }
}

impl<'a> ser::Serializer for Pick<'a> {
    type Ok = bool;
    type Error = PickError;
    type SerializeSeq = Pick<'a>;
    type SerializeStruct = Pick<'a>;
    type SerializeTuple = Impossible<bool, PickError>;
    type SerializeTupleStruct = Impossible<bool, PickError>;
    type SerializeTupleVariant = Impossible<bool, PickError>;
    type SerializeMap = Impossible<bool, PickError>;
    type SerializeStructVariant = Impossible<bool, PickError>;

    fn serialize_bool(self, value: bool) -> Result<bool, PickError> {
        self.single(|| Value::Bool(value))
    }
    fn serialize_u8(self, value: u8) -> Result<bool, PickError> {
        self.number(value.into())
    }
    fn serialize_u16(self, value: u16) -> Result<bool, PickError> {
        self.number(value.into())
    }
    fn serialize_u32(self, value: u32) -> Result<bool, PickError> {
        self.number(value.into())
    }
    fn serialize_u64(self, value: u64) -> Result<bool, PickError> {
        self.number(value)
    }
    fn serialize_str(self, value: &str) -> Result<bool, PickError> {
        self.single(|| value.into())
    }
    fn serialize_none(self) -> Result<bool, PickError> {
        Ok(false)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<bool, PickError> {
        pick(self.wanted, value, self.found).map(|()| false)
    }
    fn serialize_unit(self) -> Result<bool, PickError> {
        Ok(false)
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, case: &'static str) -> Result<bool, PickError> {
        self.single(|| case.into())
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        case: &'static str,
        payload: &T,
    ) -> Result<bool, PickError> {
        if let Some(wanted) = self.wanted.below(case) {
            pick(wanted, payload, self.found)?;
        }
        self.single(|| case.into())
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Pick<'a>, PickError> {
        Ok(self.whole())
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Pick<'a>, PickError> {
        Ok(self.whole())
    }

    // What no slot has.
    fn serialize_i8(self, _: i8) -> Result<bool, PickError> {
        Err(unknown("a signed number"))
    }
    fn serialize_i16(self, _: i16) -> Result<bool, PickError> {
        Err(unknown("a signed number"))
    }
    fn serialize_i32(self, _: i32) -> Result<bool, PickError> {
        Err(unknown("a signed number"))
    }
    fn serialize_i64(self, _: i64) -> Result<bool, PickError> {
        Err(unknown("a signed number"))
    }
    fn serialize_f32(self, _: f32) -> Result<bool, PickError> {
        Err(unknown("a fraction"))
    }
    fn serialize_f64(self, _: f64) -> Result<bool, PickError> {
        Err(unknown("a fraction"))
    }
    fn serialize_char(self, _: char) -> Result<bool, PickError> {
        Err(unknown("a character"))
    }
    fn serialize_bytes(self, _: &[u8]) -> Result<bool, PickError> {
        Err(unknown("bytes"))
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<bool, PickError> {
        Err(unknown("a unit"))
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<bool, PickError> {
        value.serialize(self)
    }
    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, PickError> {
        Err(unknown("a tuple"))
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, PickError> {
        Err(unknown("a tuple"))
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, PickError> {
        Err(unknown("a tuple"))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, PickError> {
        Err(unknown("a map"))
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, PickError> {
        Err(unknown("a case with fields"))
    }
}

fn unknown(what: &str) -> PickError {
    PickError(format!("no slot has {what}"))
}

impl ser::SerializeSeq for Pick<'_> {
    type Ok = bool;
    type Error = PickError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), PickError> {
        Ok(())
    }

    fn end(self) -> Result<bool, PickError> {
        Ok(self.wanted.value.is_some())
    }
}

impl ser::SerializeStruct for Pick<'_> {
    type Ok = bool;
    type Error = PickError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), PickError> {
        match self.wanted.below(name) {
            Some(wanted) => pick(wanted, value, self.found),
            None => Ok(()),
        }
    }

    fn end(self) -> Result<bool, PickError> {
        Ok(self.wanted.value.is_some())
    }
}
