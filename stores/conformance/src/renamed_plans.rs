//! Plans of every kind over entities with a tenant, soft delete and a related entity.

use linchpin_core::Value;
use linchpin_core::entity::{
    EntityDesc, FieldDesc, Flags, IndexDesc, Kind, SoftDelete, SortDesc, Tenant, UniqueDesc,
};
use linchpin_core::filter::{Filter, Linked, Source};
use linchpin_core::store::{
    After, Assign, AssignValue, Compute, CustomSql, Figure, Function, Group, Order, Pick, Plan,
    Rows, Store, layout,
};

static FOLDER_FIELDS: [FieldDesc; 2] = [
    FieldDesc {
        flags: Flags::PRIMARY,
        ..FieldDesc::new("id", "id", "id", Kind::String, false)
    },
    FieldDesc::new("notes", "notes", "notes", Kind::Integer, false),
];

/// An entity with a number that is computed over [`NOTE`].
pub static FOLDER: EntityDesc =
    EntityDesc::new("Folder", "folders", "renamed_folders", &FOLDER_FIELDS);

static NOTE_FIELDS: [FieldDesc; 6] = [
    FieldDesc {
        flags: Flags::PRIMARY,
        ..FieldDesc::new("id", "id", "id", Kind::String, false)
    },
    FieldDesc::new("tenant", "tenant", "tenant", Kind::String, true),
    FieldDesc::new("folder", "folder", "folder", Kind::String, false),
    FieldDesc::new("name", "name", "name", Kind::String, false),
    FieldDesc::new("deleted_at", "deletedAt", "deleted_at", Kind::Date, true),
    FieldDesc::new("tags", "tags", "tags", Kind::StringArray, false),
];

const FOLDER_OF: usize = 2;
const NAME: usize = 3;

/// An entity with a tenant, soft delete, a unique and an index.
pub static NOTE: EntityDesc = EntityDesc {
    tenant: Some(Tenant {
        field: 1,
        optional: true,
        anonymous_read: false,
    }),
    soft_delete: Some(SoftDelete::At(4)),
    uniques: &[UniqueDesc {
        fields: &[NAME],
        global: false,
    }],
    indexes: &[IndexDesc {
        global: false,
        fields: &[SortDesc {
            field: FOLDER_OF,
            desc: false,
        }],
    }],
    ..EntityDesc::new("Note", "notes", "renamed_notes", &NOTE_FIELDS)
};

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn arg(index: usize) -> Source {
    Source::Arg {
        index,
        nullable: false,
    }
}

fn note(id: &str, name: &str) -> Vec<Value> {
    vec![
        text(id),
        Value::Null,
        text("a"),
        text(name),
        Value::Null,
        Value::Strings(vec!["x".to_owned()]),
    ]
}

