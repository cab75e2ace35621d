//! Cases by hand, and settings and schemas at random.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::json;
use windlass_guest_sdk::prelude::*;
use windlass_guest_sdk::reexports::ObjectSchema;

use super::super::{MAX_DEPTH, MAX_MEMBERS, MAX_SCHEMAS};
use super::*;
use crate::text::is_unprintable;

fn read(schema: &Value) -> SettingsSchema {
    SettingsSchema::read(&schema.to_string()).unwrap_or_else(|error| panic!("{schema}: {error}"))
}

/// What is said about one value of the key `a`.
fn problem(schema: Value, value: Value) -> String {
    let schema = read(&json!({ "properties": { "a": schema } }));
    schema.check(&json!({ "a": value })).err().unwrap_or_default()
}

#[test]
fn each_keyword_accepts_and_refuses_what_json_schema_says() {
    const FINE: &str = "";
    let big = json!(u64::MAX);
    for (schema, value, says) in [
        // Types.
        (json!({}), json!([1]), FINE),
        (json!(true), json!(null), FINE),
        (json!(false), json!(1), "settings.a: no value is allowed here"),
        (json!({ "type": "boolean" }), json!(true), FINE),
        (json!({ "type": "boolean" }), json!("true"), "settings.a: expected a boolean, found \"true\""),
        (json!({ "type": "integer" }), json!(-1), FINE),
        (json!({ "type": "integer" }), big.clone(), FINE),
        (json!({ "type": "integer" }), json!(1.0), FINE),
        (json!({ "type": "integer" }), json!(1.5), "settings.a: expected an integer, found 1.5"),
        (json!({ "type": "integer" }), json!("x"), "settings.a: expected an integer, found \"x\""),
        (json!({ "type": "number" }), json!(1), FINE),
        (json!({ "type": "number" }), json!(1e300), FINE),
        (json!({ "type": "number" }), json!(null), "settings.a: expected a number, found null"),
        (json!({ "type": "string" }), json!(""), FINE),
        (json!({ "type": "string" }), json!({}), "settings.a: expected a string, found an object"),
        (json!({ "type": "array" }), json!([]), FINE),
        (json!({ "type": "array" }), json!({}), "settings.a: expected an array, found an object"),
        (json!({ "type": "object" }), json!({}), FINE),
        (json!({ "type": "object" }), json!([]), "settings.a: expected an object, found an array"),
        (json!({ "type": "null" }), json!(null), FINE),
        (json!({ "type": "null" }), json!(0), "settings.a: expected null, found 0"),
        (json!({ "type": ["string", "null"] }), json!(null), FINE),
        (json!({ "type": ["null", "string"] }), json!(1), "settings.a: expected a string or null, found 1"),
        // Values.
        (json!({ "enum": ["red", 1, null] }), json!(null), FINE),
        (json!({ "enum": ["red", 1] }), json!(1.0), FINE),
        (
            json!({ "enum": ["red", "deep-blue"] }),
            json!("deep-bleu"),
            "settings.a: expected one of \"red\", \"deep-blue\", found \"deep-bleu\"; did you mean \"deep-blue\"?",
        ),
        (json!({ "enum": ["red", "blue"] }), json!(5), "settings.a: expected one of \"red\", \"blue\", found 5"),
        (json!({ "const": "on" }), json!("on"), FINE),
        (json!({ "const": "on" }), json!("of"), "settings.a: expected \"on\", found \"of\""),
        (json!({ "const": true }), json!(1), "settings.a: expected true, found 1"),
        (json!({ "const": 1, "enum": [1, 2] }), json!(2), "settings.a: expected 1, found 2"),
        // Numbers.
        (json!({ "minimum": 1 }), json!(1), FINE),
        (json!({ "minimum": 1 }), json!(0), "settings.a: 0 is less than the minimum of 1"),
        (json!({ "minimum": -1.5 }), json!(-2), "settings.a: -2 is less than the minimum of -1.5"),
        (json!({ "maximum": 255 }), json!(255.0), FINE),
        (json!({ "maximum": 255 }), json!(256), "settings.a: 256 is greater than the maximum of 255"),
        (json!({ "exclusiveMinimum": 0 }), json!(0.1), FINE),
        (json!({ "exclusiveMinimum": 0 }), json!(0), "settings.a: 0 is not greater than 0"),
        (json!({ "exclusiveMaximum": 1 }), json!(0), FINE),
        (json!({ "exclusiveMaximum": 1 }), json!(1.0), "settings.a: 1.0 is not less than 1"),
        (json!({ "minimum": 1, "maximum": 2 }), json!("text"), FINE),
        // Texts.
        (json!({ "minLength": 2, "maxLength": 2 }), json!("éé"), FINE),
        (json!({ "minLength": 2 }), json!("é"), "settings.a: the length is 1, and at least 2 is required"),
        (json!({ "maxLength": 2 }), json!("abc"), "settings.a: the length is 3, and at most 2 is allowed"),
        (json!({ "maxLength": 2 }), json!([1, 2, 3]), FINE),
        // Arrays.
        (json!({ "items": { "type": "string" } }), json!(["x", "y"]), FINE),
        (json!({ "items": { "type": "string" } }), json!(["x", 1]), "settings.a[1]: expected a string, found 1"),
        (json!({ "items": { "type": "string" } }), json!(1), FINE),
        (json!({ "items": false }), json!([]), FINE),
        (json!({ "items": false }), json!([1]), "settings.a[0]: no value is allowed here"),
        (json!({ "minItems": 1 }), json!([]), "settings.a: the number of items is 0, and at least 1 is required"),
        (json!({ "maxItems": 1 }), json!([1, 2]), "settings.a: the number of items is 2, and at most 1 is allowed"),
        // Objects.
        (json!({ "properties": { "b": { "type": "null" } } }), json!({ "c": 1 }), FINE),
        (
            json!({ "properties": { "b": { "type": "null" } } }),
            json!({ "b": 1 }),
            "settings.a.b: expected null, found 1",
        ),
        (json!({ "required": ["b"] }), json!({ "b": null }), FINE),
        (json!({ "required": ["b"] }), json!({}), "settings.a: the key `b` is required"),
        (json!({ "required": ["b"] }), json!([]), FINE),
        (
            json!({ "properties": { "base": {} }, "additionalProperties": false }),
            json!({ "bass": 1 }),
            "settings.a: unknown key `bass`; did you mean `base`?",
        ),
        (
            json!({ "properties": { "base": {}, "cap": {} }, "additionalProperties": false }),
            json!({ "colour": 1 }),
            "settings.a: unknown key `colour`; the keys are base, cap",
        ),
        (
            json!({ "additionalProperties": false }),
            json!({ "b": 1 }),
            "settings.a: unknown key `b`; there are none here",
        ),
        (json!({ "additionalProperties": { "type": "integer" } }), json!({ "b": 1 }), FINE),
        (
            json!({ "additionalProperties": { "type": "integer" } }),
            json!({ "b": "x" }),
            "settings.a.b: expected an integer, found \"x\"",
        ),
        // Alternatives.
        (json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] }), json!(null), FINE),
        (
            json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] }),
            json!("x"),
            "settings.a: expected an integer or null, found \"x\"",
        ),
        (
            json!({ "anyOf": [{ "type": "integer", "minimum": 5 }, { "type": "null" }] }),
            json!(3),
            "settings.a: 3 is less than the minimum of 5",
        ),
        (
            json!({ "anyOf": [{ "type": "array", "items": { "enum": ["x", "z"] } }, { "type": "null" }] }),
            json!(["x", "y"]),
            "settings.a[1]: expected one of \"x\", \"z\", found \"y\"; did you mean \"x\"?",
        ),
        (
            json!({ "anyOf": [{ "required": ["b"] }, { "required": ["c"] }] }),
            json!({}),
            "settings.a: none of 2 alternatives fits: settings.a: the key `b` is required, or settings.a: the key `c` \
             is required",
        ),
        (json!({ "anyOf": [{ "required": ["b"] }, { "required": ["c"] }] }), json!({ "c": 1 }), FINE),
        (json!({ "anyOf": [false] }), json!(1), "settings.a: expected nothing, found 1"),
        (json!({ "anyOf": [{}], "maximum": 1 }), json!(2), "settings.a: 2 is greater than the maximum of 1"),
        // What only people read.
        (
            json!({ "title": "A", "description": "b", "default": 7, "format": "email", "deprecated": true }),
            json!(1),
            FINE,
        ),
    ] {
        assert_eq!(problem(schema.clone(), value.clone()), says, "{schema} and {value}");
    }
}

