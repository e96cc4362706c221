//! The restriction, compared with a simple model of visibility over random calls on two stores.
//!
//! The model is [`sees`]: a few lines over a stored record that share no code with the restriction.
//! After every call, the pages of every caller must contain exactly the records that the model
//! allows. Records that a caller cannot see must be unchanged, and new records must belong to the
//! caller. Both stores must return the same.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::entity::{
    Bound, EntityDesc, FieldDesc, Flags, IndexDesc, Kind, PageArgs, Scope, ScopeFrom, SoftDelete,
    SortDesc, Tenant, Ttl, UniqueDesc,
};
use crate::filter::{CtxPath, Filter, FilterSpec, Op, Operand, OperandSpec, Source, SourceSpec};
use crate::operation::{
    AssignSpec, Batch, Consume, Exists, Increment, Lookup, OpSpec, ParamSpec, Place, Upsert,
};
use crate::resource::{Call, CursorKey, Draft, Form, ListRequest, Outcome, Table};
use linchpin_core::store::create_tables;

use crate::store::memory::Memory;
use crate::store::sqlite::{SqliteOptions, SqliteStore};
use crate::store::{Order, Plan, Rows, Store};
use crate::{Actor, Cx, Result, Timestamp, Value};

const ID: usize = 0;
const TENANT: usize = 1;
const OWNER: usize = 2;
const SLUG: usize = 3;
const SERIAL: usize = 4;
const TITLE: usize = 5;
const VIEWS: usize = 6;
const DELETED: usize = 7;
const EXPIRY: usize = 8;
const TTL_MILLIS: i64 = 1000;

static STATES: crate::entity::EnumDesc = crate::entity::EnumDesc {
    name: "State",
    variants: &["live", "gone"],
};
static FIELDS: [FieldDesc; 9] = [
    FieldDesc {
        flags: Flags::PRIMARY,
        ..FieldDesc::new("id", "id", "id", Kind::String, false)
    },
    FieldDesc {
        flags: Flags::READ_ONLY,
        ..FieldDesc::new("tenant", "tenant", "tenant", Kind::String, true)
    },
    FieldDesc {
        flags: Flags::READ_ONLY,
        ..FieldDesc::new("owner", "owner", "owner", Kind::String, true)
    },
    FieldDesc::new("slug", "slug", "slug", Kind::String, false),
    FieldDesc::new("serial", "serial", "serial", Kind::String, true),
    FieldDesc::new("title", "title", "title", Kind::String, false),
    FieldDesc::new("views", "views", "views", Kind::Integer, true),
    FieldDesc {
        flags: Flags::READ_ONLY,
        ..FieldDesc::new("deleted", "deleted", "deleted", Kind::Date, true)
    },
    FieldDesc::new("expiry", "expiry", "expiry", Kind::Date, true),
];
static MARKED: [FieldDesc; 9] = {
    let mut fields = FIELDS;
    fields[DELETED] = FieldDesc::new("deleted", "deleted", "deleted", Kind::Enum(&STATES), true);
    fields
};

const PLAIN: EntityDesc = EntityDesc {
    uniques: &[
        UniqueDesc {
            fields: &[SLUG],
            global: false,
        },
        UniqueDesc {
            fields: &[SERIAL],
            global: true,
        },
    ],
    indexes: &[IndexDesc {
        global: false,
        fields: &[SortDesc {
            field: TITLE,
            desc: true,
        }],
    }],
    sort: &[SortDesc {
        field: TITLE,
        desc: false,
    }],
    ..EntityDesc::new("Note", "notes", "notes", &FIELDS)
};
const OWNED: &[Scope] = &[Scope::new(OWNER, ScopeFrom::Ctx(CtxPath::ActorId))];
const WRITTEN: &[Scope] = &[Scope {
    apply_to: Some(&["create", "update", "delete", "bump", "enrol"]),
    ..Scope::new(OWNER, ScopeFrom::Ctx(CtxPath::ActorId))
}];

