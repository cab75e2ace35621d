//! A question made of its choices, by serde and without JSON.

use serde::de::value::Error;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::node::{Kind, Node};

/// Reads a node as a value.
pub(super) struct Build<'s, 'c> {
    pub(super) node: &'s Node,
    pub(super) choices: &'c mut std::slice::Iter<'s, u32>,
}

impl Build<'_, '_> {
    fn choice(&mut self) -> u32 {
        self.choices.next().copied().unwrap_or_default()
    }
}

impl<'de> Deserializer<'de> for Build<'_, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.kind {
            Kind::Bool => visitor.visit_bool(self.choice() == 1),
            Kind::FixedBool(value) => visitor.visit_bool(*value),
            Kind::Number(values) => visitor.visit_u64(values[self.choice() as usize]),
            Kind::Text(values) => visitor.visit_str(&values[self.choice() as usize]),
            Kind::Case(_) | Kind::FixedCase(_) => self.deserialize_enum("", &[], visitor),
            Kind::Absent => visitor.visit_none(),
            Kind::Option(inner) => match self.choice() {
                0 => visitor.visit_none(),
                _ => visitor.visit_some(Build { node: inner, choices: self.choices }),
            },
            Kind::Present(inner) => visitor.visit_some(Build { node: inner, choices: self.choices }),
            Kind::List(items) => {
                let length = self.choice() as usize;
                visitor.visit_seq(Nodes { nodes: items[..length].iter(), choices: self.choices })
            }
            Kind::Record(nodes) | Kind::FixedList(nodes) => {
                visitor.visit_seq(Nodes { nodes: nodes.iter(), choices: self.choices })
            }
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        cases: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let case = match &self.node.kind {
            Kind::FixedCase(case) => *case,
            Kind::Case(cases) => cases[self.choice() as usize],
            _ => self.choice(),
        };
        case.into_deserializer().deserialize_enum(name, cases, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The fields of a record, or the items of a list.
struct Nodes<'s, 'c> {
    nodes: std::slice::Iter<'s, Node>,
    choices: &'c mut std::slice::Iter<'s, u32>,
}

impl<'de> SeqAccess<'de> for Nodes<'_, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.nodes.next() {
            Some(node) => seed.deserialize(Build { node, choices: self.choices }).map(Some),
            None => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.nodes.len())
    }
}
