//! Values of every type stay unchanged on the way from a request body through the constraints and
//! the store to a response and to a Rust struct.

#![allow(missing_docs)] // types of a test

use std::sync::Arc;

use linchpin::prelude::*;
use linchpin::resource::{CursorKey, Draft, Form, Table};
use linchpin::store::Projection;
use linchpin::store::memory::Memory;
use linchpin::validate::{MAX_INTEGER, Mode, read_draft, read_object};
use linchpin::{Adapters, Code, Error, Json, Uuid};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Mood {
    Glad,
    VerySad,
}

#[derive(Embedded, Clone, Debug, PartialEq)]
pub struct Part {
    pub part_name: String,
    pub weight: Option<f64>,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Settings {
    most: u8,
}

#[entity]
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    #[field(primary, default = uuid)]
    pub id: String,
    pub label: String,
    pub note: Option<String>,
    pub link: Option<Uuid>,
    pub on: Option<bool>,
    pub whole: Option<i64>,
    pub ratio: Option<f64>,
    pub at: Option<Timestamp>,
    pub mood: Option<Mood>,
    pub tags: Vec<String>,
    pub meta: Option<serde_json::Value>,
    pub settings: Option<Json<Settings>>,
    pub parts: Vec<Part>,
}

const DESC: &linchpin::entity::EntityDesc = <Sample as Entity>::DESC;

struct Fixture {
    table: Arc<Table>,
    samples: SampleAdapter,
    runtime: tokio::runtime::Runtime,
    cx: Cx,
}

impl Fixture {
    fn new() -> Self {
        let keys = CursorKey::derive(&["0123456789abcdef0123456789abcdef"]);
        let table =
            Table::new(DESC, Arc::new(Memory::new()), keys).unwrap_or_else(|e| panic!("{e:?}"));
        let table = Arc::new(table);
        let samples = Adapters::new([Arc::clone(&table)])
            .get::<Sample>()
            .unwrap_or_else(|e| panic!("{e:?}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap_or_else(|e| panic!("{e}"));
        Self {
            table,
            samples,
            runtime,
            cx: Cx::system("test"),
        }
    }

    fn draft(&self, body: &str) -> Result<Draft, Error> {
        Ok(read_draft(
            DESC,
            &read_object(body.as_bytes())?,
            Mode::Create,
            self.cx.now(),
        ))
    }

    /// Creates a record from a body. Returns the response and the stored record, both as JSON,
    /// and the id.
    fn create(
        &self,
        body: &serde_json::Value,
    ) -> Result<(serde_json::Value, serde_json::Value, String), Error> {
        self.create_text(&body.to_string())
    }

    fn create_text(
        &self,
        body: &str,
    ) -> Result<(serde_json::Value, serde_json::Value, String), Error> {
        let form = Form::Json(Arc::new(Projection::readable(DESC)));
        let draft = self.draft(body)?;
        self.runtime.block_on(async {
            let (rows, id) = self.table.create(&self.cx, draft, &form).await?;
            let stored = self.table.get(&self.cx, id.clone(), &form).await?;
            let json = |bytes: &[u8]| {
                serde_json::from_slice(bytes).unwrap_or_else(|e| panic!("{e}: {bytes:?}"))
            };
            Ok((
                json(&rows.json),
                json(&stored.json),
                id.as_text().unwrap_or_default().to_owned(),
            ))
        })
    }

    fn problems(&self, body: &str) -> Vec<String> {
        match self.create_text(body) {
            Ok(_) => Vec::new(),
            Err(error) => error
                .details()
                .iter()
                .map(|p| format!("{} {}", p.path, p.code))
                .collect(),
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    const POOL: &[&str] = &[
        "", "%", "_", "\\", "'", "\"", "$x", ".", "İ", "ß", "ς", "😀", "e\u{301}", "\u{1}",
        "\u{2028}", "null",
    ];
    prop_oneof![
        proptest::sample::select(POOL).prop_map(str::to_owned),
        any::<String>().prop_map(|t| t.replace('\0', ""))
    ]
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        text().prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::btree_map(text(), inner, 0..4)
                .prop_map(|m| m.into_iter().collect()),
        ]
    })
}

fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![
        proptest::sample::select(vec![0.0, 0.1 + 0.2, 1e300, 5e-324, -2.0]),
        any::<f64>().prop_filter("finite", |n| n.is_finite())
    ]
    .prop_map(|n| n + 0.0)
}

fn sample() -> impl Strategy<Value = Sample> {
    let scalars = (
        text(),
        proptest::option::of(text()),
        proptest::option::of(Just(Uuid::new_v7())),
        proptest::option::of(any::<bool>()),
        proptest::option::of(prop_oneof![
            Just(MAX_INTEGER),
            Just(-MAX_INTEGER),
            any::<i32>().prop_map(i64::from)
        ]),
        proptest::option::of(finite()),
        proptest::option::of(
            (Timestamp::MIN.millis()..=Timestamp::MAX.millis()).prop_map(Timestamp::from_millis),
        ),
        proptest::option::of(proptest::sample::select(vec![Mood::Glad, Mood::VerySad])),
    );
    let part = (text(), proptest::option::of(finite()))
        .prop_map(|(part_name, weight)| Part { part_name, weight });
    let lists = (
        proptest::collection::vec(text(), 0..4),
        proptest::option::of(any_json()),
        proptest::option::of(any::<u8>().prop_map(|most| Json(Settings { most }))),
        proptest::collection::vec(part, 0..3),
    );
    (scalars, lists).prop_map(
        |((label, note, link, on, whole, ratio, at, mood), (tags, meta, settings, parts))| Sample {
            id: String::new(),
            label,
            note,
            link,
            on,
            whole,
            ratio,
            at,
            mood,
            tags,
            // JSON null counts as no value.
            meta: meta.filter(|m| !m.is_null()),
            settings,
            parts,
        },
    )
}