static ENTITIES: [EntityDesc; 5] = [
    EntityDesc {
        soft_delete: Some(SoftDelete::At(DELETED)),
        storage_name: "dated",
        ..PLAIN
    },
    EntityDesc {
        tenant: Some(Tenant {
            field: TENANT,
            optional: true,
            anonymous_read: true,
        }),
        soft_delete: Some(SoftDelete::Is(DELETED, gone)),
        fields: &MARKED,
        storage_name: "tenants",
        ..PLAIN
    },
    EntityDesc {
        ttl: Some(Ttl {
            field: EXPIRY,
            after: Some(TTL_MILLIS as u64),
        }),
        scope: WRITTEN,
        storage_name: "fading",
        ..PLAIN
    },
    EntityDesc {
        ttl: Some(Ttl {
            field: EXPIRY,
            after: None,
        }),
        tenant: Some(Tenant {
            field: TENANT,
            optional: false,
            anonymous_read: false,
        }),
        storage_name: "dying",
        ..PLAIN
    },
    EntityDesc {
        tenant: Some(Tenant {
            field: TENANT,
            optional: true,
            anonymous_read: false,
        }),
        scope: OWNED,
        soft_delete: Some(SoftDelete::At(DELETED)),
        ttl: Some(Ttl {
            field: EXPIRY,
            after: Some(TTL_MILLIS as u64),
        }),
        storage_name: "whole",
        ..PLAIN
    },
];

fn gone() -> Value {
    text("gone")
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

const fn is(field: usize, param: usize) -> AssignSpec {
    AssignSpec {
        field,
        value: SourceSpec::Param(param),
    }
}

const fn where_(field: usize) -> FilterSpec {
    FilterSpec::Cond(field, Op::Eq, OperandSpec::One(SourceSpec::Param(0)))
}

const SLUGS: &[ParamSpec] = &[ParamSpec::new("slug", SLUG, Place::Body)];
const TITLES: &[ParamSpec] = &[
    ParamSpec::new("title", TITLE, Place::Body),
    ParamSpec::new("to", TITLE, Place::Body),
];
static BY_SLUG: OpSpec = OpSpec::new("by_slug", &Lookup::new(&[is(SLUG, 0)])).params(SLUGS);
static TAKEN: OpSpec = OpSpec::new("taken", &Exists::new(&[is(SLUG, 0)])).params(SLUGS);
static BUMP: OpSpec = OpSpec::new("bump", &Increment::new(VIEWS, Bound::Int(1), &[is(ID, 0)]))
    .params(&[ParamSpec::new("id", ID, Place::Id)]);
static SET_ALL: OpSpec =
    OpSpec::new("set_all", &Batch::update(where_(TITLE), &[is(TITLE, 1)])).params(TITLES);
static REMOVE_ALL: OpSpec =
    OpSpec::new("remove_all", &Batch::delete(where_(TITLE))).params(SLUGS_OF_TITLE);
const SLUGS_OF_TITLE: &[ParamSpec] = &[ParamSpec::new("title", TITLE, Place::Body)];
static TAKE: OpSpec = OpSpec::new("take", &Consume::new(where_(TITLE))).params(SLUGS_OF_TITLE);
static ENROL: OpSpec = OpSpec::new(
    "enrol",
    &Upsert::new(&[is(SLUG, 0)])
        .set(&[is(TITLE, 1)])
        .on_create(&[is(ID, 2)]),
)
.params(&[
    ParamSpec::new("slug", SLUG, Place::Body),
    ParamSpec::new("title", TITLE, Place::Body),
    ParamSpec::new("id", ID, Place::Body),
]);

/// The callers: two tenants, two people of one tenant, a person without a tenant, an anonymous
/// caller, and the application.
#[derive(Clone, Copy, Debug)]
enum TestCaller {
    InTenant(&'static str, &'static str),
    WithoutTenant(&'static str),
    Anonymous,
    System,
}

const CALLERS: [TestCaller; 6] = [
    TestCaller::InTenant("ann", "t1"),
    TestCaller::InTenant("bob", "t1"),
    TestCaller::InTenant("ann", "t2"),
    TestCaller::WithoutTenant("cat"),
    TestCaller::Anonymous,
    TestCaller::System,
];

impl TestCaller {
    fn cx(self, now: Timestamp) -> Cx {
        let actor = |actor: Actor| Cx::new(Arc::new(actor), now, "".into());
        match self {
            Self::InTenant(id, tenant) => actor(Actor {
                tenant_id: Some(tenant.to_owned()),
                ..Actor::user(id)
            }),
            Self::WithoutTenant(id) => actor(Actor::user(id)),
            Self::Anonymous => actor(Actor::anonymous()),
            Self::System => Cx::system("test").at(now),
        }
    }

    fn id(self) -> Option<&'static str> {
        match self {
            Self::InTenant(id, _) | Self::WithoutTenant(id) => Some(id),
            Self::Anonymous | Self::System => None,
        }
    }

    fn tenant(self) -> Option<&'static str> {
        if let Self::InTenant(_, tenant) = self {
            Some(tenant)
        } else {
            None
        }
    }
}

