//! The number of rows that restricted statements read: a caller's page costs the same whatever
//! other tenants store and however many records are deleted.

use rusqlite::{Connection, StatementStatus};

use linchpin_core::store::create_tables;
use linchpin_sqlite::inspect::{self, Rendered};
use linchpin_sqlite::{SqliteOptions, SqliteStore};

use crate::entity::{
    EntityDesc, FieldDesc, Flags, Gate, IndexDesc, Kind, Scope, ScopeFrom, SoftDelete, SortDesc,
    Tenant, Ttl, UniqueDesc,
};
use crate::filter::{CtxPath, Filter, Op, Operand, Source};
use crate::resource::restriction::{Reach, Restriction};
use crate::store::{After, Order, Plan, Rows, Store};
use crate::{Timestamp, Value};

const ID: usize = 0;
const TENANT: usize = 1;
const OWNER: usize = 2;
const SLUG: usize = 3;
const TITLE: usize = 4;
const CREATED: usize = 5;
const DELETED: usize = 6;
const EXPIRY: usize = 7;

static FIELDS: [FieldDesc; 8] = [
    FieldDesc {
        flags: Flags::PRIMARY,
        ..FieldDesc::new("id", "id", "id", Kind::String, false)
    },
    FieldDesc::new("tenant", "tenant", "tenant", Kind::String, true),
    FieldDesc::new("owner", "owner", "owner", Kind::String, false),
    FieldDesc::new("slug", "slug", "slug", Kind::String, false),
    FieldDesc::new("title", "title", "title", Kind::String, false),
    FieldDesc::new("created", "created", "created", Kind::Date, false),
    FieldDesc::new("deleted", "deleted", "deleted", Kind::Date, true),
    FieldDesc::new("expiry", "expiry", "expiry", Kind::Date, false),
];

static MARKED_FIELDS: [FieldDesc; 8] = {
    let mut fields = FIELDS;
    fields[DELETED].kind = Kind::Enum(&STATES);
    fields
};
static STATES: crate::entity::EnumDesc = crate::entity::EnumDesc {
    name: "State",
    variants: &["live", "it's gone"],
};

const PLAIN: EntityDesc = EntityDesc {
    uniques: &[UniqueDesc {
        fields: &[SLUG],
        global: false,
    }],
    indexes: &[IndexDesc {
        global: false,
        fields: &[SortDesc {
            field: TITLE,
            desc: false,
        }],
    }],
    sort: &[SortDesc {
        field: CREATED,
        desc: true,
    }],
    ttl: Some(Ttl {
        field: EXPIRY,
        after: Some(1000),
    }),
    ..EntityDesc::new("Note", "notes", "notes", &FIELDS)
};
const OWNED: &[Scope] = &[Scope::new(OWNER, ScopeFrom::Ctx(CtxPath::ActorId))];
const BY_TENANT: Option<Tenant> = Some(Tenant {
    field: TENANT,
    optional: true,
    anonymous_read: false,
});

/// Every kind of restriction: a date, a value, a tenant, a scope, and all together.
static RESTRICTED: [EntityDesc; 5] = [
    EntityDesc {
        soft_delete: Some(SoftDelete::At(DELETED)),
        storage_name: "dated",
        ..PLAIN
    },
    EntityDesc {
        soft_delete: Some(SoftDelete::Is(DELETED, gone)),
        storage_name: "marked",
        fields: &MARKED_FIELDS,
        ..PLAIN
    },
    EntityDesc {
        tenant: BY_TENANT,
        storage_name: "tenants",
        ..PLAIN
    },
    EntityDesc {
        scope: OWNED,
        storage_name: "owned",
        ..PLAIN
    },
    EntityDesc {
        tenant: BY_TENANT,
        scope: OWNED,
        soft_delete: Some(SoftDelete::At(DELETED)),
        storage_name: "whole",
        ..PLAIN
    },
];

