//! Conformance tests of stores: random statements run on a store and on the memory store, and the
//! answers must be equal.
//!
//! A store's own tests call [`agrees_with_memory`], [`items_agree_with_memory`] and
//! [`refuses_once_closed`]. Sequences contain inserts, updates, deletes, existence checks and page
//! walks, over fields of every type, with values from a pool of edge cases. The whole contents are
//! compared after each write. Failing sequences are shrunk.

mod generate;
mod items;
mod renamed;
mod renamed_plans;
mod replaced;
#[cfg(test)]
mod tests;

pub use items::items_agree_with_memory;
pub use renamed::{Execute, FILLER, RenamedStore, contracted, renamed};
pub use renamed_plans::{FOLDER, NOTE, runs_every_plan};
pub use replaced::keeps_both_columns;

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use linchpin_core::Value;
use linchpin_core::entity::{
    EntityDesc, EnumDesc, FieldDesc, Flags, IndexDesc, Kind, SortDesc, UniqueDesc,
};
use linchpin_core::filter::{Filter, Source};
use linchpin_core::store::create_tables;
use linchpin_core::store::{After, Assign, Compute, Group, Order, Pick, Plan, Rows, Store};
use linchpin_core::validate::list_value;
use linchpin_memory::Memory;

static STATUS: EnumDesc = EnumDesc {
    name: "Status",
    variants: &["draft", "published", "gone"],
};

static FIELDS: [FieldDesc; 10] = [
    FieldDesc {
        flags: Flags::PRIMARY,
        ..FieldDesc::new("id", "id", "id", Kind::String, false)
    },
    FieldDesc {
        flags: Flags::FILTERABLE,
        ..FieldDesc::new("slug", "slug", "slug", Kind::String, true)
    },
    FieldDesc {
        flags: Flags::FILTERABLE,
        ..FieldDesc::new("title", "title", "order", Kind::String, true)
    },
    FieldDesc::new("rank", "rankNumber", "rank", Kind::Integer, true),
    FieldDesc::new("ratio", "ratio", "ratio", Kind::Number, true),
    FieldDesc::new("live", "live", "live", Kind::Boolean, true),
    FieldDesc::new("due_at", "dueAt", "due_at", Kind::Date, true),
    FieldDesc::new("status", "status", "status", Kind::Enum(&STATUS), false),
    FieldDesc::new("tags", "tags", "tags", Kind::StringArray, true),
    FieldDesc::new("meta", "meta", "meta", Kind::Json, true),
];

const STATUS_FIELD: usize = 7;
const TAGS: usize = 8;
const META: usize = 9;

/// Returns an entity with fields of every type and these uniques.
pub const fn entity(name: &'static str, uniques: &'static [UniqueDesc]) -> EntityDesc {
    EntityDesc {
        indexes: &[IndexDesc {
            global: false,
            fields: &[
                SortDesc {
                    field: 3,
                    desc: true,
                },
                SortDesc {
                    field: 2,
                    desc: false,
                },
            ],
        }],
        uniques,
        ..EntityDesc::new(name, "things", "conformance_things", &FIELDS)
    }
}

/// An entity with a field of every type; `slug` is unique, and so is the pair of rank and status.
pub static THING: EntityDesc = entity(
    "Thing",
    &[
        UniqueDesc {
            fields: &[1],
            global: false,
        },
        UniqueDesc {
            fields: &[3, STATUS_FIELD],
            global: false,
        },
    ],
);

/// A call of the store.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<Value>),
    Update(Filter, Vec<Assign>, Option<Pick>, Vec<Value>),
    Delete(Filter, Option<Pick>, Vec<Value>),
    /// The keys, the condition on an existing record, the assignments to it; then the record and
    /// further arguments.
    Upsert(Vec<usize>, Filter, Vec<Assign>, Vec<Value>),
    Exists(Filter, Vec<Value>),
    /// Like `Exists`; also locks the record until the transaction ends.
    Hold(Filter, Vec<Value>),
    Lock(Filter, Option<Pick>, Vec<Value>),
    /// The first records for each of some values of a field: the condition with its arguments, the
    /// field, the values, the order, and the maximum for each value (`None` if the field is the
    /// primary key).
    Related(
        Filter,
        Vec<Value>,
        usize,
        Vec<Value>,
        Vec<Order>,
        Option<i64>,
    ),
    Aggregate(Filter, Vec<Group>, Vec<Compute>, Vec<Value>),
    /// All pages: the condition with its arguments, the order, and the size of a page.
    Walk(Filter, Vec<Value>, Vec<Order>, i64),
}

