//! The verdicts of [`access`](super::access) against what SQLite does: whatever runs on the caller's thread reads no more rows
//! than it answers, on tables made to hurt, and every form of a page answers what the memory store does.

use rusqlite::{Connection, StatementStatus};

use super::access::conjuncts;
use super::render::{Native, Runs, render};
use super::{SqliteOptions, SqliteStore, bind, reader};
use crate::entity::{EntityDesc, EnumDesc, FieldDesc, Flags, IndexDesc, Kind, SortDesc, UniqueDesc};
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::layout;
use crate::store::memory::Memory;
use crate::store::{After, Order, Plan, Rows, Store};
use crate::{Timestamp, Value};

static STATUS: EnumDesc = EnumDesc { name: "Status", variants: &["draft", "published", "gone"] };

const ID: usize = 0;
const OWNER: usize = 1;
const HANDLE: usize = 2;
const EMAIL: usize = 3;
const STATUS_FIELD: usize = 4;
const CATEGORY: usize = 5;
const SCORE: usize = 6;
const CREATED: usize = 7;
/// No index holds it.
const TITLE: usize = 8;

static FIELDS: [FieldDesc; 9] = [
    FieldDesc { flags: Flags::PRIMARY, ..FieldDesc::new("id", "id", "id", Kind::String, false) },
    FieldDesc::new("owner", "owner", "owner", Kind::String, false),
    FieldDesc::new("handle", "handle", "handle", Kind::String, false),
    FieldDesc::new("email", "email", "email", Kind::String, true),
    FieldDesc::new("status", "status", "status", Kind::Enum(&STATUS), false),
    FieldDesc::new("category", "category", "category", Kind::String, true),
    FieldDesc::new("score", "score", "score", Kind::Integer, false),
    FieldDesc::new("created_at", "createdAt", "created_at", Kind::Date, false),
    FieldDesc::new("title", "title", "title", Kind::String, true),
];

static BY_NUMBER: [FieldDesc; 9] = {
    let mut fields = FIELDS;
    fields[ID].kind = Kind::Integer;
    fields
};

static INDEXES: [IndexDesc; 5] = [
    IndexDesc { fields: &[SortDesc { field: CREATED, desc: false }] },
    IndexDesc { fields: &[SortDesc { field: CATEGORY, desc: false }] },
    IndexDesc { fields: &[SortDesc { field: STATUS_FIELD, desc: false }, SortDesc { field: CREATED, desc: true }] },
    IndexDesc { fields: &[SortDesc { field: OWNER, desc: false }, SortDesc { field: CATEGORY, desc: false }] },
    IndexDesc { fields: &[SortDesc { field: SCORE, desc: true }] },
];

const fn table(fields: &'static [FieldDesc], storage_name: &'static str) -> EntityDesc {
    EntityDesc {
        fields,
        storage_name,
        indexes: &INDEXES,
        uniques: &[UniqueDesc { fields: &[OWNER, HANDLE], global: false }, UniqueDesc { fields: &[EMAIL], global: false }],
        ..crate::store::conformance::entity("Page", &[])
    }
}

static TEXT_KEY: EntityDesc = table(&FIELDS, "access_text");
static NUMBER_KEY: EntityDesc = table(&BY_NUMBER, "access_number");

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

fn date(millis: i64) -> Value {
    Value::Date(Timestamp::from_millis(millis))
}

fn key(entity: &EntityDesc, n: i64) -> Value {
    if matches!(entity.fields[ID].kind, Kind::Integer) { Value::Int(n) } else { text(&format!("k{n:05}")) }
}

/// How the values of a table are spread.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// Few values each, mixed.
    Mixed,
    /// One value each: every condition that does not lead an index is one too many.
    Same,
    /// Null where that may be.
    Null,
    /// Each value once, in the order of the key.
    Rising,
}

const SPREADS: [Spread; 4] = [Spread::Mixed, Spread::Same, Spread::Null, Spread::Rising];