#[test]
fn integers_are_exact_beyond_what_a_float_holds() {
    const PRECISE: u64 = (1 << 53) + 1;
    assert_eq!(problem(json!({ "minimum": PRECISE }), json!(PRECISE)), "");
    assert_ne!(problem(json!({ "minimum": PRECISE }), json!(PRECISE - 1)), "");
    assert_ne!(problem(json!({ "maximum": u64::MAX - 1 }), json!(u64::MAX)), "");
    assert_ne!(problem(json!({ "enum": [PRECISE] }), json!(PRECISE - 1)), "");
    assert_eq!(problem(json!({ "enum": [PRECISE] }), json!(PRECISE)), "");
    // 2^64 as a float is above every u64, 2^53 as a float is below 2^53 + 1.
    assert_eq!(problem(json!({ "exclusiveMaximum": 18_446_744_073_709_551_616.0 }), json!(u64::MAX)), "");
    assert_ne!(problem(json!({ "maximum": 9_007_199_254_740_992.0 }), json!(PRECISE)), "");
    assert_eq!(problem(json!({ "minimum": i64::MIN }), json!(i64::MIN)), "");
    assert_ne!(problem(json!({ "exclusiveMinimum": -5.0 }), json!(-5)), "");
    assert_eq!(problem(json!({ "minimum": -5.0, "maximum": -5.0 }), json!(-5)), "");
    assert_eq!(problem(json!({ "minimum": -1e300, "maximum": 1e300 }), json!(i64::MIN)), "");
}

