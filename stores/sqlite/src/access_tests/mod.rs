//! Compares the results of `linchpin_sql::access` with the behavior of SQLite.
//!
//! A statement on the caller's thread reads no more rows than it returns, even on unfavorable
//! tables. Each kind of page returns the same records as the memory store.

use rusqlite::{Connection, StatementStatus};

use super::render::{Native, Runs};
use super::{SqliteOptions, SqliteStore, bind, reader};
use linchpin_core::entity::{
    EntityDesc, EnumDesc, FieldDesc, Flags, IndexDesc, Kind, SortDesc, UniqueDesc,
};
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::create_tables;
use linchpin_core::store::layout;
use linchpin_core::store::{After, Order, Plan, Rows, Store};
use linchpin_core::{Timestamp, Value};
use linchpin_memory::Memory;

mod indexes;
mod inline;
mod large;

fn render(entity: &'static EntityDesc, plan: &Plan) -> linchpin_core::Result<Native> {
    super::render::render(entity, plan, &std::sync::Arc::default())
}

static STATUS: EnumDesc = EnumDesc {
    name: "Status",
    variants: &["draft", "published", "gone"],
};

const ID: usize = 0;
const OWNER: usize = 1;
const HANDLE: usize = 2;
const EMAIL: usize = 3;
const STATUS_FIELD: usize = 4;
const CATEGORY: usize = 5;
const SCORE: usize = 6;
const CREATED: usize = 7;
/// A field without an index.
const TITLE: usize = 8;

