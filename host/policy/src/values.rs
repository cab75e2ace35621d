//! Component values as JSON and back, by the component's own types, in the contract's spelling.

use serde_json::{Map, Number, Value};
use wasmtime::component::{Type, Val};

use crate::text::{brief, short};

/// How deep a value may be nested. The contract's types are some five levels deep.
const MAX_DEPTH: usize = 32;

/// A value that a guest passed, as JSON.
///
/// # Errors
/// The value is a handle, a stream or the like, which has no JSON form.
pub(crate) fn to_json(value: &Val) -> Result<Value, String> {
    let list = |items: &[Val]| items.iter().map(to_json).collect::<Result<Vec<_>, _>>().map(Value::Array);
    let payload = |payload: &Option<Box<Val>>| payload.as_deref().map_or(Ok(Value::Null), to_json);
    let one_key = |key: &str, value: Value| Value::Object(Map::from_iter([(key.to_owned(), value)]));
    Ok(match value {
        Val::Bool(value) => Value::Bool(*value),
        Val::S8(value) => (*value).into(),
        Val::U8(value) => (*value).into(),
        Val::S16(value) => (*value).into(),
        Val::U16(value) => (*value).into(),
        Val::S32(value) => (*value).into(),
        Val::U32(value) => (*value).into(),
        Val::S64(value) => (*value).into(),
        Val::U64(value) => (*value).into(),
        // Infinities and NaN have no form in JSON.
        Val::Float32(value) => Number::from_f64(f64::from(*value)).map_or(Value::Null, Value::Number),
        Val::Float64(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
        Val::Char(value) => Value::String(value.to_string()),
        Val::String(value) => Value::String(value.clone()),
        Val::List(items) | Val::Tuple(items) | Val::FixedLengthList(items) => list(items)?,
        Val::Record(fields) => {
            let fields = fields.iter().map(|(name, value)| Ok((name.clone(), to_json(value)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        Val::Variant(case, None) => Value::String(case.clone()),
        Val::Variant(case, Some(value)) => one_key(case, to_json(value)?),
        Val::Enum(case) => Value::String(case.clone()),
        Val::Option(value) => payload(value)?,
        Val::Result(Ok(value)) => one_key("ok", payload(value)?),
        Val::Result(Err(value)) => one_key("err", payload(value)?),
        Val::Flags(names) => Value::Array(names.iter().cloned().map(Value::String).collect()),
        Val::Map(_) | Val::Resource(_) | Val::Future(_) | Val::Stream(_) | Val::ErrorContext(_) => {
            return Err("a handle, a stream or a map can't be passed to a capability".into());
        }
    })
}

/// JSON as a value of this type, to be passed to a guest.
///
/// # Errors
/// A sentence with the place and what was expected there.
pub(crate) fn from_json(value: &Value, expected: &Type) -> Result<Val, String> {
    convert(value, expected, 0).map_err(|(path, problem)| {
        if path.is_empty() { problem } else { format!("at {}: {problem}", path.trim_start_matches('.')) }
    })
}

/// Path and problem.
type Mismatch = (String, String);

fn convert(value: &Value, expected: &Type, depth: usize) -> Result<Val, Mismatch> {
    let wrong = |what: &str| (String::new(), format!("expected {what}, found {}", brief(value)));
    if depth > MAX_DEPTH {
        return Err((String::new(), format!("nested more than {MAX_DEPTH} deep")));
    }
    let inside = |place: String, value: &Value, expected: &Type| {
        convert(value, expected, depth + 1).map_err(|(path, problem)| (format!("{place}{path}"), problem))
    };
    let payload = |place: &str, value: &Value, expected: Option<Type>| match expected {
        Some(expected) => Ok(Some(Box::new(inside(format!(".{place}"), value, &expected)?))),
        None if value.is_null() => Ok(None),
        None => Err((format!(".{place}"), format!("expected nothing, found {}", brief(value)))),
    };
    macro_rules! integer {
        ($case:ident, $type:ty, $get:ident) => {
            match value.$get().and_then(|number| <$type>::try_from(number).ok()) {
                Some(number) => Val::$case(number),
                None => return Err(wrong(concat!("a whole number that fits ", stringify!($type)))),
            }
        };
    }
    Ok(match expected {
        Type::Bool => Val::Bool(value.as_bool().ok_or_else(|| wrong("a truth value"))?),
        Type::S8 => integer!(S8, i8, as_i64),
        Type::U8 => integer!(U8, u8, as_u64),
        Type::S16 => integer!(S16, i16, as_i64),
        Type::U16 => integer!(U16, u16, as_u64),
        Type::S32 => integer!(S32, i32, as_i64),
        Type::U32 => integer!(U32, u32, as_u64),
        Type::S64 => integer!(S64, i64, as_i64),
        Type::U64 => integer!(U64, u64, as_u64),
        #[expect(clippy::cast_possible_truncation, reason = "the contract asks for the nearest f32")]
        Type::Float32 => Val::Float32(value.as_f64().ok_or_else(|| wrong("a number"))? as f32),
        Type::Float64 => Val::Float64(value.as_f64().ok_or_else(|| wrong("a number"))?),
        Type::Char => {
            let mut letters = value.as_str().unwrap_or_default().chars();
            match (letters.next(), letters.next()) {
                (Some(letter), None) => Val::Char(letter),
                _ => return Err(wrong("one character")),
            }
        }
        Type::String => Val::String(value.as_str().ok_or_else(|| wrong("a string"))?.to_owned()),
        Type::List(list) => {
            let items = value.as_array().ok_or_else(|| wrong("a list"))?;
            let element = list.ty();
            let convert = |(index, item)| inside(format!("[{index}]"), item, &element);
            Val::List(items.iter().enumerate().map(convert).collect::<Result<_, _>>()?)
        }
        Type::Tuple(tuple) => {
            let items = value.as_array().filter(|items| items.len() == tuple.types().len());
            let items = items.ok_or_else(|| wrong(&format!("a list of {}", tuple.types().len())))?;
            let convert =
                |(index, (item, expected)): (usize, (&Value, Type))| inside(format!("[{index}]"), item, &expected);
            Val::Tuple(items.iter().zip(tuple.types()).enumerate().map(convert).collect::<Result<_, _>>()?)
        }
        Type::Record(record) => {
            let map = value.as_object().ok_or_else(|| wrong("an object"))?;
            if let Some(key) = map.keys().find(|key| !record.fields().any(|field| field.name == key.as_str())) {
                return Err((String::new(), format!("there is no field `{}`", short(key))));
            }
            let field = |field: wasmtime::component::types::Field<'_>| {
                // An absent key is a null, which only an option accepts.
                let value = map.get(field.name).unwrap_or(&Value::Null);
                Ok((field.name.to_owned(), inside(format!(".{}", field.name), value, &field.ty)?))
            };
            Val::Record(record.fields().map(field).collect::<Result<_, Mismatch>>()?)
        }
        Type::Variant(variant) => {
            let (name, content) = case(value).ok_or_else(|| wrong("the name of a case, or an object with one key"))?;
            let Some(case) = variant.cases().find(|case| case.name == name) else {
                return Err((String::new(), format!("there is no case `{}`", short(name))));
            };
            Val::Variant(name.to_owned(), payload(name, content, case.ty)?)
        }
        Type::Enum(names) => {
            let name = value.as_str().ok_or_else(|| wrong("the name of a case"))?;
            if !names.names().any(|known| known == name) {
                return Err((String::new(), format!("there is no case `{}`", short(name))));
            }
            Val::Enum(name.to_owned())
        }
        Type::Option(_) if value.is_null() => Val::Option(None),
        Type::Option(option) => Val::Option(Some(Box::new(convert(value, &option.ty(), depth + 1)?))),
        Type::Result(result) => match case(value) {
            Some(("ok", content)) => Val::Result(Ok(payload("ok", content, result.ok())?)),
            Some(("err", content)) => Val::Result(Err(payload("err", content, result.err())?)),
            _ => return Err(wrong("an object with the key `ok` or `err`")),
        },
        Type::Flags(flags) => {
            let items = value.as_array().ok_or_else(|| wrong("a list of names"))?;
            let name = |item: &Value| {
                let known = item.as_str().filter(|name| flags.names().any(|known| known == *name));
                known.map(str::to_owned).ok_or_else(|| wrong("a list of the names of flags"))
            };
            Val::Flags(items.iter().map(name).collect::<Result<_, _>>()?)
        }
        Type::Map(_)
        | Type::Own(_)
        | Type::Borrow(_)
        | Type::Future(_)
        | Type::Stream(_)
        | Type::ErrorContext
        | Type::FixedLengthList(_) => {
            return Err((String::new(), "a type that capabilities can't pass".into()));
        }
    })
}

/// A case of a variant or result, and its payload.
fn case(value: &Value) -> Option<(&str, &Value)> {
    match value {
        Value::String(name) => Some((name, &Value::Null)),
        Value::Object(map) if map.len() == 1 => map.iter().next().map(|(name, content)| (name.as_str(), content)),
        _ => None,
    }
}