fn record(entity: &EntityDesc, spread: Spread, n: i64, of: i64) -> Vec<Value> {
    let mixed = (n * 7919) % of;
    let few = |wanted: i64| match spread {
        Spread::Mixed => mixed % wanted,
        Spread::Same | Spread::Null => wanted / 2,
        // Lower to higher, around the middle that the conditions ask for.
        Spread::Rising => n * wanted / of,
    };
    let maybe = |value: Value| match spread {
        Spread::Null => Value::Null,
        Spread::Mixed if mixed % 3 == 0 => Value::Null,
        _ => value,
    };
    vec![
        key(entity, n),
        text(&format!("o{}", few(5))),
        text(&format!("h{n:05}")),
        maybe(text(&format!("e{n:05}"))),
        text(STATUS.variants[usize::try_from(few(3)).unwrap_or_default()]),
        maybe(text(&format!("c{}", few(5)))),
        Value::Int(few(5)),
        date(few(5)),
        maybe(text(&format!("t{}", few(5)))),
    ]
}

/// A middle value of a field: records lie on both sides of it and, but for keys, many have it.
fn middle(entity: &EntityDesc, field: usize, of: i64) -> Value {
    match field {
        ID => key(entity, of / 2),
        OWNER => text("o2"),
        HANDLE => text(&format!("h{:05}", of / 2)),
        EMAIL => text(&format!("e{:05}", of / 2)),
        STATUS_FIELD => text("published"),
        CATEGORY => text("c2"),
        SCORE => Value::Int(2),
        CREATED => date(2),
        _ => text("t2"),
    }
}

/// The next value up, for positions and bounds that do not meet.
fn other(entity: &EntityDesc, field: usize, of: i64) -> Value {
    match field {
        ID => key(entity, of / 2 + 1),
        OWNER => text("o3"),
        STATUS_FIELD => text("draft"),
        CATEGORY => text("c3"),
        SCORE => Value::Int(3),
        CREATED => date(1),
        _ => middle(entity, field, of),
    }
}

/// A plan with its arguments.
type Call = (Plan, Vec<Value>);

fn conditions(entity: &EntityDesc, of: i64) -> Vec<(usize, Op, Value)> {
    let mut all = Vec::new();
    for field in 0..entity.fields.len() {
        let value = || middle(entity, field, of);
        all.push((field, Op::Eq, value()));
        if entity.fields[field].optional {
            all.push((field, Op::Eq, Value::Null));
            all.push((field, Op::Ne, Value::Null));
        }
        if field != STATUS_FIELD {
            all.extend([Op::Gte, Op::Lt].map(|op| (field, op, value())));
        }
        if [CREATED, CATEGORY].contains(&field) {
            all.extend([Op::Gt, Op::Lte].map(|op| (field, op, other(entity, field, of))));
            all.push((field, Op::Eq, other(entity, field, of)));
            all.push((field, Op::Ne, value()));
        }
    }
    all
}

fn filter(conditions: &[&(usize, Op, Value)], args: &mut Vec<Value>) -> Filter {
    let list = conditions.iter().map(|(field, op, value)| {
        let source = if value.is_null() {
            Source::Value(Value::Null)
        } else {
            args.push(value.clone());
            Source::Arg { index: args.len() - 1, nullable: false }
        };
        Filter::cond(*field, *op, Operand::One(source))
    });
    Filter::All(list.collect())
}

fn orders(entity: &EntityDesc) -> Vec<Vec<Order>> {
    let sortable = [ID, OWNER, EMAIL, CATEGORY, SCORE, CREATED];
    let both = sortable.into_iter().flat_map(|field| [(field, false), (field, true)]);
    both.map(|(field, desc)| {
        let mut order = vec![Order { field, desc }];
        if field != entity.primary {
            order.push(Order { field: entity.primary, desc });
        }
        order
    })
    .collect()
}

/// Where pages begin: at the first record, behind a middle one, behind one elsewhere, and behind a null.
fn positions(entity: &EntityDesc, order: &[Order], of: i64) -> Vec<Option<Vec<Value>>> {
    let first = order[0].field;
    let behind = |value: Value| {
        let mut keys = vec![value];
        keys.extend(order[1..].iter().map(|o| middle(entity, o.field, of)));
        Some(keys)
    };
    let mut all = vec![None, behind(middle(entity, first, of)), behind(other(entity, first, of))];
    if entity.fields[first].optional {
        all.push(behind(Value::Null));
    }
    all
}