impl Step {
    /// The capability that the step needs. Every store runs the steps without one.
    fn capability(&self) -> Option<&'static str> {
        match self {
            Self::Upsert(..) => Some("atomic.upsert"),
            Self::Hold(..) | Self::Lock(..) => Some("transaction"),
            Self::Aggregate(..) => Some("operation.aggregate"),
            Self::Insert(..)
            | Self::Update(..)
            | Self::Delete(..)
            | Self::Exists(..)
            | Self::Related(..)
            | Self::Walk(..) => None,
        }
    }
}

/// Runs random sequences on fresh stores and on the memory store. Statements that need a missing
/// capability of the store are skipped.
///
/// `make` opens an empty store, in which the table of [`THING`] may exist already. The second value
/// that it returns (for example, a temporary directory) is dropped after the sequence.
///
/// # Panics
/// If the store and the model differ; the message contains the shortest sequence found.
pub fn agrees_with_memory<T>(sequences: u32, make: impl Fn() -> (Arc<dyn Store>, T)) {
    if let Err(difference) = first_difference(sequences, make) {
        panic!("{difference}");
    }
}

fn first_difference<T>(
    sequences: u32,
    make: impl Fn() -> (Arc<dyn Store>, T),
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| e.to_string())?;
    let config = Config {
        cases: sequences,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(
        &proptest::collection::vec(generate::any_step(), 1..40),
        |steps| {
            let (store, _resources) = make();
            let outcome = runtime.block_on(run(&*store, steps));
            runtime.block_on(store.close());
            outcome
        },
    );
    outcome.map_err(|e| e.to_string())
}

async fn run(store: &dyn Store, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let model = Memory::new();
    create_tables(store, &[&THING])
        .await
        .map_err(|e| TestCaseError::fail(format!("tables: {e:?}")))?;
    store
        .ready()
        .await
        .map_err(|e| TestCaseError::fail(format!("ready: {e:?}")))?;
    for step in steps {
        if !step
            .capability()
            .is_none_or(|needed| store.supports(needed))
        {
            continue;
        }
        let label = format!("{step:?}");
        if let Step::Walk(filter, args, order, size) = &step {
            walk(&model, store, filter, args, order, *size, &label).await?;
            continue;
        }
        let (expected, found) = (call(&model, &step).await, call(store, &step).await);
        prop_assert_eq!(
            comparable(store, found),
            comparable(store, expected),
            "{}",
            label
        );
        if !matches!(
            step,
            Step::Exists(..)
                | Step::Hold(..)
                | Step::Lock(..)
                | Step::Related(..)
                | Step::Aggregate(..)
        ) {
            let contents = |store| select(store, Filter::TRUE, Vec::new(), by_key(), None, None);
            let (expected, found) = (contents(&model).await, contents(store).await);
            prop_assert_eq!(
                comparable(store, found),
                comparable(store, expected),
                "contents after {}",
                label
            );
        }
    }
    Ok(())
}

/// Closes a store and checks that it refuses every call afterwards, even if it is closed several
/// times.
pub async fn refuses_once_closed(store: &dyn Store) {
    create_tables(store, &[&THING]).await.expect("created");
    let prepare = |plan| store.prepare(&THING, plan).expect("a plan");
    let by_key = || Filter::eq_arg(0, 0);
    let text = |t: &str| Value::Text(t.to_owned());
    let mut record = vec![Value::Null; FIELDS.len()];
    (record[0], record[STATUS_FIELD]) = (text("k"), text("draft"));
    let whole = Plan::Select {
        filter: Filter::TRUE,
        order: self::by_key(),
        after: None,
        limit: None,
    };
    let calls = [
        (prepare(Plan::Insert), record),
        (prepare(Plan::Exists { filter: by_key() }), vec![text("k")]),
        (
            prepare(Plan::Exists {
                filter: Filter::eq_arg(2, 0),
            }),
            vec![text("x")],
        ),
        (prepare(whole), Vec::new()),
        (
            prepare(Plan::Delete {
                filter: by_key(),
                pick: None,
            }),
            vec![text("k")],
        ),
    ];
    for (statement, args) in &calls {
        store
            .run(statement, args.clone(), Rows::count())
            .rows()
            .await
            .expect("it is open");
    }
    store.ready().await.expect("it is open");
    for _ in 0..2 {
        store.close().await;
        for (statement, args) in &calls {
            let refused = store
                .run(statement, args.clone(), Rows::count())
                .rows()
                .await
                .map(|rows| rows.count);
            assert_eq!(
                refused.map_err(|e| e.code()),
                Err(linchpin_core::Code::Unavailable),
                "{:?}",
                statement.plan
            );
        }
        assert!(store.ready().await.is_err());
    }
}