/// Whether a caller sees a record on a route, by the model; `None` if the route refuses the caller.
fn sees(
    entity: &EntityDesc,
    who: TestCaller,
    route: &str,
    reads: bool,
    now: Timestamp,
    record: &[Value],
) -> Option<bool> {
    let mut seen = true;
    if !matches!(who, TestCaller::System) {
        if let Some(tenant) = entity.tenant {
            let of = match (who.tenant(), who.id()) {
                (Some(tenant), _) => text(tenant),
                (None, Some(_)) if tenant.optional => Value::Null,
                (None, None) if tenant.anonymous_read && reads => Value::Null,
                _ => return None,
            };
            seen &= record[TENANT] == of;
        }
        for scope in entity
            .scope
            .iter()
            .filter(|scope| scope.apply_to.is_none_or(|routes| routes.contains(&route)))
        {
            seen &= record[scope.field] == text(who.id()?);
        }
    }
    seen &= match entity.soft_delete {
        None => true,
        Some(SoftDelete::At(field)) => record[field].is_null(),
        Some(SoftDelete::Is(field, _)) => record[field] != gone(),
    };
    if let Some(ttl) = entity.ttl {
        seen &= match record[ttl.field] {
            Value::Date(at) => at.millis() > now.millis(),
            _ => true,
        };
    }
    Some(seen)
}

#[derive(Clone, Debug)]
enum TestCall {
    Create {
        id: u8,
        slug: u8,
        serial: Option<u8>,
        title: u8,
        dies: Option<i64>,
    },
    Get {
        id: u8,
    },
    Update {
        id: u8,
        slug: Option<u8>,
        title: Option<u8>,
    },
    Delete {
        id: u8,
    },
    BySlug {
        slug: u8,
    },
    Taken {
        slug: u8,
    },
    Bump {
        id: u8,
    },
    SetAll {
        title: u8,
        to: u8,
    },
    RemoveAll {
        title: u8,
    },
    Take {
        title: u8,
    },
    Enrol {
        slug: u8,
        title: u8,
        id: u8,
    },
    Sweep,
}

fn test_calls() -> impl Strategy<Value = TestCall> {
    let (id, few) = (0..6_u8, 0..3_u8);
    let dies = proptest::option::weighted(0.3, 200..1500_i64);
    prop_oneof![
        4 => (id.clone(), 0..4_u8, proptest::option::weighted(0.3, 0..2_u8), few.clone(), dies)
            .prop_map(|(id, slug, serial, title, dies)| {
                TestCall::Create { id, slug, serial, title, dies }
            }),
        2 => id.clone().prop_map(|id| TestCall::Get { id }),
        3 => (id.clone(), proptest::option::of(0..4_u8), proptest::option::of(few.clone()))
            .prop_map(|(id, slug, title)| TestCall::Update { id, slug, title }),
        2 => id.clone().prop_map(|id| TestCall::Delete { id }),
        1 => (0..4_u8).prop_map(|slug| TestCall::BySlug { slug }),
        1 => (0..4_u8).prop_map(|slug| TestCall::Taken { slug }),
        2 => id.clone().prop_map(|id| TestCall::Bump { id }),
        1 => (few.clone(), few.clone()).prop_map(|(title, to)| TestCall::SetAll { title, to }),
        1 => few.clone().prop_map(|title| TestCall::RemoveAll { title }),
        1 => few.clone().prop_map(|title| TestCall::Take { title }),
        3 => (0..4_u8, few, id).prop_map(|(slug, title, id)| TestCall::Enrol { slug, title, id }),
        1 => Just(TestCall::Sweep),
    ]
}