/// Every read of up to two conditions, in every order, from every position; `Exists` besides.
fn calls(entity: &EntityDesc, of: i64, limit: i64) -> Vec<Call> {
    let conditions = conditions(entity, of);
    let mut sets: Vec<Vec<&(usize, Op, Value)>> = vec![Vec::new()];
    for (i, one) in conditions.iter().enumerate() {
        sets.push(vec![one]);
        sets.extend(conditions[i + 1..].iter().map(|two| vec![one, two]));
    }
    let mut calls = Vec::new();
    for set in sets {
        let mut args = Vec::new();
        let plan = Plan::Exists { filter: filter(&set, &mut args) };
        calls.push((plan, args));
        for order in orders(entity) {
            for position in positions(entity, &order, of) {
                let mut args = Vec::new();
                let filter = filter(&set, &mut args);
                let after = position.map(|values| After {
                    keys: values
                        .into_iter()
                        .map(|value| {
                            (!value.is_null()).then(|| {
                                args.push(value);
                                args.len() - 1
                            })
                        })
                        .collect(),
                });
                args.push(Value::Int(limit));
                let limit = Some(Source::Arg { index: args.len() - 1, nullable: false });
                calls.push((Plan::Select { filter, order: order.clone(), after, limit }, args));
            }
        }
    }
    calls
}

async fn filled(entity: &'static EntityDesc, spread: Spread, of: i64, stores: &[&dyn Store]) {
    for store in stores {
        store.install(&[entity]).await.expect("installed");
        let insert = store.prepare(entity, Plan::Insert).expect("a plan");
        for start in (0..of).step_by(1000) {
            let some = start..of.min(start + 1000);
            let replies: Vec<_> = some.map(|n| store.run(&insert, record(entity, spread, n, of), Rows::count())).collect();
            for reply in replies {
                reply.await.expect("stored");
            }
        }
    }
}

fn open(folder: &tempfile::TempDir) -> SqliteStore {
    let mut options = SqliteOptions::new(folder.path().join("test.db"));
    options.durability = super::Durability::Normal;
    SqliteStore::open(options).expect("a fresh file opens")
}

fn connect(folder: &tempfile::TempDir) -> Connection {
    reader::connect(&folder.path().join("test.db"), super::BUSY).expect("a connection")
}

/// Runs a statement to its end; the steps of SQLite's machine and the sorts it took.
fn cost(connection: &Connection, native: &Native, args: &[Value]) -> (i32, i32) {
    let mut statement = connection.prepare_cached(&native.sql).expect("a statement");
    for status in [StatementStatus::VmStep, StatementStatus::Sort, StatementStatus::AutoIndex] {
        statement.reset_status(status);
    }
    bind::bind(&mut statement, &native.binds, args).expect("arguments").expect("bound");
    let mut rows = statement.raw_query();
    while rows.next().expect("a row").is_some() {}
    drop(rows);
    let status = |status| statement.get_status(status);
    (status(StatementStatus::VmStep), status(StatementStatus::Sort) + status(StatementStatus::AutoIndex))
}

fn inline(native: &Native) -> bool {
    matches!(native.runs, Runs::Inline | Runs::Limited(_))
}

/// A page of three takes some 200 steps; passing over this many records takes at least 3,000.
const RECORDS: i64 = 1500;
const MOST_STEPS: i32 = 600;

