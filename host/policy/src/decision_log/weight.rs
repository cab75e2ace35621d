//! What a record holds of memory while it waits for the writer. Measured by walking it as it will be serialised,
//! without writing anything: a nanosecond or so for each field.

use std::fmt;

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::DecisionRecord;

/// What a record takes by itself, in bytes, and what each link that was asked adds.
const RECORD_BYTES: usize = 1024;
const LINK_BYTES: usize = 512;
/// What a number, a case or a truth value takes, at most and aligned, in bytes.
const SCALAR_BYTES: usize = 8;
/// What a string or a list takes beside its content, in bytes.
const HEAD_BYTES: usize = size_of::<String>();

/// At least the bytes that a record holds.
pub(crate) fn of<Q: Serialize, A: Serialize>(record: &DecisionRecord<Q, A>) -> usize {
    let mut weight = Weight(RECORD_BYTES);
    let mut add = |part: &dyn Weigh| part.weigh(&mut weight);
    add(&record.question);
    add(&record.answer);
    add(&record.reason);
    for link in record.asked.iter().chain(record.shadows.iter().map(|shadow| &shadow.asked)) {
        add(&link.items);
        add(&link.rules);
        add(&link.outcome);
        add(&link.host_calls);
        add(&link.log);
    }
    record.shadows.iter().for_each(|shadow| add(&shadow.answer));
    weight.0 + (record.asked.len() + record.shadows.len()) * LINK_BYTES
}

/// At least the bytes that a question holds.
pub(crate) fn of_question(question: &impl Serialize) -> usize {
    let mut weight = Weight(0);
    question.weigh(&mut weight);
    weight.0
}

/// Anything that can be serialised.
trait Weigh {
    fn weigh(&self, weight: &mut Weight);
}

impl<T: Serialize> Weigh for T {
    fn weigh(&self, weight: &mut Weight) {
        // A type that refuses to be serialised can't be written either.
        let _ = self.serialize(weight);
    }
}

struct Weight(usize);

type Weighed = Result<(), fmt::Error>;

impl Weight {
    fn add(&mut self, bytes: usize) -> Weighed {
        self.0 = self.0.saturating_add(bytes);
        Ok(())
    }
}

macro_rules! scalars {
    ($($method:ident($type:ty)),+ $(,)?) => {
        $( fn $method(self, _: $type) -> Weighed {
            self.add(SCALAR_BYTES)
        } )+
    };
}