#[test]
fn typed_input_and_its_answer_as_a_body_give_the_same_record() {
    let fixture = Fixture::new();
    proptest!(|(sample in sample())| {
        let Sample { label, note, link, on, whole, ratio, at, mood, tags, meta, settings, parts, .. } = sample.clone();
        let input = SampleCreate { label, note, link, on, whole, ratio, at, mood, tags: Some(tags), meta, settings, parts: Some(parts) };
        let typed: Sample = fixture.runtime.block_on(fixture.samples.create(&fixture.cx, input)).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        prop_assert_eq!(&typed, &Sample { id: typed.id.clone(), ..sample });
        let read = fixture.runtime.block_on(fixture.samples.get(&fixture.cx, typed.id.clone())).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        prop_assert_eq!(read.as_ref(), Some(&typed));

        // The JSON of the record, sent as the body of another create.
        let form = Form::Json(Arc::new(Projection::readable(DESC)));
        let rows = fixture.runtime.block_on(fixture.table.get(&fixture.cx, linchpin::Value::Text(typed.id.clone()), &form));
        let rows = rows.map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        let mut body: serde_json::Value = serde_json::from_slice(&rows.json).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let object = body.as_object_mut();
        prop_assert_eq!(object.and_then(|o| o.remove("id")), Some(serde_json::Value::from(typed.id.clone())));
        let (answer, stored, id) = fixture.create(&body).map_err(|e| TestCaseError::fail(format!("{body}: {e:?}")))?;
        prop_assert_eq!(&answer, &stored);
        let again = fixture.runtime.block_on(fixture.samples.get(&fixture.cx, id.clone())).ok().flatten();
        prop_assert_eq!(again, Some(Sample { id, ..typed }));
    });
}

#[test]
fn typed_input_is_validated_like_a_body() {
    let fixture = Fixture::new();
    let good = || SampleCreate {
        label: "x".into(),
        note: None,
        link: None,
        on: None,
        whole: None,
        ratio: None,
        at: None,
        mood: None,
        tags: None,
        meta: None,
        settings: None,
        parts: None,
    };
    let refused = |input: SampleCreate| match fixture
        .runtime
        .block_on(fixture.samples.create(&fixture.cx, input))
    {
        Ok(sample) => panic!("{sample:?} was accepted"),
        Err(error) => error
            .details()
            .iter()
            .map(|p| format!("{} {}", p.path, p.code))
            .collect::<Vec<_>>(),
    };
    assert_eq!(
        refused(SampleCreate {
            label: "\0".into(),
            ..good()
        }),
        ["label format"]
    );
    assert_eq!(
        refused(SampleCreate {
            whole: Some(MAX_INTEGER + 1),
            ratio: Some(f64::NAN),
            ..good()
        }),
        ["ratio range", "whole range"]
    );
    assert_eq!(
        refused(SampleCreate {
            tags: Some(vec!["a".into(), "\0".into()]),
            ..good()
        }),
        ["tags[1] format"]
    );
    assert_eq!(
        refused(SampleCreate {
            meta: Some(serde_json::json!({ "a": "\0" })),
            ..good()
        }),
        ["meta format"]
    );
    let part = Part {
        part_name: "\0".into(),
        weight: None,
    };
    assert_eq!(
        refused(SampleCreate {
            parts: Some(vec![part]),
            ..good()
        }),
        ["parts[0].partName format"]
    );
}

#[test]
fn every_problem_of_a_body_is_in_one_answer_ordered_by_path() {
    let fixture = Fixture::new();
    let body = r#"{
        "id": "x", "nope": 1, "note": "\u0000", "link": "X", "on": "true", "whole": 1.0, "ratio": 1e400, "at": "2026-01-02",
        "mood": "sad", "tags": ["a", 1], "meta": "\u0000", "settings": {"most": 256},
        "parts": [{"partName": 1}, {"weight": "1"}, 7]
    }"#;
    assert_eq!(
        fixture.problems(body),
        [
            "at format",
            "id read_only",
            "label required",
            "link format",
            "meta format",
            "mood enum",
            "nope unknown_field",
            "note format",
            "on type",
            "parts[0].partName type",
            "parts[1].partName required",
            "parts[1].weight type",
            "parts[2] type",
            "ratio range",
            "settings type",
            "tags[1] type",
            "whole type",
        ]
    );
    assert_eq!(
        fixture.problems(r#"{"label":null}"#),
        ["label null_not_allowed"]
    );
    assert_eq!(fixture.problems("{}"), ["label required"]);
    let broken = fixture.create_text(r#"{"label":"x","label":"y"}"#);
    assert!(broken.is_err_and(|e| e.code() == Code::MalformedJson));
    // No refused body was stored.
    let page = fixture
        .runtime
        .block_on(fixture.samples.list(&fixture.cx, SampleListQuery::new()));
    assert!(page.is_ok_and(|page| page.items.is_empty()));
}