fn by_key() -> Vec<Order> {
    vec![Order {
        field: 0,
        desc: false,
    }]
}

/// Records, or the code and details of the error.
type Answer = Result<Vec<Vec<Value>>, String>;

async fn call(store: &dyn Store, step: &Step) -> Answer {
    let (plan, args) = match step.clone() {
        Step::Insert(values) => (Plan::Insert, values),
        Step::Update(filter, set, pick, args) => (Plan::Update { filter, set, pick }, args),
        Step::Delete(filter, pick, args) => (Plan::Delete { filter, pick }, args),
        Step::Upsert(keys, filter, set, args) => (Plan::Upsert { keys, filter, set }, args),
        Step::Exists(filter, args) => {
            let statement = store
                .prepare(&THING, Plan::Exists { filter })
                .map_err(|e| describe(&e))?;
            let rows = store
                .run(&statement, args, Rows::count())
                .rows()
                .await
                .map_err(|e| describe(&e))?;
            return Ok(vec![Vec::new(); rows.count]);
        }
        Step::Hold(filter, args) => {
            let statement = store
                .prepare(&THING, Plan::Hold { filter })
                .map_err(|e| describe(&e))?;
            let mut transaction = store.begin().await.map_err(|e| describe(&e))?;
            let rows = transaction
                .run(&statement, args, Rows::count())
                .await
                .map_err(|e| describe(&e))?;
            transaction.commit().await.map_err(|e| describe(&e))?;
            return Ok(vec![Vec::new(); rows.count]);
        }
        Step::Lock(filter, pick, args) => {
            let statement = store
                .prepare(&THING, Plan::Lock { filter, pick })
                .map_err(|e| describe(&e))?;
            let mut transaction = store.begin().await.map_err(|e| describe(&e))?;
            let rows = transaction
                .run(&statement, args, Rows::records(&THING))
                .await
                .map_err(|e| describe(&e))?;
            transaction.commit().await.map_err(|e| describe(&e))?;
            // The records are not sorted here, because their order is part of the answer.
            return Ok(rows
                .records
                .into_iter()
                .map(|record| {
                    record
                        .into_vec()
                        .into_iter()
                        .enumerate()
                        .map(same_form)
                        .collect()
                })
                .collect());
        }
        Step::Related(filter, mut args, field, values, order, limit) => {
            args.push(list_value(&values));
            let values = args.len() - 1;
            let limit = limit.map(|limit| {
                args.push(Value::Int(limit));
                Source::Arg {
                    index: args.len() - 1,
                    nullable: false,
                }
            });
            // The records are not sorted here, because their order is part of the answer.
            return execute(
                store,
                Plan::Related {
                    filter,
                    field,
                    values,
                    order,
                    limit,
                },
                args,
            )
            .await;
        }
        Step::Aggregate(filter, groups, compute, args) => {
            let width = groups.len() + compute.len();
            let plan = Plan::Aggregate {
                filter,
                groups,
                by_value: Vec::new(),
                compute,
                limit: 1000,
            };
            let statement = store.prepare(&THING, plan).map_err(|e| describe(&e))?;
            let rows = store
                .run(&statement, args, Rows::values(width))
                .rows()
                .await
                .map_err(|e| describe(&e))?;
            return Ok(rows
                .records
                .into_iter()
                .map(|row| row.into_vec().into_iter().map(rounded).collect())
                .collect());
        }
        Step::Walk(filter, args, order, _) => (
            Plan::Select {
                filter,
                order,
                after: None,
                limit: None,
            },
            args,
        ),
    };
    let mut records = execute(store, plan, args).await?;
    // Statements that change several records return them in no particular order.
    records.sort_by(|a, b| linchpin_core::filter::eval::compare(a[0].as_ref(), b[0].as_ref()));
    Ok(records)
}

async fn select(
    store: &dyn Store,
    filter: Filter,
    args: Vec<Value>,
    order: Vec<Order>,
    after: Option<After>,
    limit: Option<Source>,
) -> Answer {
    execute(
        store,
        Plan::Select {
            filter,
            order,
            after,
            limit,
        },
        args,
    )
    .await
}

async fn execute(store: &dyn Store, plan: Plan, args: Vec<Value>) -> Answer {
    let statement = store.prepare(&THING, plan).map_err(|e| describe(&e))?;
    let upserts = matches!(statement.plan, Plan::Upsert { .. });
    let rows = store
        .run(&statement, args, Rows::records(&THING))
        .rows()
        .await
        .map_err(|e| describe(&e))?;
    let created = upserts.then_some(vec![Value::Bool(rows.created)]);
    let records = rows.records.into_iter().map(|record| {
        record
            .into_vec()
            .into_iter()
            .enumerate()
            .map(same_form)
            .collect()
    });
    Ok(records.chain(created).collect())
}