#[test]
fn an_unknown_key_of_a_policy_without_settings_says_that_there_are_none() {
    let schema = read(&json!({ "type": "object", "additionalProperties": false, "properties": {} }));
    let problem = schema.check(&json!({ "x": 1 })).unwrap_err();
    assert_eq!(problem, "settings: unknown key `x`; this policy has no settings");
}

#[test]
fn several_problems_are_reported_at_once_and_then_no_more() {
    let schema = read(&json!({ "additionalProperties": { "type": "null" } }));
    let problem = schema.check(&json!({ "a": 1, "b": 2 })).unwrap_err();
    assert_eq!(problem, "settings.a: expected null, found 1; settings.b: expected null, found 2");
    let many: Map<String, Value> = (0..100).map(|index| (format!("{index:03}"), json!(1))).collect();
    let problem = schema.check(&Value::Object(many)).unwrap_err();
    assert_eq!(problem.matches("expected null").count(), MAX_PROBLEMS, "{problem}");
    assert!(problem.ends_with("; and more"), "{problem}");
}

#[test]
fn what_settings_and_schemas_say_is_reported_short_and_without_control_characters() {
    let long = "x".repeat(50_000);
    for (schema, settings) in [
        (json!({ "properties": { "a": { "enum": ["\u{1b}[31m", "\u{202e}"] } } }), json!({ "a": "\u{2066}\u{9b}" })),
        (json!({ "required": ["\u{1b}c", long, "\u{200f}"] }), json!({})),
        (
            json!({ "properties": { "a": {} }, "additionalProperties": false }),
            json!({ "\u{202e}\u{1b}": 1, long.as_str(): 2 }),
        ),
        (json!({ "properties": { "a": { "const": long } } }), json!({ "a": "y".repeat(50_000) })),
        (json!({ "properties": { "a": { "enum": vec!["word"; 1000] } } }), json!({ "a": 1 })),
        // A long way down.
        (
            nested(json!(false), |inner| json!({ "additionalProperties": inner })),
            nested(json!(1), |inner| json!({ "x".repeat(200): inner })),
        ),
    ] {
        let problem = read(&schema).check(&settings).unwrap_err();
        assert!(!problem.contains(is_unprintable) && problem.len() <= 1024, "{problem:?}");
    }
}