/// Runs a call and returns its outcome.
async fn run(table: &Table, cx: &Cx, what: &TestCall) -> String {
    let name = |prefix: &str, n: u8| text(&format!("{prefix}{n}"));
    let draft = |values: Vec<(usize, Value)>| {
        let mut draft = Draft::new(table.desc);
        for (field, value) in values {
            draft.values[field] = Some(value);
        }
        draft
    };
    let call = async |spec: &'static OpSpec, args: Vec<Value>| {
        let call = Call {
            cx,
            args: args.into_iter().map(Some).collect(),
            page: PageArgs::default(),
            form: &Form::Records,
            version: None,
        };
        table.run(spec, call).await
    };
    let record = |rows: Result<Rows>| rows.map(Outcome::Record);
    let outcome = match what {
        TestCall::Create {
            id,
            slug,
            serial,
            title,
            dies,
        } => {
            let mut values = vec![
                (ID, name("i", *id)),
                (SLUG, name("s", *slug)),
                (TITLE, name("t", *title)),
            ];
            values.extend(serial.map(|n| (SERIAL, name("n", n))));
            if table.desc.ttl.is_some_and(|ttl| ttl.after.is_none()) {
                values.extend(dies.map(|ms| {
                    (
                        EXPIRY,
                        Value::Date(Timestamp::from_millis(cx.now().millis() + ms)),
                    )
                }));
            }
            record(
                table
                    .create(cx, draft(values), &Form::Records)
                    .await
                    .map(|(rows, _)| rows),
            )
        }
        TestCall::Get { id } => record(table.get(cx, name("i", *id), &Form::Records).await),
        TestCall::Update { id, slug, title } => {
            let values = slug
                .map(|n| (SLUG, name("s", n)))
                .into_iter()
                .chain(title.map(|n| (TITLE, name("t", n))))
                .collect();
            record(
                table
                    .update(cx, name("i", *id), draft(values), None, &Form::Records)
                    .await,
            )
        }
        TestCall::Delete { id } => table
            .delete(cx, name("i", *id), None)
            .await
            .map(|()| Outcome::Nothing),
        TestCall::BySlug { slug } => call(&BY_SLUG, vec![name("s", *slug)]).await,
        TestCall::Taken { slug } => call(&TAKEN, vec![name("s", *slug)]).await,
        TestCall::Bump { id } => call(&BUMP, vec![name("i", *id)]).await,
        TestCall::SetAll { title, to } => {
            call(&SET_ALL, vec![name("t", *title), name("t", *to)]).await
        }
        TestCall::RemoveAll { title } => call(&REMOVE_ALL, vec![name("t", *title)]).await,
        TestCall::Take { title } => call(&TAKE, vec![name("t", *title)]).await,
        TestCall::Enrol { slug, title, id } => {
            call(
                &ENROL,
                vec![name("s", *slug), name("t", *title), name("i", *id)],
            )
            .await
        }
        TestCall::Sweep => table.sweep(cx.now()).await.map(|_| Outcome::Nothing),
    };
    match outcome {
        Ok(Outcome::Record(rows)) => format!("{:?}", rows.records),
        Ok(Outcome::Upserted(rows)) => format!("created {} {:?}", rows.created, rows.records),
        Ok(other) => format!("{other:?}"),
        Err(error) => {
            let details: Vec<String> = error
                .details()
                .iter()
                .map(|p| format!("{} {}", p.path, p.code))
                .collect();
            format!("{} {details:?}", error.code().as_str())
        }
    }
}