/// Each plan with its arguments and the number of records that it must return.
fn plans(store: &dyn Store) -> Vec<(&'static str, &'static EntityDesc, Plan, Vec<Value>, usize)> {
    let live = || layout::live(&NOTE).unwrap_or(Filter::TRUE);
    let order = vec![Order {
        field: NAME,
        desc: false,
    }];
    let linked = Filter::Linked(Box::new(Linked {
        field: FOLDER_OF,
        of: &FOLDER,
        at: 0,
        filter: Filter::eq_arg(0, 0),
    }));
    let count = || Compute {
        function: Function::Count,
        field: 0,
        filter: live(),
    };
    let select = |filter: Filter, after: Option<After>| Plan::Select {
        filter,
        order: vec![
            Order {
                field: FOLDER_OF,
                desc: false,
            },
            Order {
                field: 0,
                desc: false,
            },
        ],
        after,
        limit: Some(arg(1)),
    };
    let page = |filter: Filter| select(filter.and(live()), None);
    let mut all = vec![
        (
            "insert of a related record",
            &FOLDER,
            Plan::Insert,
            vec![text("a"), Value::Int(0)],
            0,
        ),
        ("insert", &NOTE, Plan::Insert, note("1", "one"), 0),
        ("insert", &NOTE, Plan::Insert, note("2", "two"), 0),
        (
            "gate",
            &NOTE,
            page(linked.clone()),
            vec![text("a"), Value::Int(9)],
            2,
        ),
        (
            "page after a position",
            &NOTE,
            select(live(), Some(After::Keys(vec![Some(0), Some(2)]))),
            vec![text("a"), Value::Int(9), text("1")],
            1,
        ),
        (
            "related records",
            &NOTE,
            Plan::Related {
                filter: live(),
                field: FOLDER_OF,
                values: 0,
                order: order.clone(),
                limit: Some(arg(1)),
            },
            vec![Value::Strings(vec!["a".to_owned()]), Value::Int(1)],
            1,
        ),
        (
            "records chosen in SQL",
            &NOTE,
            Plan::Chosen {
                filter: live(),
                sql: CustomSql {
                    condition: "{column:name} = $1",
                    order: "{column:folder} DESC",
                    kinds: vec![Kind::String],
                },
                order: order.clone(),
                limit: None,
            },
            vec![text("one")],
            1,
        ),
        (
            "aggregate by value",
            &NOTE,
            Plan::Aggregate {
                filter: live(),
                groups: vec![Group {
                    field: FOLDER_OF,
                    truncate: None,
                }],
                by_value: vec![NAME],
                compute: vec![count()],
                limit: 9,
            },
            Vec::new(),
            3,
        ),
        (
            "upsert within a tenant",
            &NOTE,
            Plan::Upsert {
                keys: vec![NAME],
                filter: live(),
                set: vec![Assign {
                    field: FOLDER_OF,
                    value: AssignValue::Set(arg(2)),
                }],
            },
            note("3", "two"),
            1,
        ),
        (
            "update of the first record",
            &NOTE,
            Plan::Update {
                filter: linked,
                set: vec![Assign {
                    field: 5,
                    value: AssignValue::Push {
                        value: arg(1),
                        dedupe: true,
                    },
                }],
                pick: Some(Pick::part(order.clone(), 1)),
            },
            vec![text("a"), text("y")],
            1,
        ),
    ];
    if store.computes(false) {
        let figure = Figure {
            source: &NOTE,
            filter: Filter::eq_arg(FOLDER_OF, 0).and(live()),
            compute: count(),
            within: (Value::Int(0), Value::Int(9)),
            optional: false,
        };
        all.push((
            "counter",
            &FOLDER,
            Plan::Update {
                filter: Filter::eq_arg(0, 0),
                set: vec![Assign {
                    field: 1,
                    value: AssignValue::Figure(Box::new(figure)),
                }],
                pick: None,
            },
            vec![text("a")],
            1,
        ));
    }
    all.push((
        "delete",
        &NOTE,
        Plan::Delete {
            filter: live(),
            pick: Some(Pick::part(order, 1)),
        },
        Vec::new(),
        1,
    ));
    all
}

/// Runs plans of every kind over [`FOLDER`] and [`NOTE`], whose tables exist.
///
/// # Panics
/// If the store refuses a plan, or returns another number of records.
pub async fn runs_every_plan(store: &dyn Store) {
    for (label, entity, plan, args, expected) in plans(store) {
        let statement = match store.prepare(entity, plan) {
            Ok(statement) => statement,
            Err(error) => panic!("{label}: {error:?}"),
        };
        match store.run(&statement, args, Rows::count()).await {
            Ok(rows) => assert_eq!(rows.count, expected, "{label}"),
            Err(error) => panic!("{label}: {error:?}"),
        }
    }
    let insert = match store.prepare(&NOTE, Plan::Insert) {
        Ok(statement) => statement,
        Err(error) => panic!("{error:?}"),
    };
    let refused = store.run(&insert, note("4", "two"), Rows::count()).await;
    let details = refused.err().map(|error| error.details().to_vec());
    let fields: Vec<String> = details
        .unwrap_or_default()
        .into_iter()
        .map(|problem| problem.path)
        .collect();
    assert_eq!(fields, ["name"], "the fields of a taken unique");
}