async fn inline_reads_are_short(entity: &'static EntityDesc) {
    let calls = calls(entity, RECORDS, 3);
    let natives: Vec<Native> = calls.iter().map(|(plan, _)| render(entity, plan).expect("a plan")).collect();
    for spread in SPREADS {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(&folder);
        filled(entity, spread, RECORDS, &[&store]).await;
        for analyzed in [false, true] {
            if analyzed {
                // What it finds here makes some indexes look useless.
                sqlx::query("ANALYZE").execute(store.pool()).await.expect("analyzed");
            }
            let connection = connect(&folder);
            let mut checked = 0;
            for ((plan, args), native) in calls.iter().zip(&natives).filter(|(_, native)| inline(native)) {
                let (steps, sorts) = cost(&connection, native, args);
                // What answers one record may be told to sort it, and so may what can answer none.
                let sorted = sorts > 0 && matches!(native.runs, Runs::Limited(_)) && !native.sql.contains(" AND 0");
                let told = format!("{spread:?} {analyzed}: {steps} steps, {sorts} sorts");
                assert!(steps <= MOST_STEPS && !sorted, "{told}: {plan:#?}\n{args:?}\n{}\n{}", native.sql, explain(&connection, native));
                checked += 1;
            }
            assert!(checked > 1000, "{checked}");
        }
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inline_reads_are_short_with_text_keys() {
    inline_reads_are_short(&TEXT_KEY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inline_reads_are_short_with_number_keys() {
    inline_reads_are_short(&NUMBER_KEY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_from_any_position_agree_with_the_memory_store() {
    const FEW: i64 = 24;
    for (entity, spread) in [(&TEXT_KEY, Spread::Mixed), (&TEXT_KEY, Spread::Rising), (&NUMBER_KEY, Spread::Mixed)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, model) = (open(&folder), Memory::new());
        filled(entity, spread, FEW, &[&store, &model]).await;
        let connection = connect(&folder);
        for (plan, args) in calls(entity, FEW, 4) {
            let native = render(entity, &plan).expect("a plan");
            let rows = || if matches!(plan, Plan::Exists { .. }) { Rows::count() } else { Rows::records(entity) };
            let found = reader::read(&connection, entity, &native, &args, rows()).expect("rows");
            let statement = model.prepare(entity, plan.clone()).expect("a plan");
            let expected = model.run(&statement, args.clone(), rows()).await.expect("rows");
            let same = (found.count, &found.records) == (expected.count, &expected.records);
            assert!(same, "{plan:#?}\n{args:?}\n{}\n{:#?}\nexpected {:#?}", native.sql, found.records, expected.records);
        }
        store.close().await;
    }
}

fn explain(connection: &Connection, native: &Native) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", native.sql)).expect("a statement");
    let count = statement.parameter_count();
    let rows = statement.query_map(rusqlite::params_from_iter((0..count).map(|_| 1)), |row| row.get::<_, String>(3)).expect("rows");
    rows.map(|r| r.expect("text")).collect::<Vec<_>>().join("\n")
}

/// The reads that a declared index or unique is for: equality on its leading fields, in the order of the next one, with or
/// without a range on it, from the start and from positions, nulls included.
fn intended(entity: &EntityDesc, of: i64) -> Vec<Call> {
    let mut indexes: Vec<Vec<SortDesc>> = layout::indexes(entity).into_iter().filter(|i| !i.unique).map(|i| i.keys).collect();
    indexes.push(vec![SortDesc { field: ID, desc: false }]);
    let mut calls = Vec::new();
    for keys in indexes {
        for (pinned, next) in keys.iter().enumerate() {
            // The list route sorts by one field and the key.
            let rest: Vec<usize> = keys[pinned..].iter().map(|k| k.field).collect();
            if rest.len() > 2 || rest.last() != Some(&ID) {
                continue;
            }
            for desc in [false, true] {
                let order: Vec<Order> = rest.iter().map(|field| Order { field: *field, desc }).collect();
                let equal: Vec<_> = keys[..pinned].iter().map(|k| (k.field, Op::Eq, middle(entity, k.field, of))).collect();
                let ranges: [&[Op]; 4] = [&[], &[Op::Gte], &[Op::Lt], &[Op::Gt, Op::Lte]];
                for range in ranges {
                    let bounds = range.iter().map(|op| (next.field, *op, other(entity, next.field, of)));
                    let all: Vec<_> = equal.iter().cloned().chain(bounds).collect();
                    // A range leaves no nulls, so no page ends at one.
                    let from = positions(entity, &order, of)
                        .into_iter()
                        .filter(|at| range.is_empty() || at.as_ref().is_none_or(|k| !k[0].is_null()));
                    for position in from {
                        let mut args = Vec::new();
                        let filter = filter(&all.iter().collect::<Vec<_>>(), &mut args);
                        let after = position.map(|values| After {
                            keys: values.into_iter().map(|v| (!v.is_null()).then(|| (args.push(v), args.len() - 1).1)).collect(),
                        });
                        args.push(Value::Int(21));
                        let limit = Some(Source::Arg { index: args.len() - 1, nullable: false });
                        calls.push((Plan::Select { filter, order: order.clone(), after, limit }, args));
                    }
                }
            }
        }
    }
    // Lookups: one record by each unique and the key, and by any leading fields of an index.
    let leading = entity.indexes.iter().map(|i| i.fields.iter().map(|k| k.field).collect::<Vec<_>>());
    let whole = entity.uniques.iter().map(|u| u.fields.to_vec()).chain([vec![ID]]);
    for fields in leading.chain(whole) {
        for n in 1..=fields.len() {
            let equal: Vec<_> = fields[..n].iter().map(|f| (*f, Op::Eq, middle(entity, *f, of))).collect();
            let mut args = Vec::new();
            let filter = filter(&equal.iter().collect::<Vec<_>>(), &mut args);
            calls.push((Plan::Exists { filter: filter.clone() }, args.clone()));
            if n == fields.len() && (fields == [ID] || entity.uniques.iter().any(|u| u.fields == fields)) {
                calls.push((Plan::Select { filter, order: Vec::new(), after: None, limit: None }, args));
            }
        }
    }
    calls
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_index_is_for_uses_it() {
    for entity in [&TEXT_KEY, &NUMBER_KEY] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(&folder);
        filled(entity, Spread::Mixed, 10, &[&store]).await;
        let connection = connect(&folder);
        for (plan, args) in intended(entity, 10) {
            let native = render(entity, &plan).expect("a plan");
            let path = explain(&connection, &native);
            // A first page without conditions walks along its index, or the table itself, until its limit; all else seeks.
            let first = matches!(&plan, Plan::Select { filter, after: None, .. } if *filter == Filter::TRUE);
            let scans = path.lines().any(|line| line.contains("SCAN") && line.contains(entity.storage_name));
            assert!(inline(&native), "{plan:#?}\n{args:?}");
            assert!(!path.contains("TEMP B-TREE") && scans == first, "{}\n{path}", native.sql);
        }
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_pages_read_as_much_as_the_first() {
    const MANY: i64 = 20_000;
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    filled(&TEXT_KEY, Spread::Rising, MANY, &[&store]).await;
    let connection = connect(&folder);
    for desc in [false, true] {
        let order = vec![Order { field: CREATED, desc }, Order { field: ID, desc }];
        let page = |after: Option<After>| Plan::Select {
            filter: Filter::TRUE,
            order: order.clone(),
            after,
            limit: Some(Source::Arg { index: 2, nullable: false }),
        };
        let first = render(&TEXT_KEY, &page(None)).expect("a plan");
        let deep = render(&TEXT_KEY, &page(Some(After { keys: vec![Some(0), Some(1)] }))).expect("a plan");
        let at = |n: i64| vec![record(&TEXT_KEY, Spread::Rising, n, MANY)[CREATED].clone(), key(&TEXT_KEY, n), Value::Int(21)];
        // 21 records of 9 columns, and for each the comparison with the position once more.
        let (base, _) = cost(&connection, &first, &at(0));
        assert!((21 * 9..21 * 15).contains(&base), "{base} steps on the first page");
        for n in [25, 5000, 10_000, MANY - 25] {
            let (steps, sorts) = cost(&connection, &deep, &at(n));
            assert!(sorts == 0 && steps <= base + 22 * 8, "{steps} steps at {n}, {base} on the first page");
        }
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_each_value_are_all_that_is_read() {
    const MANY: i64 = 20_000;
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    filled(&TEXT_KEY, Spread::Rising, MANY, &[&store]).await;
    let connection = connect(&folder);
    for desc in [false, true] {
        let order = vec![Order { field: CATEGORY, desc }, Order { field: ID, desc }];
        let limit = Some(Source::Arg { index: 1, nullable: false });
        let plan = Plan::Related { filter: Filter::TRUE, field: OWNER, values: 0, order, limit };
        let native = render(&TEXT_KEY, &plan).expect("a plan");
        let path = explain(&connection, &native);
        assert!(matches!(native.runs, Runs::Keyed { .. }) && !path.contains(&format!("SCAN {}", TEXT_KEY.storage_name)), "{path}");
        // 4000 records of each value, of which 4 are wanted.
        let args = [Value::Strings(vec!["o1".to_owned(), "o3".to_owned(), "none".to_owned()]), Value::Int(4)];
        let (steps, _) = cost(&connection, &native, &args);
        assert!(steps < 1000, "{steps} steps\n{path}");
    }
    let by_key = Plan::Related { filter: Filter::TRUE, field: ID, values: 0, order: Vec::new(), limit: None };
    let native = render(&TEXT_KEY, &by_key).expect("a plan");
    let path = explain(&connection, &native);
    assert!(matches!(native.runs, Runs::Keyed { .. }) && !path.contains(&format!("SCAN {}", TEXT_KEY.storage_name)), "{path}");
    store.close().await;
}

/// Which reads must not run on the caller's thread.
#[test]
fn what_may_scan_runs_apart() {
    let eq = |field| Filter::eq_arg(field, 0);
    let limit = || Some(Source::Value(Value::Int(20)));
    let by = |field, desc| vec![Order { field, desc }, Order { field: ID, desc }];
    let select = |filter, order, limit| Plan::Select { filter, order, after: None, limit };
    let related = |field| Plan::Related { filter: Filter::TRUE, field, values: 0, order: by(CREATED, false), limit: limit() };
    let contains = Filter::cond(TITLE, Op::Contains, Operand::One(Source::Arg { index: 0, nullable: false }));
    let apart = [
        ("no limit", select(eq(STATUS_FIELD), Vec::new(), None)),
        ("no index on the filter", select(eq(TITLE), Vec::new(), limit())),
        ("a filter beside the index", select(eq(TITLE), by(CREATED, false), limit())),
        ("a filter with an index and an order with another", select(eq(CATEGORY), by(CREATED, false), limit())),
        ("no index on the order", select(Filter::TRUE, by(TITLE, false), limit())),
        ("an order that ends inside an index", select(Filter::TRUE, by(OWNER, false), limit())),
        ("nulls of a unique", select(Filter::TRUE, by(EMAIL, false), limit())),
        ("either of two", select(eq(CREATED).or(eq(CATEGORY)), Vec::new(), limit())),
        ("text within", Plan::Exists { filter: contains }),
        ("existence without an index", Plan::Exists { filter: eq(TITLE) }),
        ("one value twice", Plan::Exists { filter: eq(CATEGORY).and(eq(CATEGORY)) }),
        ("values of a field without an index", related(TITLE)),
        ("half of a unique", Plan::Exists { filter: eq(HANDLE) }),
    ];
    for (case, plan) in apart {
        assert!(matches!(render(&TEXT_KEY, &plan).expect("a plan").runs, Runs::Apart), "{case}");
    }
    let inline = [
        ("a key and more", Plan::Exists { filter: eq(ID).and(eq(TITLE)) }),
        ("a unique and more", select(eq(OWNER).and(eq(HANDLE)).and(eq(TITLE)), by(TITLE, true), None)),
        ("nothing at all", select(Filter::Any(Vec::new()), by(TITLE, true), None)),
    ];
    for (case, plan) in inline {
        assert!(matches!(render(&TEXT_KEY, &plan).expect("a plan").runs, Runs::Inline), "{case}");
    }
}

#[test]
fn nested_conditions_are_taken_apart() {
    let one = |field| Filter::eq_arg(field, 0);
    let nested = Filter::All(vec![Filter::Any(vec![Filter::All(vec![one(1), one(2)])]), one(3), Filter::TRUE]);
    assert_eq!(conjuncts(&nested), [&one(1), &one(2), &one(3)]);
}