/// The route of a call, and whether it only reads; `None` if no route belongs to it.
fn route(what: &TestCall) -> Option<(&'static str, bool)> {
    Some(match what {
        TestCall::Create { .. } => ("create", false),
        TestCall::Get { .. } => ("get", true),
        TestCall::Update { .. } => ("update", false),
        TestCall::Delete { .. } => ("delete", false),
        TestCall::BySlug { .. } => ("by_slug", true),
        TestCall::Taken { .. } => ("taken", true),
        TestCall::Bump { .. } => ("bump", false),
        TestCall::SetAll { .. } => ("set_all", false),
        TestCall::RemoveAll { .. } => ("remove_all", false),
        TestCall::Take { .. } => ("take", false),
        TestCall::Enrol { .. } => ("enrol", false),
        TestCall::Sweep => return None,
    })
}

/// All stored records, sorted by key.
async fn stored(table: &Table) -> Vec<Box<[Value]>> {
    let all = Plan::Select {
        filter: Filter::TRUE,
        order: vec![Order {
            field: ID,
            desc: false,
        }],
        after: None,
        limit: None,
    };
    let all = table.unrestricted(all).expect("a plan");
    table
        .execute(
            &Cx::system("test"),
            &all,
            Vec::new(),
            Rows::records(table.desc),
        )
        .await
        .expect("records")
        .records
}

/// The records on a caller's pages, or the reason why there are none.
async fn listed(table: &Table, cx: &Cx) -> Result<Vec<Value>> {
    let (mut keys, mut cursor) = (Vec::new(), None);
    loop {
        let request = ListRequest {
            page: PageArgs {
                limit: Some(2),
                cursor,
                ..PageArgs::default()
            },
            ..ListRequest::default()
        };
        let Outcome::Page { rows, next_cursor } = table.list(cx, request, &Form::Records).await?
        else {
            panic!("a page")
        };
        keys.extend(rows.records.iter().map(|r| r[ID].clone()));
        match next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(keys),
        }
    }
}

/// Runs one call on a store, and compares the stored records and all pages with the model. Returns
/// the outcome of the call as text.
async fn step(
    table: &Table,
    who: TestCaller,
    now: Timestamp,
    what: &TestCall,
) -> std::result::Result<String, TestCaseError> {
    let entity = table.desc;
    let before = stored(table).await;
    let answer = run(table, &who.cx(now), what).await;
    let after = stored(table).await;
    let label = format!(
        "{} {who:?} {what:?} at {}: {answer}",
        entity.storage_name,
        now.millis()
    );
    let expired = |record: &[Value]| {
        entity
            .ttl
            .is_some_and(|ttl| matches!(record[ttl.field], Value::Date(at) if at <= now))
    };
    let find = |of: &[Value]| after.iter().find(|r| r[ID] == of[ID]);
    if let Some((route, reads)) = route(what) {
        // A caller cannot change records that they cannot see. Expired records may be removed.
        for record in &before {
            let seen = sees(entity, who, route, reads, now, record);
            if seen != Some(true) && !expired(record) {
                prop_assert_eq!(
                    find(record),
                    Some(record),
                    "an invisible record was changed: {}",
                    label
                );
            }
            if seen.is_none() {
                prop_assert!(
                    answer.starts_with("unauthorized") || answer.starts_with("forbidden"),
                    "not refused: {}",
                    label
                );
            }
        }
        for record in after.iter().filter(|r| {
            !before
                .iter()
                .any(|old| old[ID] == r[ID] && (!expired(old) || old == *r))
        }) {
            if entity.tenant.is_some() && !matches!(who, TestCaller::System) {
                prop_assert_eq!(
                    &record[TENANT],
                    &who.tenant().map_or(Value::Null, text),
                    "not of the caller's tenant: {}",
                    label
                );
            }
            if !entity.scope.is_empty() && !matches!(who, TestCaller::System) {
                prop_assert_eq!(
                    &record[OWNER],
                    &who.id().map_or(Value::Null, text),
                    "not owned by the caller: {}",
                    label
                );
            }
        }
    }
    for who in CALLERS {
        let refused = sees(
            entity,
            who,
            "list",
            true,
            now,
            &vec![Value::Null; entity.fields.len()],
        )
        .is_none();
        let mut expected: Vec<_> = after
            .iter()
            .filter(|r| sees(entity, who, "list", true, now, r) == Some(true))
            .collect();
        expected.sort_by_key(|r| format!("{:?} {:?}", r[TITLE], r[ID]));
        match listed(table, &who.cx(now)).await {
            Ok(keys) => {
                prop_assert!(!refused, "{:?} must not list, but did after {}", who, label);
                prop_assert_eq!(
                    keys,
                    expected.iter().map(|r| r[ID].clone()).collect::<Vec<_>>(),
                    "{:?} after {}",
                    who,
                    label
                );
            }
            Err(error) => prop_assert!(refused, "{:?} {} after {}", who, error, label),
        }
    }
    Ok(answer)
}

