//! Lists of items: random changes of one record's list run on a store and on the memory store.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{META, STATUS_FIELD, THING, execute};
use linchpin_core::Value;
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::create_tables;
use linchpin_core::store::{Assign, AssignValue, Plan, Store};
use linchpin_memory::Memory;

#[derive(Clone, Debug)]
enum Change {
    /// Appends an item if its id is new and, with a maximum, if the list is shorter than the
    /// maximum.
    Add {
        id: Value,
        /// The JSON text of the item's member `note`.
        note_json: String,
        max_length: Option<i64>,
    },
    /// Removes an item. With a minimum, only if the list is longer than the minimum.
    Remove {
        id: Value,
        min_length: Option<i64>,
    },
    /// Changes an item that must exist.
    Patch {
        id: Value,
        /// The names and the JSON texts of the changed members.
        members: Vec<(&'static str, String)>,
    },
    Clear,
}

fn any_id() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => proptest::sample::select(vec!["a", "b", "ß", "$x", "'", "1"]).prop_map(|t| Value::Text(t.to_owned())),
        1 => (0_i64..3).prop_map(Value::Int),
    ]
}

fn any_member_json() -> impl Strategy<Value = String> {
    const POOL: &[&str] = &[
        "null",
        "true",
        "0.1",
        "1e300",
        "9007199254740991",
        "\"é'\\\"\"",
        "[1,{\"x\":null}]",
        "{\"b\":1}",
        "\"\"",
    ];
    proptest::sample::select(POOL).prop_map(str::to_owned)
}

fn any_change() -> impl Strategy<Value = Change> {
    let bound = || proptest::option::of(0_i64..4);
    let names = proptest::sample::subsequence(vec!["note", "rank"], 1..3);
    prop_oneof![
        4 => (any_id(), any_member_json(), bound())
            .prop_map(|(id, note_json, max_length)| Change::Add { id, note_json, max_length }),
        2 => (any_id(), bound()).prop_map(|(id, min_length)| Change::Remove { id, min_length }),
        3 => (any_id(), names, any_member_json(), any_member_json()).prop_map(|(id, names, a, b)| {
            Change::Patch { id, members: names.into_iter().zip([a, b]).collect() }
        }),
        1 => Just(Change::Clear),
    ]
}

fn plan(change: &Change) -> (Plan, Vec<Value>) {
    let arg = |index| Source::Arg {
        index,
        nullable: false,
    };
    let item = |must_exist| Filter::Item {
        field: META,
        key: "id",
        value: arg(1),
        must_exist,
    };
    let mut args = vec![Value::Text("k1".to_owned())];
    let (condition, value) = match change {
        Change::Add {
            id,
            note_json,
            max_length,
        } => {
            let mut text = Vec::new();
            linchpin_core::json::write_object(
                vec![("id", id.clone()), ("note", Value::Json(note_json.clone()))],
                &mut text,
            );
            args.extend([
                id.clone(),
                Value::Json(String::from_utf8(text).unwrap_or_default()),
            ]);
            let length_condition = max_length.map(|n| {
                Filter::cond(
                    META,
                    Op::Shorter,
                    Operand::One(Source::Value(Value::Int(n))),
                )
            });
            (
                item(false).and(length_condition.unwrap_or(Filter::TRUE)),
                AssignValue::AddItem(arg(2)),
            )
        }
        Change::Remove { id, min_length } => {
            args.push(id.clone());
            let length_condition = min_length.map(|n| {
                Filter::cond(META, Op::Longer, Operand::One(Source::Value(Value::Int(n))))
            });
            (
                item(true).and(length_condition.unwrap_or(Filter::TRUE)),
                AssignValue::RemoveItem {
                    key: "id",
                    id: arg(1),
                },
            )
        }
        Change::Patch { id, members } => {
            args.push(id.clone());
            args.extend(members.iter().map(|(_, text)| Value::Json(text.clone())));
            let members = members
                .iter()
                .enumerate()
                .map(|(i, (name, _))| (*name, arg(2 + i)))
                .collect();
            (
                item(true),
                AssignValue::ChangeItem {
                    key: "id",
                    id: arg(1),
                    members,
                },
            )
        }
        Change::Clear => {
            args.push(Value::Null);
            (
                Filter::TRUE,
                AssignValue::Set(Source::Arg {
                    index: 1,
                    nullable: true,
                }),
            )
        }
    };
    (
        Plan::Update {
            filter: Filter::eq_arg(0, 0).and(condition),
            set: vec![Assign { field: META, value }],
            pick: None,
        },
        args,
    )
}

/// Runs random sequences on fresh stores and on the memory store. `make` returns a new store, and a
/// value that is dropped after the sequence (such as a temporary directory).
///
/// # Panics
/// If a store and the memory store differ.
pub fn items_agree_with_memory<T>(sequences: u32, make: impl Fn() -> (Arc<dyn Store>, T)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let config = Config {
        cases: sequences,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome =
        TestRunner::new(config).run(&proptest::collection::vec(any_change(), 1..25), |changes| {
            let (store, _resources) = make();
            let outcome = runtime.block_on(run(&*store, &changes));
            runtime.block_on(store.close());
            outcome
        });
    if let Err(difference) = outcome {
        panic!("{difference}");
    }
}

async fn run(store: &dyn Store, changes: &[Change]) -> Result<(), TestCaseError> {
    let model = Memory::new();
    create_tables(store, &[&THING])
        .await
        .map_err(|e| TestCaseError::fail(format!("tables: {e:?}")))?;
    store
        .ready()
        .await
        .map_err(|e| TestCaseError::fail(format!("ready: {e:?}")))?;
    let mut record = vec![Value::Null; THING.fields.len()];
    record[0] = Value::Text("k1".to_owned());
    record[STATUS_FIELD] = Value::Text("draft".to_owned());
    for store in [&model as &dyn Store, store] {
        execute(store, Plan::Insert, record.clone())
            .await
            .map_err(TestCaseError::fail)?;
    }
    for change in changes {
        let (plan, args) = plan(change);
        let expected = execute(&model, plan.clone(), args.clone()).await;
        prop_assert_eq!(
            parsed(execute(store, plan, args).await),
            parsed(expected),
            "{:?}",
            change
        );
    }
    Ok(())
}

/// Lists as parsed JSON: stores may use other white space or another order of members.
fn parsed(answer: Result<Vec<Vec<Value>>, String>) -> Result<Vec<serde_json::Value>, String> {
    let lists = answer?.into_iter().map(|record| match &record[META] {
        Value::Json(text) => serde_json::from_str(text).map_err(|e| e.to_string()),
        _ => Ok(serde_json::Value::Null),
    });
    lists.collect()
}