impl Serializer for &mut Weight {
    type Ok = ();
    type Error = fmt::Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    scalars! {
        serialize_bool(bool), serialize_char(char), serialize_f32(f32), serialize_f64(f64),
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64),
    }

    fn serialize_str(self, text: &str) -> Weighed {
        self.add(HEAD_BYTES + text.len())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Weighed {
        self.add(HEAD_BYTES + bytes.len())
    }

    /// What is made a string only to be written takes what it is.
    fn collect_str<T: fmt::Display + ?Sized>(self, _: &T) -> Weighed {
        self.add(HEAD_BYTES)
    }

    fn serialize_none(self) -> Weighed {
        self.add(HEAD_BYTES)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Weighed {
        self.add(SCALAR_BYTES)?;
        value.serialize(self)
    }

    fn serialize_unit(self) -> Weighed {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Weighed {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Weighed {
        self.add(SCALAR_BYTES)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Weighed {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Weighed {
        self.add(SCALAR_BYTES)?;
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, fmt::Error> {
        self.add(HEAD_BYTES)?;
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, fmt::Error> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, fmt::Error> {
        Ok(self)
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Self, fmt::Error> {
        self.add(SCALAR_BYTES)?;
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, fmt::Error> {
        self.add(HEAD_BYTES)?;
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, fmt::Error> {
        Ok(self)
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Self, fmt::Error> {
        self.add(SCALAR_BYTES)?;
        Ok(self)
    }
}

macro_rules! compounds {
    ($($compound:ident::$method:ident($($name:ty)?)),+ $(,)?) => {
        $( impl $compound for &mut Weight {
            type Ok = ();
            type Error = fmt::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? value: &T) -> Weighed {
                value.serialize(&mut **self)
            }

            fn end(self) -> Weighed {
                Ok(())
            }
        } )+
    };
}

compounds! {
    SerializeSeq::serialize_element(),
    SerializeTuple::serialize_element(),
    SerializeTupleStruct::serialize_field(),
    SerializeTupleVariant::serialize_field(),
    SerializeStruct::serialize_field(&'static str),
    SerializeStructVariant::serialize_field(&'static str),
}

impl SerializeMap for &mut Weight {
    type Ok = ();
    type Error = fmt::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Weighed {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Weighed {
        value.serialize(&mut **self)
    }

    fn end(self) -> Weighed {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::call::Trace;
    use crate::decision::{DecidedBy, DecisionIds, PolicyIdentity};
    use crate::decision_log::{Agreement, AppliedRule, LinkRecord, Outcome, ShadowRecord};
    use crate::digest::Digest;
    use crate::guest::{LogLevel, LogLine};
    use crate::host_calls::HostCall;
    use crate::json_text::JsonText;
    use crate::limits::LARGE_QUESTION_BYTES;
    use crate::slots::rollback::{Action, Answer, Step, Verdict};
    use crate::slots::{Rollback, Slot, SlotName, StateMapping};

    #[test]
    fn the_smallest_large_question_has_more_than_a_thousand_servers() {
        let mut question = StateMapping::example();
        let server = question.servers[0];
        question.servers = vec![server; 1_000];
        let weight = of_question(&question);
        assert!(weight <= LARGE_QUESTION_BYTES && weight > LARGE_QUESTION_BYTES / 2, "{weight}");
    }

    fn weight(value: &dyn Weigh) -> usize {
        let mut weight = Weight(0);
        value.weigh(&mut weight);
        weight.0
    }

    /// A record that has so many bytes in one of its parts.
    fn record_with(part: &str, bytes: usize) -> DecisionRecord<String, String> {
        let text = || "x".repeat(bytes);
        let id = DecisionIds::new(1).next();
        let identity = PolicyIdentity {
            slot: SlotName::Retry,
            name: "a".into(),
            version: "1.0.0".into(),
            component: Digest::of(b"a"),
            settings: Digest::of(b"b"),
            configuration: None,
            origin: None,
        };
        let call = HostCall {
            interface: "a".into(),
            function: "b".into(),
            arguments: JsonText::of(&text()),
            answer: JsonText::of(""),
            duration_us: 0,
            refused: false,
            shortened: false,
            redacted: false,
        };
        let mut trace = Trace::default();
        match part.strip_prefix("shadow's ").unwrap_or(part) {
            "host call" => trace.host_calls.push(call),
            "rule" => trace.rules.push(AppliedRule { rule: text().into(), items: Vec::new() }),
            "line" => trace.log.push(LogLine { level: LogLevel::Info, message: text() }),
            _ => {}
        }
        let link = LinkRecord::new(&std::sync::Arc::new(identity), None, Outcome::Decided, trace);
        let shadow = ShadowRecord {
            asked: link.clone(),
            agreement: Agreement::Differed,
            answer: Some(if part == "shadow's answer" { text() } else { String::new() }),
        };
        let (asked, shadows) = if part.starts_with("shadow") { (vec![], vec![shadow]) } else { (vec![link], vec![]) };
        DecisionRecord {
            id,
            at_ms: id.at_ms(),
            slot: SlotName::Retry,
            question: if part == "question" { text() } else { String::new() },
            answer: if part == "answer" { text() } else { String::new() },
            reason: (part == "reason").then(text),
            decided_by: DecidedBy::Keep,
            asked,
            shadows,
            duration_ns: 0,
            lost_before: 0,
        }
    }

    #[test]
    fn every_part_of_a_record_weighs_what_it_holds() {
        let parts = ["question", "answer", "reason", "host call", "line", "rule"];
        for part in parts.into_iter().chain(["shadow's answer", "shadow's host call", "shadow's line"]) {
            let bytes = of(&record_with(part, 100_000));
            assert!((100_000..110_000).contains(&bytes), "{part}: {bytes}");
        }
    }

    #[test]
    fn a_value_weighs_at_least_what_it_holds() {
        let mut batch = StateMapping::example();
        batch.servers = batch.servers.iter().copied().cycle().take(1_000).collect();
        assert!(weight(&batch) >= 1_000 * size_of_val(&batch.servers[0]));
        let answers = StateMapping::keep(&batch);
        assert!(weight(&answers) >= 1_000 * size_of_val(&answers[0]));

        let after = vec![0; 100_000];
        let held = after.len() * size_of::<u32>() + size_of::<Step>();
        let steps = vec![Step { resource: 0, action: Action::Keep, after }];
        assert!(weight(&Answer { verdict: Verdict::Plan(steps), reason: None }) >= held);

        let mut question = Rollback::example();
        question.resources[0].name = "x".repeat(50_000);
        assert!(weight(&question) >= 50_000 + question.resources.len() * size_of_val(&question.resources[0]));

        let text = JsonText::of(&json!(["x".repeat(70_000)]));
        assert!((70_000..71_000).contains(&weight(&text)));
    }
}