/// The last digits of sums of doubles depend on the order of records.
fn rounded(value: Value) -> Value {
    match value {
        Value::Float(f) => Value::Text(format!("{f:.8e}")),
        value => value,
    }
}

/// Stores return string arrays as lists or as JSON text.
fn same_form((field, value): (usize, Value)) -> Value {
    match value {
        Value::Json(text) if field == TAGS => {
            serde_json::from_str(&text).map_or(Value::Json(text), Value::Strings)
        }
        value => value,
    }
}

/// An answer in comparable form. If the store changes the text of JSON (white space, the order of
/// members), the JSON of both answers is normalized. For every other store the bytes must be equal.
fn comparable(store: &dyn Store, answer: Answer) -> Answer {
    if !store.kind().respells_json {
        return answer;
    }
    let respelled = |value| match value {
        Value::Json(text) => serde_json::from_str::<serde_json::Value>(&text)
            .map_or(Value::Json(text), |v| Value::Json(v.to_string())),
        value => value,
    };
    answer.map(|records| {
        records
            .into_iter()
            .map(|record| record.into_iter().map(respelled).collect())
            .collect()
    })
}

fn describe(error: &linchpin_core::Error) -> String {
    let details: Vec<String> = error
        .details()
        .iter()
        .map(|p| format!("{} {}", p.path, p.code))
        .collect();
    match error.code() {
        // Causes are for the log and differ; they are included here to explain a failure.
        linchpin_core::Code::Internal => format!("{error:?}"),
        code => format!("{} {details:?}", code.as_str()),
    }
}

/// Reads all pages from both stores; each page must be equal, and all pages together must equal the
/// unpaged answer.
async fn walk(
    model: &dyn Store,
    store: &dyn Store,
    filter: &Filter,
    args: &[Value],
    order: &[Order],
    size: i64,
    label: &str,
) -> Result<(), TestCaseError> {
    let expected = select(
        model,
        filter.clone(),
        args.to_vec(),
        order.to_vec(),
        None,
        None,
    )
    .await;
    let unpaged = select(
        store,
        filter.clone(),
        args.to_vec(),
        order.to_vec(),
        None,
        None,
    )
    .await;
    let expected = comparable(store, expected);
    prop_assert_eq!(&comparable(store, unpaged), &expected, "unpaged: {}", label);
    let expected = expected.unwrap_or_default();
    let mut walked = Vec::new();
    let mut after: Option<Vec<Value>> = None;
    while walked.len() <= expected.len() {
        let mut args = args.to_vec();
        let position = after.take().map(|values| {
            let mut slot = |value| {
                args.push(value);
                args.len() - 1
            };
            After::Keys(
                values
                    .into_iter()
                    .map(|value| (!value.is_null()).then(|| slot(value)))
                    .collect(),
            )
        });
        args.push(Value::Int(size));
        let limit = Some(Source::Arg {
            index: args.len() - 1,
            nullable: false,
        });
        let page = select(store, filter.clone(), args, order.to_vec(), position, limit).await;
        let page = page.map_err(|e| TestCaseError::fail(format!("page: {label}: {e}")))?;
        prop_assert!(
            page.len() as i64 <= size,
            "a page of {} for {}: {}",
            page.len(),
            size,
            label
        );
        let Some(last) = page.last() else { break };
        after = Some(order.iter().map(|o| last[o.field].clone()).collect());
        walked.extend(page);
    }
    prop_assert_eq!(
        comparable(store, Ok(walked)),
        Ok(expected.clone()),
        "paged: {}",
        label
    );
    // The same pages by page number. If the last page is full, also the empty page after it.
    let size = usize::try_from(size).map_err(|e| TestCaseError::fail(e.to_string()))?;
    for skipped in (0..=expected.len()).step_by(size) {
        let mut args = args.to_vec();
        args.extend([Value::Int(size as i64), Value::Int(skipped as i64)]);
        let limit = Some(Source::Arg {
            index: args.len() - 2,
            nullable: false,
        });
        let skip = Some(After::Count(args.len() - 1));
        let page = select(store, filter.clone(), args, order.to_vec(), skip, limit).await;
        let expected_page = &expected[skipped..expected.len().min(skipped + size)];
        prop_assert_eq!(
            comparable(store, page),
            Ok(expected_page.to_vec()),
            "after {} records: {}",
            skipped,
            label
        );
    }
    Ok(())
}