#[test]
fn a_check_that_would_take_too_long_is_given_up_and_the_settings_are_refused() {
    // As many alternatives as there may be, of which one of the last fits, and as many values as fit into settings.
    let alternatives: Vec<Value> = (0..MAX_SCHEMAS - 3).map(|index| json!({ "minimum": -(index as i64) })).collect();
    let schema = read(&json!({ "properties": { "a": { "items": { "anyOf": alternatives } } } }));
    let settings = json!({ "a": vec![-500; 13_000] });
    assert_eq!(schema.check(&json!({ "a": [-500] })), Ok(()));
    assert!(schema.check(&settings).unwrap_err().contains("takes more than 1048576 comparisons"));
    assert!(steps(&schema, &settings) <= MAX_STEPS + MAX_MEMBERS + MAX_DEPTH);
    // What is found before that is reported.
    let mut values = vec![-500; 13_000];
    values[1] = -1000;
    let problem = schema.check(&json!({ "a": values })).unwrap_err();
    assert!(
        problem.starts_with("settings.a[1]: none of 509 alternatives fits: settings.a[1]: -1000 is less"),
        "{problem}"
    );
}

/// Something in so many others that its path is long.
fn nested(innermost: Value, around: impl Fn(Value) -> Value) -> Value {
    (0..25).fold(innermost, |inner, _| around(inner))
}

fn steps(schema: &SettingsSchema, settings: &Value) -> usize {
    let mut check = Check { steps: 0, problems: Problems::at_most(MAX_PROBLEMS) };
    check.value(&schema.0, settings, &Place::Root);
    check.steps
}

/// Values and the parts of values.
fn parts(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(parts).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(parts).sum::<usize>(),
        _ => 1,
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..4_i64).prop_map(Value::from),
        (-3..4_i64).prop_map(|number| json!(number as f64 / 2.0)),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ]
}

/// One of few names, so that schemas and settings often mean the same.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[ab]", 1 => "\\PC{1,20}".prop_filter("no control characters", |name| !name.contains(is_unprintable))]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(prop_oneof![8 => name(), 1 => any::<String>()], inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A schema of the supported keywords: some of the local ones, and around them some that hold other schemas.
fn schema() -> impl Strategy<Value = Value> {
    let kind = || prop::sample::select(Type::ALL.map(|(_, name, _)| name).to_vec());
    let number = || {
        prop_oneof![
            (-2..3_i64).prop_map(Value::from),
            any::<f64>().prop_map(|it| json!(if it.is_finite() { it } else { 0.5 }))
        ]
    };
    let local = prop_oneof![
        kind().prop_map(|kind| json!({ "type": kind })),
        prop::sample::subsequence(Type::ALL.map(|(_, name, _)| name).to_vec(), 1..4)
            .prop_map(|kinds| json!({ "type": kinds })),
        vec(scalar(), 1..4).prop_map(|choices| json!({ "enum": choices })),
        scalar().prop_map(|choice| json!({ "const": choice })),
        number().prop_map(|bound| json!({ "minimum": bound })),
        number().prop_map(|bound| json!({ "exclusiveMaximum": bound })),
        (number(), number()).prop_map(|(least, most)| json!({ "exclusiveMinimum": least, "maximum": most })),
        (0..3_u64, 0..3_u64).prop_map(|(least, most)| json!({ "minLength": least, "maxLength": most })),
        (0..3_u64, 0..3_u64).prop_map(|(least, most)| json!({ "minItems": least, "maxItems": most })),
        vec(name(), 0..3).prop_map(|names| json!({ "required": names })),
        value().prop_map(|default| json!({ "default": default })),
    ];
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Value::from),
        8 => vec(local, 0..3).prop_map(merged),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let around = prop_oneof![
            inner.clone().prop_map(|items| json!({ "items": items })),
            vec(inner.clone(), 1..4).prop_map(|alternatives| json!({ "anyOf": alternatives })),
            (btree_map(name(), inner.clone(), 0..4), inner.clone())
                .prop_map(|(properties, rest)| json!({ "properties": properties, "additionalProperties": rest })),
        ];
        vec(prop_oneof![3 => around, 1 => inner.prop_filter("keywords", Value::is_object)], 1..4).prop_map(merged)
    })
}

