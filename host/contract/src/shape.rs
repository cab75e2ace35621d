//! What the types of the contract are, without the words about them.

use crate::bindings::shapes;

/// The fields of a record, or the cases of a variant, by the contract's names, with dashes.
pub type Fields<T = Shape> = &'static [(&'static str, T)];

/// A type of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Bool,
    /// An unsigned integer of so many bits.
    Number {
        /// 16, 32 or 64.
        bits: u8,
    },
    /// `string`.
    Text,
    /// `option<...>`: null in JSON where it is absent.
    Option(&'static Shape),
    List(&'static Shape),
    /// The cases of an enum.
    Enum(&'static [&'static str]),
    /// The fields of a record, in their order.
    Record(Fields),
    /// The cases of a variant, each with its payload.
    Variant(Fields<Option<Shape>>),
}

impl Shape {
    /// The fields, where it is a record.
    pub const fn fields(&self) -> Fields {
        match self {
            Shape::Record(fields) => fields,
            _ => &[],
        }
    }

    /// The shape of a field, where it is a record that has it.
    pub fn field(&self, name: &str) -> Option<Shape> {
        self.fields().iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape)
    }

    /// The words of an enum, or those of a variant's cases.
    pub fn cases(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        let (words, variants): (&'static [&'static str], Fields<Option<Shape>>) = match self {
            Shape::Enum(words) => (words, &[]),
            Shape::Variant(cases) => (&[], cases),
            _ => (&[], &[]),
        };
        words.iter().copied().chain(variants.iter().map(|(name, _)| *name))
    }

    /// What is within an option; itself where it is none.
    pub fn present(&self) -> Shape {
        match self {
            Shape::Option(inner) => inner.present(),
            shape => *shape,
        }
    }
}

/// One slot's question and answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotShapes {
    /// The record that is asked.
    pub question: Shape,
    /// The record that is answered; in a batch a list of them.
    pub answer: Shape,
}

impl SlotShapes {
    /// The shapes of a slot, by its name.
    pub fn of(slot: &str) -> Option<SlotShapes> {
        shapes::SLOTS.iter().find(|(name, _)| *name == slot).map(|(_, shapes)| *shapes)
    }

    /// The record of one answer: the item of the list, in a batch.
    pub const fn one_answer(&self) -> Shape {
        match self.answer {
            Shape::List(one) => *one,
            one => one,
        }
    }

    /// What one answer may decide.
    pub fn verdict(&self) -> Shape {
        self.one_answer().field("verdict").unwrap_or(Shape::Variant(&[]))
    }
}