static FIELDS: [FieldDesc; 9] = [
    FieldDesc {
        flags: Flags::PRIMARY,
        ..FieldDesc::new("id", "id", "id", Kind::String, false)
    },
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

static INDEXES: [IndexDesc; 6] = [
    IndexDesc {
        global: false,
        fields: &[SortDesc {
            field: CREATED,
            desc: false,
        }],
    },
    IndexDesc {
        global: false,
        fields: &[SortDesc {
            field: CATEGORY,
            desc: false,
        }],
    },
    IndexDesc {
        global: false,
        fields: &[
            SortDesc {
                field: STATUS_FIELD,
                desc: false,
            },
            SortDesc {
                field: CREATED,
                desc: true,
            },
        ],
    },
    IndexDesc {
        global: false,
        fields: &[
            SortDesc {
                field: OWNER,
                desc: false,
            },
            SortDesc {
                field: CATEGORY,
                desc: false,
            },
        ],
    },
    IndexDesc {
        global: false,
        fields: &[SortDesc {
            field: SCORE,
            desc: true,
        }],
    },
    // Mixed directions, with nulls after the first key.
    IndexDesc {
        global: false,
        fields: &[
            SortDesc {
                field: STATUS_FIELD,
                desc: false,
            },
            SortDesc {
                field: SCORE,
                desc: true,
            },
            SortDesc {
                field: CATEGORY,
                desc: false,
            },
        ],
    },
];

const fn table(fields: &'static [FieldDesc], storage_name: &'static str) -> EntityDesc {
    EntityDesc {
        fields,
        storage_name,
        indexes: &INDEXES,
        uniques: &[
            UniqueDesc {
                fields: &[OWNER, HANDLE],
                global: false,
            },
            UniqueDesc {
                fields: &[EMAIL],
                global: false,
            },
        ],
        ..linchpin_conformance::entity("Page", &[])
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
    if matches!(entity.fields[ID].kind, Kind::Integer) {
        Value::Int(n)
    } else {
        text(&format!("k{n:05}"))
    }
}

/// The distribution of the values of a table.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// Few different values in each field, mixed.
    Mixed,
    /// The same value in all records: a condition on any field other than the first of an index
    /// excludes nothing.
    Same,
    /// Null in every optional field.
    Null,
    /// Each value once, in the order of the primary key.
    Rising,
}

const SPREADS: [Spread; 4] = [Spread::Mixed, Spread::Same, Spread::Null, Spread::Rising];

fn record(entity: &EntityDesc, spread: Spread, n: i64, records: i64) -> Vec<Value> {
    let mixed = (n * 7919) % records;
    let few = |wanted: i64| match spread {
        Spread::Mixed => mixed % wanted,
        Spread::Same | Spread::Null => wanted / 2,
        // Ascending, around the middle value of the conditions.
        Spread::Rising => n * wanted / records,
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

/// A middle value of a field. Some records have smaller values and some have greater ones. Except
/// for keys, many records have this value.
fn middle(entity: &EntityDesc, field: usize, records: i64) -> Value {
    match field {
        ID => key(entity, records / 2),
        OWNER => text("o2"),
        HANDLE => text(&format!("h{:05}", records / 2)),
        EMAIL => text(&format!("e{:05}", records / 2)),
        STATUS_FIELD => text("published"),
        CATEGORY => text("c2"),
        SCORE => Value::Int(2),
        CREATED => date(2),
        _ => text("t2"),
    }
}

/// A value other than the middle one, for positions and bounds that must differ from it. For the
/// fields that are not listed, the middle value is returned.
fn other(entity: &EntityDesc, field: usize, records: i64) -> Value {
    match field {
        ID => key(entity, records / 2 + 1),
        OWNER => text("o3"),
        STATUS_FIELD => text("draft"),
        CATEGORY => text("c3"),
        SCORE => Value::Int(3),
        CREATED => date(1),
        _ => middle(entity, field, records),
    }
}

/// A plan with its arguments.
type Call = (Plan, Vec<Value>);

fn conditions(entity: &EntityDesc, records: i64) -> Vec<(usize, Op, Value)> {
    let mut all = Vec::new();
    for field in 0..entity.fields.len() {
        let value = || middle(entity, field, records);
        all.push((field, Op::Eq, value()));
        if entity.fields[field].optional {
            all.push((field, Op::Eq, Value::Null));
            all.push((field, Op::Ne, Value::Null));
        }
        if field != STATUS_FIELD {
            all.extend([Op::Gte, Op::Lt].map(|op| (field, op, value())));
        }
        if [CREATED, CATEGORY].contains(&field) {
            all.extend([Op::Gt, Op::Lte].map(|op| (field, op, other(entity, field, records))));
            all.push((field, Op::Eq, other(entity, field, records)));
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
            Source::Arg {
                index: args.len() - 1,
                nullable: false,
            }
        };
        Filter::cond(*field, *op, Operand::One(source))
    });
    Filter::All(list.collect())
}

fn orders(entity: &EntityDesc) -> Vec<Vec<Order>> {
    let sortable = [ID, OWNER, EMAIL, CATEGORY, SCORE, CREATED];
    let both = sortable
        .into_iter()
        .flat_map(|field| [vec![(field, false)], vec![(field, true)]]);
    // Orders by several fields, with and without an index.
    let several = [
        vec![(SCORE, true), (CATEGORY, false)],
        vec![(STATUS_FIELD, true), (SCORE, false), (CATEGORY, true)],
        vec![(CATEGORY, true), (CREATED, false)],
    ];
    both.chain(several)
        .map(|keys| {
            let mut order: Vec<Order> = keys
                .iter()
                .map(|(field, desc)| Order {
                    field: *field,
                    desc: *desc,
                })
                .collect();
            if let Some(last) = order.last().filter(|o| o.field != entity.primary).copied() {
                order.push(Order {
                    field: entity.primary,
                    ..last
                });
            }
            order
        })
        .collect()
}

/// The starts of pages: at the first record, after a middle value, after another value, and after a
/// null in each optional sort key.
fn positions(entity: &EntityDesc, order: &[Order], records: i64) -> Vec<Option<Vec<Value>>> {
    let with_key = |at: usize, value: Value| {
        let mut keys: Vec<Value> = order
            .iter()
            .map(|o| middle(entity, o.field, records))
            .collect();
        keys[at] = value;
        Some(keys)
    };
    let first = order[0].field;
    let mut all = vec![
        None,
        with_key(0, middle(entity, first, records)),
        with_key(0, other(entity, first, records)),
    ];
    let optional = order
        .iter()
        .enumerate()
        .filter(|(_, o)| entity.fields[o.field].optional);
    all.extend(optional.map(|(at, _)| with_key(at, Value::Null)));
    all
}

/// All reads with up to two conditions, in every order, from every position, and all `Exists`
/// plans.
fn calls(entity: &EntityDesc, records: i64, limit: i64) -> Vec<Call> {
    let conditions = conditions(entity, records);
    let mut sets: Vec<Vec<&(usize, Op, Value)>> = vec![Vec::new()];
    for (i, one) in conditions.iter().enumerate() {
        sets.push(vec![one]);
        sets.extend(conditions[i + 1..].iter().map(|two| vec![one, two]));
    }
    let mut calls = Vec::new();
    for set in sets {
        let mut args = Vec::new();
        let plan = Plan::Exists {
            filter: filter(&set, &mut args),
        };
        calls.push((plan, args));
        for order in orders(entity) {
            for position in positions(entity, &order, records) {
                let mut args = Vec::new();
                let filter = filter(&set, &mut args);
                let after = position.map(|values| {
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
                args.push(Value::Int(limit));
                let limit = Some(Source::Arg {
                    index: args.len() - 1,
                    nullable: false,
                });
                calls.push((
                    Plan::Select {
                        filter,
                        order: order.clone(),
                        after,
                        limit,
                    },
                    args,
                ));
            }
        }
    }
    calls
}

async fn filled(entity: &'static EntityDesc, spread: Spread, records: i64, stores: &[&dyn Store]) {
    for store in stores {
        create_tables(*store, &[entity]).await.expect("created");
        let insert = store.prepare(entity, Plan::Insert).expect("a plan");
        for start in (0..records).step_by(1000) {
            let some = start..records.min(start + 1000);
            let replies: Vec<_> = some
                .map(|n| store.run(&insert, record(entity, spread, n, records), Rows::count()))
                .collect();
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
    reader::connect(&folder.path().join("test.db"), super::BUSY_TIMEOUT).expect("a connection")
}

/// Runs a statement to its end; returns the steps of SQLite's virtual machine and the number of
/// sorts.
fn cost(connection: &Connection, native: &Native, args: &[Value]) -> (i32, i32) {
    let mut statement = connection.prepare_cached(&native.sql).expect("a statement");
    for status in [
        StatementStatus::VmStep,
        StatementStatus::Sort,
        StatementStatus::AutoIndex,
    ] {
        statement.reset_status(status);
    }
    bind::bind(&mut statement, &native.binds, args)
        .expect("arguments")
        .expect("bound");
    let mut rows = statement.raw_query();
    while rows.next().expect("a row").is_some() {}
    drop(rows);
    let status = |status| statement.get_status(status);
    (
        status(StatementStatus::VmStep),
        status(StatementStatus::Sort) + status(StatementStatus::AutoIndex),
    )
}

fn inline(native: &Native) -> bool {
    matches!(native.runs, Runs::Inline | Runs::Limited(_))
}

fn explain(connection: &Connection, native: &Native) -> String {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {}", native.sql))
        .expect("a statement");
    let count = statement.parameter_count();
    let rows = statement
        .query_map(rusqlite::params_from_iter((0..count).map(|_| 1)), |row| {
            row.get::<_, String>(3)
        })
        .expect("rows");
    rows.map(|r| r.expect("text"))
        .collect::<Vec<_>>()
        .join("\n")
}