/// At most one live record of a tenant has a given value, or at most one record at all if the
/// unique is global.
fn uniques_hold(entity: &EntityDesc, now: Timestamp, records: &[Box<[Value]>]) -> bool {
    let live: Vec<_> = records
        .iter()
        .filter(|r| sees(entity, TestCaller::System, "", true, now, r) == Some(true))
        .collect();
    let mut pairs = live
        .iter()
        .enumerate()
        .flat_map(|(n, a)| live[n + 1..].iter().map(move |b| (a, b)));
    pairs.all(|(a, b)| {
        let same_tenant = entity.tenant.is_none() || a[TENANT] == b[TENANT];
        !(a[SLUG] == b[SLUG] && same_tenant) && (a[SERIAL].is_null() || a[SERIAL] != b[SERIAL])
    })
}

#[test]
fn random_calls_reach_only_visible_records() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let steps = proptest::collection::vec((0..CALLERS.len(), 0..400_i64, test_calls()), 1..40);
    let cases = std::env::var("LINCHPIN_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(30);
    for entity in &ENTITIES {
        let config = Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        };
        let done =
            TestRunner::new(config).run(&steps, |steps| runtime.block_on(sequence(entity, steps)));
        if let Err(error) = done {
            panic!("{error}");
        }
    }
}

async fn sequence(
    entity: &'static EntityDesc,
    steps: Vec<(usize, i64, TestCall)>,
) -> std::result::Result<(), TestCaseError> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = SqliteOptions::new(folder.path().join("s.db"));
    options.durability = crate::store::sqlite::Durability::Normal;
    let sqlite: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("a store"));
    create_tables(&*sqlite, &[entity]).await.expect("a table");
    let cursors = || CursorKey::derive(&["a secret of the tests, 32 bytes!"]);
    let memory = Table::new(entity, Arc::new(Memory::new()), cursors()).expect("it mounts");
    let table = Table::new(entity, Arc::clone(&sqlite), cursors()).expect("it mounts");
    let mut now = 1_000_000;
    for (who, passed, what) in steps {
        now += passed;
        let at = Timestamp::from_millis(now);
        let model = step(&memory, CALLERS[who], at, &what).await?;
        let answer = step(&table, CALLERS[who], at, &what).await?;
        prop_assert_eq!(
            answer,
            model,
            "{} {:?} {:?}",
            entity.storage_name,
            CALLERS[who],
            what
        );
        prop_assert!(
            uniques_hold(entity, at, &stored(&table).await),
            "{:?}",
            what
        );
    }
    sqlite.close().await;
    Ok(())
}

#[test]
fn all_sources_of_a_filter_are_found() {
    let arg = |index| Source::Arg {
        index,
        nullable: false,
    };
    let filter = Filter::Any(vec![
        Filter::cond(ID, Op::In, Operand::List(vec![arg(3), Source::Now])),
        Filter::All(vec![Filter::cond(SLUG, Op::Eq, Operand::One(arg(5)))]),
    ]);
    let mut found = Vec::new();
    filter.sources(&mut |source| found.push(source.clone()));
    assert_eq!(found, [arg(3), Source::Now, arg(5)]);
}
