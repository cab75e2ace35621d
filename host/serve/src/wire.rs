//! How the contract's types become messages and back. [`crate::slots`] says it for each type, with the macros of this
//! module.

/// A type of the contract that travels.
pub(crate) trait Wire: Sized {
    /// As what.
    type Message;

    /// From a message of a peer, which may lack anything.
    fn read(message: Self::Message) -> Result<Self, Invalid>;

    /// Into a message.
    fn write(self) -> Self::Message;
}

/// What is wrong with a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    /// The field: `failure.class`, `servers[3].state`.
    place: String,
    problem: String,
}

impl Invalid {
    fn new(problem: impl Into<String>) -> Invalid {
        Invalid { place: String::new(), problem: problem.into() }
    }

    /// The same, seen from the message that has the field.
    pub(crate) fn at(mut self, place: &str) -> Invalid {
        let joint = if self.place.is_empty() || self.place.starts_with('[') { "" } else { "." };
        self.place = format!("{place}{joint}{}", self.place);
        self
    }
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the field {} {}", self.place, self.problem)
    }
}

macro_rules! as_it_is {
    ($($type:ty),*) => {
        $(
            impl Wire for $type {
                type Message = $type;

                fn read(message: $type) -> Result<$type, Invalid> {
                    Ok(message)
                }

                fn write(self) -> $type {
                    self
                }
            }
        )*
    };
}
as_it_is!(bool, u32, u64, String);

impl Wire for u16 {
    type Message = u32;

    fn read(message: u32) -> Result<u16, Invalid> {
        u16::try_from(message).map_err(|_| Invalid::new(format!("is {message}, more than 65535")))
    }

    fn write(self) -> u32 {
        self.into()
    }
}

impl<T: Wire> Wire for Option<T> {
    type Message = Option<T::Message>;

    fn read(message: Option<T::Message>) -> Result<Option<T>, Invalid> {
        message.map(T::read).transpose()
    }

    fn write(self) -> Option<T::Message> {
        self.map(T::write)
    }
}

impl<T: Wire> Wire for Vec<T> {
    type Message = Vec<T::Message>;

    fn read(message: Vec<T::Message>) -> Result<Vec<T>, Invalid> {
        let read =
            |(index, item): (usize, T::Message)| T::read(item).map_err(|invalid| invalid.at(&format!("[{index}]")));
        message.into_iter().enumerate().map(read).collect()
    }

    fn write(self) -> Vec<T::Message> {
        self.into_iter().map(T::write).collect()
    }
}

/// Fields that stand in a message as they are.
pub(crate) mod given {
    use super::{Invalid, Wire};

    pub(crate) fn read<T: Wire>(message: T::Message) -> Result<T, Invalid> {
        T::read(message)
    }

    pub(crate) fn write<T: Wire>(value: T) -> T::Message {
        value.write()
    }
}

/// Fields that are messages themselves, which protobuf lets be absent and the contract does not.
pub(crate) mod required {
    use super::{Invalid, Wire};

    pub(crate) fn read<T: Wire>(message: Option<T::Message>) -> Result<T, Invalid> {
        T::read(message.ok_or_else(super::missing)?)
    }

    pub(crate) fn write<T: Wire>(value: T) -> Option<T::Message> {
        Some(value.write())
    }
}

pub(crate) fn missing() -> Invalid {
    Invalid::new("is missing")
}

pub(crate) fn unknown(case: i32) -> Invalid {
    Invalid::new(format!("is {case}, which is not a known value"))
}

macro_rules! record {
    ($host:ty = $message:ident { $($field:ident: $how:ident,)* }) => {
        impl $crate::wire::Wire for $host {
            type Message = $crate::proto::$message;

            fn read(message: Self::Message) -> Result<Self, $crate::wire::Invalid> {
                Ok(Self {
                    $( $field: $crate::wire::$how::read(message.$field).map_err(|it| it.at(stringify!($field)))?, )*
                })
            }

            fn write(self) -> Self::Message {
                Self::Message { $( $field: $crate::wire::$how::write(self.$field), )* }
            }
        }
    };
}

macro_rules! enumeration {
    (@ $host:ty = $message:ident, $unknown:expr, $($case:ident)*) => {
        impl $crate::wire::Wire for $host {
            type Message = i32;

            fn read(message: i32) -> Result<Self, $crate::wire::Invalid> {
                match $crate::proto::$message::try_from(message) {
                    $( Ok($crate::proto::$message::$case) => Ok(Self::$case), )*
                    Ok($crate::proto::$message::Unspecified) => Err($crate::wire::missing()),
                    Err(_) => $unknown(message),
                }
            }

            fn write(self) -> i32 {
                match self {
                    $( Self::$case => $crate::proto::$message::$case as i32, )*
                }
            }
        }
    };
    ($host:ty = $message:ident { $($case:ident,)* }) => {
        $crate::wire::enumeration!(@ $host = $message, |case| Err($crate::wire::unknown(case)), $($case)*);
    };
}

/// One that has `other` for what a newer client may say.
macro_rules! growing_enumeration {
    ($host:ty = $message:ident { $($case:ident,)* }) => {
        $crate::wire::enumeration!(@ $host = $message, |_| Ok(Self::Other), $($case)*);
    };
}

/// `Case` without a payload, `Case(_)` with one, `Case[Message]` with a list, for which protobuf needs a message.
macro_rules! variant {
    ($host:ty = $message:ident, $module:ident { $($case:ident $(($payload:tt))? $([$list:ident])?,)* }) => {
        impl $crate::wire::Wire for $host {
            type Message = $crate::proto::$message;

            fn read(message: Self::Message) -> Result<Self, $crate::wire::Invalid> {
                Ok(match message.verdict.ok_or_else(|| $crate::wire::missing().at("verdict"))? {
                    $( $crate::proto::$module::Verdict::$case(payload) => {
                        $crate::wire::variant!(@read payload, $case $(($payload))? $([$list])?)
                    } )*
                })
            }

            fn write(self) -> Self::Message {
                let verdict = match self {
                    $( $crate::wire::variant!(@pattern payload, $case $(($payload))? $([$list])?) => {
                        let payload = $crate::wire::variant!(@write payload, $(($payload))? $([$list])?);
                        $crate::proto::$module::Verdict::$case(payload)
                    } )*
                };
                Self::Message { verdict: Some(verdict) }
            }
        }
    };
    (@read $payload:ident, $case:ident) => {{
        let () = $payload;
        Self::$case
    }};
    (@read $payload:ident, $case:ident (_)) => {
        Self::$case($crate::wire::given::read($payload).map_err(|it| it.at(stringify!($case)))?)
    };
    (@read $payload:ident, $case:ident [$list:ident]) => {
        Self::$case($crate::wire::given::read($payload.items).map_err(|it| it.at(stringify!($case)))?)
    };
    (@pattern $payload:ident, $case:ident) => { Self::$case };
    (@pattern $payload:ident, $case:ident (_)) => { Self::$case($payload) };
    (@pattern $payload:ident, $case:ident [$list:ident]) => { Self::$case($payload) };
    (@write $payload:ident,) => { () };
    (@write $payload:ident, (_)) => { $crate::wire::given::write($payload) };
    (@write $payload:ident, [$list:ident]) => {
        $crate::proto::$list { items: $crate::wire::given::write($payload) }
    };
}

pub(crate) use {enumeration, growing_enumeration, record, variant};

#[cfg(test)]
mod tests;