fn gone() -> Value {
    text(STATES.variants[1])
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

fn date(millis: i64) -> Value {
    Value::Date(Timestamp::from_millis(millis))
}

/// The record with number `n`: most belong to other users, and some are deleted.
fn record(entity: &EntityDesc, n: i64) -> Vec<Value> {
    let mine = n % 100 == 0;
    let deleted = !mine && n % 3 == 0;
    let mark = match (entity.fields[DELETED].kind, deleted) {
        (Kind::Enum(states), deleted) => text(states.variants[usize::from(deleted)]),
        (_, true) => date(1),
        (_, false) => Value::Null,
    };
    let tenant = if n % 7 == 1 {
        Value::Null
    } else {
        text(if mine { "t1" } else { "t2" })
    };
    vec![
        text(&format!("k{n:05}")),
        tenant,
        text(if mine || n % 7 == 1 { "me" } else { "you" }),
        text(&format!("s{n:05}")),
        text(&format!("t{:05}", n * 31 % 997)),
        date(n),
        mark,
        date(1_000_000),
    ]
}

fn after(order: &[Order], base: usize) -> After {
    After::Keys((0..order.len()).map(|n| Some(base + n)).collect())
}

/// The reads of a caller, each with the arguments of its plan.
fn reads(entity: &EntityDesc) -> Vec<(&'static str, Plan, Vec<Value>)> {
    let order = |field: usize, desc: bool| [field, ID].map(|field| Order { field, desc }).to_vec();
    let limit = |at: usize| {
        Some(Source::Arg {
            index: at,
            nullable: false,
        })
    };
    let mut all = vec![
        (
            "get",
            Plan::Select {
                filter: Filter::eq_arg(ID, 0),
                order: vec![],
                after: None,
                limit: None,
            },
            vec![text("k00300")],
        ),
        (
            "lookup",
            Plan::Select {
                filter: Filter::eq_arg(SLUG, 0),
                order: vec![],
                after: None,
                limit: None,
            },
            vec![text("s00300")],
        ),
        (
            "exists",
            Plan::Exists {
                filter: Filter::eq_arg(SLUG, 0),
            },
            vec![text("s00300")],
        ),
        (
            "exists not",
            Plan::Exists {
                filter: Filter::eq_arg(SLUG, 0),
            },
            vec![text("nobody's")],
        ),
    ];
    for (name, field, desc) in [
        ("list", CREATED, true),
        ("list up", CREATED, false),
        ("by title", TITLE, false),
        ("by title down", TITLE, true),
    ] {
        let first = Plan::Select {
            filter: Filter::TRUE,
            order: order(field, desc),
            after: None,
            limit: limit(0),
        };
        all.push((name, first, vec![Value::Int(3)]));
        let order = order(field, desc);
        let next = Plan::Select {
            filter: Filter::TRUE,
            after: Some(after(&order, 0)),
            order,
            limit: limit(2),
        };
        all.push((
            name,
            next,
            vec![
                record(entity, 200)[field].clone(),
                text("k00200"),
                Value::Int(3),
            ],
        ));
    }
    let of_title = Filter::cond(
        TITLE,
        Op::Eq,
        Operand::One(Source::Arg {
            index: 0,
            nullable: false,
        }),
    );
    let page = Plan::Select {
        filter: of_title,
        order: vec![Order {
            field: ID,
            desc: false,
        }],
        after: None,
        limit: limit(1),
    };
    all.push((
        "of title",
        page,
        vec![record(entity, 200)[TITLE].clone(), Value::Int(3)],
    ));
    all
}

/// The statement with the restriction, and its arguments.
fn restricted(
    entity: &'static EntityDesc,
    plan: &Plan,
    mut args: Vec<Value>,
    reach: Reach,
) -> (Rendered, Vec<Value>) {
    let restriction = Restriction::new(entity).expect("it is restricted");
    let route = restriction.route("list", true, false);
    let base = plan.arity(entity);
    assert_eq!(args.len(), base);
    if entity.tenant.is_some() && reach == Reach::Caller {
        args.push(text("t1"));
    }
    args.extend(entity.scope.iter().map(|_| text("me")));
    args.push(date(500));
    (
        Rendered::new(entity, &restriction.plan(plan, reach, &route, base)).expect("it renders"),
        args,
    )
}

/// The number of steps that a statement takes, and of rows that it returns.
fn steps(connection: &Connection, native: &Rendered, args: &[Value]) -> (i32, usize) {
    let mut statement = connection
        .prepare_cached(native.sql())
        .unwrap_or_else(|e| panic!("{e}: {}", native.sql()));
    statement.reset_status(StatementStatus::VmStep);
    native
        .bind(&mut statement, args)
        .expect("arguments")
        .expect("they bind");
    let mut rows = statement.raw_query();
    let mut count = 0;
    while rows.next().expect("rows").is_some() {
        count += 1;
    }
    drop(rows);
    (statement.get_status(StatementStatus::VmStep), count)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_a_page_does_not_depend_on_other_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |rows: i64| folder.path().join(format!("{rows}.db"));
    for rows in [500, 10_000] {
        let store = SqliteStore::open(SqliteOptions::new(file(rows))).expect("a store");
        let entities: Vec<&'static EntityDesc> = RESTRICTED.iter().collect();
        create_tables(&store, &entities).await.expect("tables");
        store.close().await;
        let connection = Connection::open(file(rows)).expect("the file");
        connection
            .execute_batch("PRAGMA synchronous = OFF; BEGIN")
            .expect("a transaction");
        for entity in entities {
            let insert = Rendered::new(entity, &Plan::Insert).expect("it renders");
            for n in 0..rows {
                let mut statement = connection.prepare_cached(insert.sql()).expect("an insert");
                insert
                    .bind(&mut statement, &record(entity, n))
                    .expect("arguments")
                    .expect("they bind");
                statement.raw_execute().expect("a row");
            }
        }
        connection.execute_batch("COMMIT").expect("rows");
    }
    let connect = |rows: i64| {
        let connection = Connection::open(file(rows)).expect("the file");
        inspect::prepare(&connection).expect("functions");
        connection
    };
    let (few, many) = (connect(500), connect(10_000));
    for entity in &RESTRICTED {
        let reaches: &[Reach] = if entity.tenant.is_some() {
            &[Reach::Caller, Reach::NoTenant]
        } else {
            &[Reach::Caller]
        };
        for reach in reaches {
            for (name, plan, args) in reads(entity) {
                let (native, args) = restricted(entity, &plan, args, *reach);
                let what = format!(
                    "{name} of {} for {reach:?}: {}",
                    entity.storage_name,
                    native.sql()
                );
                assert!(
                    native.is_inline() || native.is_limited(),
                    "neither inline nor limited: {what}"
                );
                let (small, large) = (steps(&few, &native, &args), steps(&many, &native, &args));
                assert!(
                    large.0 <= small.0 * 2 + 60,
                    "{} steps among few, {} among many: {what}",
                    small.0,
                    large.0
                );
                if name.starts_with("list") && *reach == Reach::Caller {
                    assert!(large.1 > 0, "the page is empty: {what}");
                }
                let mut explain = many
                    .prepare(&format!("EXPLAIN QUERY PLAN {}", native.sql()))
                    .expect("a plan");
                let details: Vec<String> = explain
                    .raw_query()
                    .mapped(|row| row.get(3))
                    .collect::<Result<_, _>>()
                    .expect("details");
                // `SCAN notes` without an index reads the whole table; with an index it stops at
                // the limit.
                let reads_all_rows = |d: &String| {
                    (d.starts_with("SCAN ") && !d.contains("INDEX") && !d.contains("SUBQUERY"))
                        || d.contains("TEMP B-TREE")
                };
                assert!(!details.iter().any(reads_all_rows), "{details:?}: {what}");
            }
        }
    }
}

/// Records that are visible through other records: each other record is found by its key.
static GATED: [EntityDesc; 3] = [
    EntityDesc {
        gates: &[Gate::new(OWNER, &RESTRICTED[4])],
        storage_name: "once",
        ttl: None,
        ..PLAIN
    },
    EntityDesc {
        gates: &[Gate::new(OWNER, &GATED[0])],
        storage_name: "twice",
        ttl: None,
        ..PLAIN
    },
    EntityDesc {
        gates: &[Gate::new(TENANT, &GATED[2]).depth(3)],
        storage_name: "tree",
        ttl: None,
        ..PLAIN
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn gate_records_are_found_by_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(SqliteOptions::new(folder.path().join("g.db"))).expect("a store");
    let entities: Vec<&'static EntityDesc> = GATED.iter().chain([&RESTRICTED[4]]).collect();
    create_tables(&store, &entities).await.expect("tables");
    store.close().await;
    let connection = Connection::open(folder.path().join("g.db")).expect("the file");
    inspect::prepare(&connection).expect("functions");
    for entity in &GATED {
        let restriction = Restriction::new(entity).expect("it is restricted");
        let route = restriction.route("list", true, false);
        let order =
            |field: usize, desc: bool| [field, ID].map(|field| Order { field, desc }).to_vec();
        let limit = Some(Source::Value(Value::Int(5)));
        let by_key = Filter::eq_arg(ID, 0);
        let plans = [
            (
                "get",
                Plan::Select {
                    filter: by_key.clone(),
                    order: vec![],
                    after: None,
                    limit: None,
                },
                true,
            ),
            (
                "lookup",
                Plan::Select {
                    filter: Filter::eq_arg(SLUG, 0),
                    order: vec![],
                    after: None,
                    limit: None,
                },
                true,
            ),
            (
                "list",
                Plan::Select {
                    filter: Filter::TRUE,
                    order: order(TITLE, false),
                    after: None,
                    limit: limit.clone(),
                },
                false,
            ),
            (
                "of one",
                Plan::Select {
                    filter: Filter::eq_arg(TITLE, 0),
                    order: vec![Order {
                        field: ID,
                        desc: true,
                    }],
                    after: None,
                    limit,
                },
                false,
            ),
            (
                "update",
                Plan::Update {
                    filter: by_key.clone(),
                    set: vec![],
                    pick: None,
                },
                false,
            ),
            (
                "delete",
                Plan::Delete {
                    filter: by_key,
                    pick: None,
                },
                false,
            ),
        ];
        for (name, plan, inline) in plans {
            let plan = match plan {
                // The written value does not matter, only the condition.
                Plan::Update { filter, pick, .. } => {
                    let value = crate::store::AssignValue::Set(Source::Value(text("t")));
                    Plan::Update {
                        filter,
                        set: vec![crate::store::Assign {
                            field: TITLE,
                            value,
                        }],
                        pick,
                    }
                }
                plan => plan,
            };
            for reach in [
                Reach::Caller,
                Reach::NoTenant,
                Reach::Anonymous,
                Reach::System,
            ] {
                let native = Rendered::new(
                    entity,
                    &restriction.plan(&plan, reach, &route, plan.arity(entity)),
                )
                .expect("it renders");
                let what = format!(
                    "{name} of {} for {reach:?}: {}",
                    entity.storage_name,
                    native.sql()
                );
                assert_eq!(native.is_inline(), inline, "{what}");
                let mut explain = connection
                    .prepare(&format!("EXPLAIN QUERY PLAN {}", native.sql()))
                    .expect("a plan");
                let details: Vec<String> = explain
                    .raw_query()
                    .mapped(|row| row.get(3))
                    .collect::<Result<_, _>>()
                    .expect("details");
                let reads_all_rows = |d: &String| {
                    (d.starts_with("SCAN ") && !d.contains("INDEX")) || d.contains("TEMP B-TREE")
                };
                assert!(!details.iter().any(reads_all_rows), "{details:?}: {what}");
                steps(&connection, &native, &vec![Value::Null; 16]);
                let links = details
                    .iter()
                    .filter(|d| d.contains("SEARCH linchpin "))
                    .count();
                let found = details
                    .iter()
                    .filter(|d| d.contains("SEARCH linchpin ") && d.contains("(id=?)"))
                    .count();
                let expected = [1, 2, 3][GATED
                    .iter()
                    .position(|e| e.storage_name == entity.storage_name)
                    .unwrap_or_default()];
                assert!(
                    links == found && (links == expected || reach == Reach::Anonymous),
                    "{details:?}: {what}"
                );
            }
        }
    }
}

/// The sweeper's query must read only expired records.
#[tokio::test(flavor = "multi_thread")]
async fn the_sweeper_reads_only_expired_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(SqliteOptions::new(folder.path().join("s.db"))).expect("a store");
    create_tables(&store, &[&RESTRICTED[4]])
        .await
        .expect("a table");
    let insert = store
        .prepare(&RESTRICTED[4], Plan::Insert)
        .expect("it renders");
    for n in 0..2000 {
        let mut values = record(&RESTRICTED[4], n);
        values[EXPIRY] = date(if n < 5 { 10 } else { 1000 });
        store
            .run(&insert, values, Rows::count())
            .await
            .expect("a row");
    }
    let expired = Filter::cond(
        EXPIRY,
        Op::Lte,
        Operand::One(Source::Arg {
            index: 0,
            nullable: false,
        }),
    );
    let order = [EXPIRY, ID]
        .map(|field| Order { field, desc: false })
        .to_vec();
    let plan = Plan::Select {
        filter: expired,
        order,
        after: None,
        limit: Some(Source::Value(Value::Int(500))),
    };
    let native = Rendered::new(&RESTRICTED[4], &plan).expect("it renders");
    assert!(native.is_limited(), "{}", native.sql());
    let connection = Connection::open(folder.path().join("s.db")).expect("the file");
    inspect::prepare(&connection).expect("functions");
    let (steps, rows) = steps(&connection, &native, &[date(500)]);
    assert!(
        rows == 5 && steps < 300,
        "{steps} steps for {rows} rows: {}",
        native.sql()
    );
    store.close().await;
}