/// The keywords of all of them, the last one of each.
fn merged(schemas: Vec<Value>) -> Value {
    let keywords = schemas.into_iter().filter_map(|schema| match schema {
        Value::Object(map) => Some(map),
        _ => None,
    });
    Value::Object(keywords.flatten().collect())
}

fn accepts(schema: &Value, value: &Value) -> bool {
    // Wrapped, since the outermost schema is an object and settings are one, too.
    read(&json!({ "properties": { "": schema } })).check(&json!({ "": value })).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_check_of_any_settings_ends_within_bounds(schema in schema(), value in value()) {
        let schema_parts = parts(&schema);
        let schema = read(&json!({ "properties": { "": schema } }));
        let settings = json!({ "": value });
        // Each part of the schema meets each value once, and once more for each `anyOf` around it.
        let bound = (schema_parts + 2) * parts(&settings) * (MAX_DEPTH + 1);
        prop_assert!(steps(&schema, &settings) <= bound);
        if let Err(problem) = schema.check(&settings) {
            prop_assert!(problem.starts_with("settings") && !problem.contains(is_unprintable), "{problem:?}");
            prop_assert!(problem.len() <= MAX_PROBLEMS * 1026 + 10);
        }
    }

    #[test]
    fn alternatives_accept_what_one_of_them_accepts(one in schema(), other in schema(), value in value()) {
        let either = accepts(&one, &value) || accepts(&other, &value);
        prop_assert_eq!(accepts(&json!({ "anyOf": [one, other] }), &value), either);
    }

    #[test]
    fn an_array_is_accepted_when_each_item_is(schema in schema(), values in vec(value(), 0..4)) {
        let all = values.iter().all(|value| accepts(&schema, value));
        prop_assert_eq!(accepts(&json!({ "items": schema }), &Value::Array(values)), all);
    }

    #[test]
    fn a_value_is_one_of_those_that_it_stands_among(before in vec(scalar(), 0..3), value in scalar()) {
        let constant = json!({ "const": value });
        prop_assert!(accepts(&constant, &value));
        let choices = [before, vec![value.clone()]].concat();
        let one_of = json!({ "enum": choices });
        prop_assert!(accepts(&one_of, &value));
    }

    #[test]
    fn numbers_are_ordered_as_their_values_are(one in scalar(), other in scalar()) {
        if let (Value::Number(one), Value::Number(other)) = (&one, &other) {
            prop_assert_eq!(compare(one, other), compare(other, one).reverse());
            prop_assert_eq!(compare(one, one), Equal);
            // Floats round, and rounding keeps the order.
            let rounded = compare_floats(float(one), float(other));
            prop_assert!(rounded == Equal || rounded == compare(one, other));
        }
    }

    #[test]
    fn any_json_is_read_or_refused_in_a_short_line(schema in value(), text in any::<String>()) {
        for text in [schema.to_string(), text] {
            if let Err(error) = SettingsSchema::read(&text) {
                prop_assert!(!error.contains(is_unprintable) && error.len() <= 1024, "{error:?}");
            }
        }
    }
}

choices! {
    /// For these tests.
    enum Colour {
        /// Red.
        Red = "red",
        /// Blue.
        DeepBlue = "deep-blue",
    }
}

settings! {
    /// Inside.
    struct Inner {
        /// Deep.
        depth: u32 = 3,
        /// Perhaps.
        colours: Option<Vec<Colour>> = None,
    }
}

