//! The contract as rules see it: what each rule is about, and how to get at the fields in the SDK's types.
//!
//! Two things differ, since a position says nothing to a rule about one server: `server.server_type` is the type's
//! name, and `server.watched_tags` the tags themselves.

use windlass_contract::{Fields, Scope, Shape, shapes};
use windlass_guest_sdk::state_mapping;

/// A value of the question, not yet one of CEL's.
pub(crate) enum Item<'q> {
    Null,
    Bool(bool),
    Number(u64),
    Text(&'q str),
    Record(&'q dyn Node),
    List(Vec<Item<'q>>),
}

/// A record of the question.
pub(crate) trait Node: Send + Sync {
    /// Its fields.
    fn fields(&self) -> Fields;

    /// The field at this position of [`Node::fields`].
    fn field(&self, position: usize) -> Item<'_>;
}

/// What a field can hold.
pub(crate) trait AsItem {
    fn item(&self) -> Item<'_>;
}

impl AsItem for bool {
    fn item(&self) -> Item<'_> {
        Item::Bool(*self)
    }
}

impl AsItem for u16 {
    fn item(&self) -> Item<'_> {
        Item::Number((*self).into())
    }
}

impl AsItem for u32 {
    fn item(&self) -> Item<'_> {
        Item::Number((*self).into())
    }
}

impl AsItem for u64 {
    fn item(&self) -> Item<'_> {
        Item::Number(*self)
    }
}

impl AsItem for String {
    fn item(&self) -> Item<'_> {
        Item::Text(self)
    }
}

impl<T: AsItem> AsItem for Option<T> {
    fn item(&self) -> Item<'_> {
        self.as_ref().map_or(Item::Null, T::item)
    }
}

impl<T: AsItem> AsItem for Vec<T> {
    fn item(&self) -> Item<'_> {
        Item::List(self.iter().map(T::item).collect())
    }
}

/// An enum of the contract.
macro_rules! cases {
    ($type:ty, $shape:ident) => {
        impl $crate::contract::AsItem for $type {
            fn item(&self) -> $crate::contract::Item<'_> {
                const WORDS: &[&str] = $crate::contract::words(windlass_contract::shapes::$shape);
                $crate::contract::Item::Text(WORDS[*self as usize])
            }
        }
    };
}

/// A record of the contract, its fields in the order of its shape.
macro_rules! record {
    ($type:ty, $shape:ident, { $($field:ident,)+ }) => {
        impl $crate::contract::AsItem for $type {
            fn item(&self) -> $crate::contract::Item<'_> {
                $crate::contract::Item::Record(self)
            }
        }

        impl $crate::contract::Node for $type {
            fn fields(&self) -> windlass_contract::Fields {
                const { windlass_contract::shapes::$shape.fields() }
            }

            fn field(&self, position: usize) -> $crate::contract::Item<'_> {
                use $crate::contract::AsItem as _;
                const VALUES: &[fn(&$type) -> $crate::contract::Item<'_>] =
                    &[$(|it| $crate::contract::record!(@value it $field)),+];
                VALUES.get(position).map_or($crate::contract::Item::Null, |value| value(self))
            }
        }
    };
    // CEL's whole numbers have a sign: a random word gives its lower 63 bits.
    (@value $it:ident random) => { $crate::contract::Item::Number($it.random & (u64::MAX >> 1)) };
    (@value $it:ident $field:ident) => { $it.$field.item() };
}

pub(crate) use {cases, record};

/// The words of an enum.
pub(crate) const fn words(of: Shape) -> &'static [&'static str] {
    match of {
        Shape::Enum(words) => words,
        _ => &[],
    }
}

/// A server of a listing.
pub(crate) struct ListedServer<'q> {
    pub(crate) server: &'q state_mapping::Server,
    pub(crate) listing: &'q state_mapping::Question,
}

impl Node for ListedServer<'_> {
    fn fields(&self) -> Fields {
        self.server.fields()
    }

    fn field(&self, position: usize) -> Item<'_> {
        let Self { server, listing } = self;
        match self.fields().get(position).map_or("", |(name, _)| *name) {
            "server-type" => Item::Text(listing.type_of(server).unwrap_or_default()),
            "watched-tags" => {
                let carried = (0..u64::BITS).zip(&listing.watched_tags);
                let carried = carried.filter(|(bit, _)| (server.watched_tags >> bit) & 1 == 1);
                Item::List(carried.map(|(_, tag)| Item::Text(tag)).collect())
            }
            _ => server.field(position),
        }
    }
}

pub(crate) static RETRY_SCOPE: Scope = Scope::of(shapes::RETRY_QUESTION);
// The listing without its servers: a rule is about one of them.
pub(crate) static STATE_MAPPING_SCOPE: Scope = Scope {
    hidden: &["servers"],
    instead: &[("server-type", Shape::Text), ("watched-tags", Shape::List(&Shape::Text))],
    ..Scope::of(shapes::STATE_MAPPING_QUESTION).about("server", shapes::STATE_MAPPING_SERVER)
};
pub(crate) static ROLLBACK_SCOPE: Scope =
    Scope::of(shapes::ROLLBACK_QUESTION).about("resource", shapes::ROLLBACK_RESOURCE);
pub(crate) static RELEASE_SCOPE: Scope = Scope::of(shapes::RELEASE_QUESTION);
pub(crate) static PROVISIONING_SCOPE: Scope = Scope::of(shapes::PROVISIONING_QUESTION);
pub(crate) static PLACEMENT_SCOPE: Scope =
    Scope::of(shapes::PLACEMENT_QUESTION).about("place", shapes::PLACEMENT_PLACE);
/// The scope of the condition in an answer that chooses nodes.
pub(crate) static NODE_SCOPE: Scope = Scope::of(shapes::PROVISIONING_QUESTION).about("node", shapes::PROVISIONING_NODE);

#[cfg(test)]
mod tests;