settings! {
    /// All that settings can have. "Quoted" \ and so on.
    struct Everything {
        /// Whole numbers.
        u_8: u8 = u8::MAX,
        u_16: u16 = u16::MAX,
        u_32: u32 = u32::MAX,
        u_64: u64 = u64::MAX,
        i_32: i32 = i32::MIN,
        i_64: i64 = i64::MIN,
        /// A fraction.
        fraction: f64 = -0.5,
        flag: bool = true,
        text: String = "a \"b\"\n\u{1b}".into(),
        list: Vec<FailureClass> = FailureClass::ALL.to_vec(),
        kinds: Vec<ResourceKind> = ResourceKind::ALL.to_vec(),
        perhaps: Option<String> = None,
        perhaps_not: Option<u64> = Some(u64::MAX),
        colour: Colour = Colour::DeepBlue,
        inner: Inner = Inner::default(),
        inners: Vec<Inner> = vec![Inner::default(), Inner { depth: 0, colours: Some(vec![Colour::Red]) }],
    }
}

/// Whether the schema that the SDK writes for this value as default accepts the value, and refuses another key.
fn passes_its_own_schema<T: Setting>(default: &T) {
    let mut schema = String::from("{");
    let mut object = ObjectSchema::begin(&mut schema, "Words.");
    object.property("the_key", "Words.", default);
    object.end();
    schema.push('}');
    let schema = SettingsSchema::read(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
    let mut settings = String::from(r#"{"the-key":"#);
    default.json(&mut settings);
    settings.push('}');
    let settings = serde_json::from_str(&settings).unwrap_or_else(|error| panic!("{settings}: {error}"));
    assert_eq!(schema.check(&settings), Ok(()), "{settings}");
    assert!(schema.check(&json!({ "the_key": null })).unwrap_err().contains("did you mean `the-key`?"));
    assert!(schema.check(&json!({ "the-key": { "\u{0}": [] } })).is_err());
}

#[test]
fn the_defaults_of_settings_pass_the_schema_that_the_sdk_writes() {
    passes_its_own_schema(&Everything::default());
    passes_its_own_schema(&Some(Everything::default()));
    let schema = windlass_guest_sdk::testing::settings_schema::<Everything>();
    let schema = SettingsSchema::read(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
    assert_eq!(schema.check(&json!({})), Ok(()));
    for (settings, says) in [
        (json!({ "u-8": 256 }), "settings.u-8: 256 is greater than the maximum of 255"),
        (json!({ "u-64": -1 }), "settings.u-64: -1 is less than the minimum of 0"),
        (json!({ "perhaps": 1 }), "settings.perhaps: expected a string or null, found 1"),
        (
            json!({ "colour": "deep-blu" }),
            "settings.colour: expected one of \"red\", \"deep-blue\", found \"deep-blu\"; did you mean",
        ),
        (json!({ "list": ["lockd"] }), "settings.list[0]: expected one of \"invalid-arguments\", "),
        (json!({ "inner": { "dept": 1 } }), "settings.inner: unknown key `dept`; did you mean `depth`?"),
        (json!({ "inners": [{ "colours": ["red", 1] }] }), "settings.inners[0].colours[1]: expected one of"),
    ] {
        let problem = schema.check(&settings).unwrap_err();
        assert!(problem.starts_with(says), "{problem}");
    }
}

proptest! {
    #[test]
    fn whatever_default_settings_have_passes_its_own_schema(
        numbers: (u8, u16, u32, u64, i32, i64),
        fraction in any::<f64>().prop_filter("JSON has no infinities", |it| it.is_finite()),
        flag: bool,
        text: String,
        texts: Vec<String>,
        perhaps: Option<Vec<Option<u64>>>,
        depth: u32,
        colour in prop::sample::select(Colour::ALL),
        classes in prop::sample::subsequence(FailureClass::ALL, 0..5),
    ) {
        passes_its_own_schema(&numbers.0);
        passes_its_own_schema(&numbers.1);
        passes_its_own_schema(&numbers.2);
        passes_its_own_schema(&numbers.3);
        passes_its_own_schema(&numbers.4);
        passes_its_own_schema(&numbers.5);
        passes_its_own_schema(&fraction);
        passes_its_own_schema(&flag);
        passes_its_own_schema(&text);
        passes_its_own_schema(&texts);
        passes_its_own_schema(&perhaps);
        passes_its_own_schema(&colour);
        passes_its_own_schema(&classes);
        passes_its_own_schema(&Inner { depth, colours: Some(vec![colour]) });
    }
}
