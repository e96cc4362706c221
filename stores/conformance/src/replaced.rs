//! A table in which a field has two columns, one for its type and one for its earlier type, as
//! during a migration that changes the type.

use std::sync::Arc;

use linchpin_core::entity::{
    EntityDesc, FieldDesc, Flags, Kind, SourceLine, TransformDesc, TransformError, TransformFrom,
    TransformInput, TransformType,
};
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::schema::ColumnKind;
use linchpin_core::store::{
    Assign, AssignValue, Compute, Conversion, Function, Names, Order, Plan, Replaced, Rows, Store,
    TableNames,
};
use linchpin_core::{Code, Result, Value, ValueRef};

use super::Execute;

const TABLE: &str = "replaced_parcels";

static FIELDS: [FieldDesc; 4] = [
    key(),
    FieldDesc::new("size", "size", "size", Kind::Integer, false),
    FieldDesc::new("note", "note", "note", Kind::String, true),
    FieldDesc::new("tags", "tags", "tags", Kind::StringArray, true),
];
/// The entity with the new types.
static PARCEL: EntityDesc = EntityDesc::new("Parcel", "parcels", TABLE, &FIELDS);

static EARLIER_FIELDS: [FieldDesc; 4] = [
    key(),
    FieldDesc::new("measure", "measure", "measure", Kind::String, false),
    FieldDesc::new("note", "note", "note", Kind::String, true),
    FieldDesc::new("tag", "tag", "tag", Kind::String, true),
];
/// The entity as declared before the migration.
static EARLIER: EntityDesc = EntityDesc::new("Parcel", "parcels", TABLE, &EARLIER_FIELDS);

const fn key() -> FieldDesc {
    FieldDesc {
        flags: Flags::PRIMARY,
        ..FieldDesc::new("id", "id", "id", Kind::String, false)
    }
}

const fn required(kind: Kind) -> TransformType {
    TransformType {
        kind,
        optional: false,
    }
}

const fn transform(
    name: &'static str,
    (from, to): (Kind, Kind),
    run: fn(TransformInput<'_>) -> std::result::Result<Value, TransformError>,
) -> TransformDesc {
    TransformDesc {
        name,
        from: TransformFrom::Value(required(from)),
        to: required(to),
        body: "",
        reverse: None,
        run,
        at: SourceLine { file: "", line: 0 },
    }
}

static NUMBER: TransformDesc = transform("number", (Kind::String, Kind::Integer), |input| {
    let TransformInput::Value(ValueRef::Text(text)) = input else {
        return Err("no text".into());
    };
    assert_ne!(text, "panic");
    Ok(Value::Int(text.parse().map_err(|_| "not a number")?))
});
static TEXT: TransformDesc =
    transform("text", (Kind::Integer, Kind::String), |input| match input {
        TransformInput::Value(ValueRef::Int(number)) if number >= 0 => {
            Ok(Value::Text(number.to_string()))
        }
        _ => Err("negative".into()),
    });
static LIST: TransformDesc =
    transform(
        "list",
        (Kind::String, Kind::StringArray),
        |input| match input {
            TransformInput::Value(ValueRef::Text(text)) => {
                Ok(Value::Strings(vec![text.to_owned()]))
            }
            _ => Err("no text".into()),
        },
    );
static FIRST: TransformDesc = transform("first", (Kind::StringArray, Kind::String), |input| {
    let list: Vec<String> = match input {
        TransformInput::Value(ValueRef::Strings(list)) => list.to_vec(),
        TransformInput::Value(ValueRef::Json(text)) => {
            serde_json::from_str(text).map_err(|_| "no list")?
        }
        _ => return Err("no list".into()),
    };
    Ok(Value::Text(list.into_iter().next().unwrap_or_default()))
});

/// The names during the migration: `size` and `tags` have an earlier column.
fn replaced_names() -> Names {
    let columns = |old: &str, optional, (forth, back)| Replaced {
        old: old.to_owned(),
        kind: ColumnKind::String,
        optional,
        source: format!("{old}__src"),
        required: !optional,
        forth: Conversion {
            function: forth,
            null: Value::Null,
        },
        back: Conversion {
            function: back,
            null: Value::Null,
        },
    };
    let mut own = TableNames::new(TABLE)
        .with_column("size", "size__next")
        .with_column("tags", "tags__next");
    let size = columns("measure", false, (&NUMBER, &TEXT));
    let tags = columns("tag", true, (&LIST, &FIRST));
    own.replaced.insert("size".to_owned(), size);
    own.replaced.insert("tags".to_owned(), tags);
    let mut names = Names {
        epoch: 1,
        ..Names::default()
    };
    names.tables.insert(TABLE.to_owned(), own);
    names
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn arg(index: usize) -> Source {
    Source::Arg {
        index,
        nullable: true,
    }
}

/// Two versions of an app on one store: `PARCEL` is declared by the new binary, `EARLIER` by the
/// earlier one.
struct Both<'a> {
    store: &'a dyn Store,
}

impl Both<'_> {
    async fn run(&self, entity: &'static EntityDesc, plan: Plan, args: Vec<Value>) -> Result<Rows> {
        let statement = self.store.prepare(entity, plan)?;
        self.store
            .run(&statement, args, Rows::records(entity))
            .await
    }

    /// All records as the binary with this entity reads them, in the order of their keys.
    async fn all(&self, entity: &'static EntityDesc) -> Result<Vec<Vec<Value>>> {
        let plan = Plan::Select {
            filter: Filter::TRUE,
            order: vec![Order {
                field: 0,
                desc: false,
            }],
            after: None,
            limit: None,
        };
        let rows = self.run(entity, plan, Vec::new()).await?;
        Ok(rows.records.into_iter().map(Vec::from).collect())
    }

    /// The record with a key, as the binary with this entity reads it.
    async fn one(&self, entity: &'static EntityDesc, key: &str) -> Result<Vec<Value>> {
        let plan = Plan::Select {
            filter: Filter::eq_arg(0, 0),
            order: Vec::new(),
            after: None,
            limit: None,
        };
        let rows = self.run(entity, plan, vec![text(key)]).await?;
        Ok(rows.records.into_iter().map(Vec::from).next().expect("one"))
    }

    /// Sets a field of a record, and returns the record.
    async fn set(
        &self,
        entity: &'static EntityDesc,
        key: &str,
        field: usize,
        value: Value,
    ) -> Result<Vec<Value>> {
        let plan = Plan::Update {
            filter: Filter::eq_arg(0, 0),
            set: vec![Assign {
                field,
                value: AssignValue::Set(arg(1)),
            }],
            pick: None,
        };
        let rows = self.run(entity, plan, vec![text(key), value]).await?;
        Ok(rows.records.into_iter().map(Vec::from).next().expect("one"))
    }
}

fn code<T>(outcome: Result<T>) -> Option<Code> {
    outcome.err().map(|error| error.code())
}

fn list(value: &Value) -> Vec<String> {
    match value {
        Value::Strings(list) => list.clone(),
        Value::Json(text) => serde_json::from_str(text).expect("a list"),
        other => panic!("{other:?}"),
    }
}

/// Checks that a store keeps both columns of a field with an earlier type up to date: a binary with
/// either type reads the values that the other one wrote, and a value that one of them could not
/// read is refused.
///
/// # Panics
/// If a check fails.
pub async fn keeps_both_columns<S: Store>(store: &S, execute: Execute<S>) {
    let table = format!(
        "CREATE TABLE {TABLE} (id TEXT PRIMARY KEY, measure TEXT NOT NULL, note TEXT, tag TEXT, \
         size__next BIGINT, measure__src TEXT, tags__next {}, tag__src TEXT)",
        if store.kind().name == "postgres" {
            "TEXT[]"
        } else {
            "TEXT"
        }
    );
    execute(store, vec![table]).await.expect("created");
    store.set_names(Arc::new(replaced_names()));
    let both = Both { store };

    // Each binary creates a record, and each binary reads both records.
    let tags = |tag: &str| Value::Strings(vec![tag.to_owned()]);
    let new = vec![text("a"), Value::Int(7), Value::Null, tags("red")];
    both.run(&PARCEL, Plan::Insert, new).await.expect("stored");
    let old = vec![text("b"), text("12"), Value::Null, text("blue")];
    both.run(&EARLIER, Plan::Insert, old).await.expect("stored");
    let sizes = |all: &[Vec<Value>]| all.iter().map(|one| one[1].clone()).collect::<Vec<_>>();
    let seen = both.all(&PARCEL).await.expect("read");
    assert_eq!(sizes(&seen), [Value::Int(7), Value::Int(12)]);
    assert_eq!(list(&seen[0][3]), ["red"]);
    assert_eq!(list(&seen[1][3]), ["blue"]);
    let seen = both.all(&EARLIER).await.expect("read");
    assert_eq!(sizes(&seen), [text("7"), text("12")]);
    assert_eq!([&seen[0][3], &seen[1][3]], [&text("red"), &text("blue")]);

    // The last write wins, whichever binary made it. The written record is returned with its
    // values.
    let written = both.set(&EARLIER, "a", 1, text("8")).await;
    assert_eq!(written.expect("written")[1], text("8"));
    assert_eq!(
        both.one(&PARCEL, "a").await.expect("read")[1],
        Value::Int(8)
    );
    let written = both.set(&PARCEL, "a", 2, text("noted")).await;
    let written = written.expect("another field is written");
    assert_eq!([&written[1], &written[2]], [&Value::Int(8), &text("noted")]);
    let written = both.set(&PARCEL, "a", 1, Value::Int(9)).await;
    assert_eq!(written.expect("written")[1], Value::Int(9));
    assert_eq!(both.one(&EARLIER, "a").await.expect("read")[1], text("9"));

    // A list with two elements is kept although the earlier binary reads only its first element: a
    // write of the same first element by the earlier binary does not shorten the list.
    let several = Value::Strings(vec!["red".to_owned(), "round".to_owned()]);
    both.set(&PARCEL, "a", 3, several).await.expect("written");
    both.set(&EARLIER, "a", 2, Value::Null)
        .await
        .expect("written");
    both.set(&EARLIER, "a", 3, text("red"))
        .await
        .expect("written");
    let record = both.one(&PARCEL, "a").await.expect("read");
    assert_eq!(list(&record[3]), ["red", "round"]);

    // Null is stored as null in both columns.
    both.set(&PARCEL, "b", 3, Value::Null)
        .await
        .expect("written");
    assert_eq!(both.one(&EARLIER, "b").await.expect("read")[3], Value::Null);
    both.set(&EARLIER, "a", 3, Value::Null)
        .await
        .expect("written");
    assert_eq!(both.one(&PARCEL, "a").await.expect("read")[3], Value::Null);

    check_upserts(&both).await;
    check_refusals(&both).await;
}

async fn check_upserts(both: &Both<'_>) {
    let upsert = || Plan::Upsert {
        keys: vec![0],
        filter: Filter::TRUE,
        set: vec![Assign {
            field: 1,
            value: AssignValue::Set(arg(1)),
        }],
    };
    for (size, created) in [(1, true), (2, false)] {
        let record = vec![text("c"), Value::Int(size), Value::Null, Value::Null];
        let rows = both.run(&PARCEL, upsert(), record).await.expect("written");
        assert_eq!(
            (rows.created, &rows.records[0][1]),
            (created, &Value::Int(size))
        );
        let earlier = both.one(&EARLIER, "c").await.expect("read");
        assert_eq!(earlier[1], text(&size.to_string()));
    }
}

/// Checks the refused statements: writes of a value that the earlier binary could not read, reads
/// of a value that cannot be converted, and filters, sorts, sums and additions on the field.
async fn check_refusals(both: &Both<'_>) {
    let pending = Some(Code::SchemaPending);
    let refused = both.set(&PARCEL, "a", 1, Value::Int(-1)).await;
    assert_eq!(code(refused), pending);
    assert_eq!(
        both.one(&PARCEL, "a").await.expect("read")[1],
        Value::Int(9)
    );
    let record = vec![text("d"), Value::Int(-1), Value::Null, Value::Null];
    assert_eq!(code(both.run(&PARCEL, Plan::Insert, record).await), pending);
    assert_eq!(both.all(&EARLIER).await.expect("read").len(), 3);

    for unreadable in ["many", "panic"] {
        both.set(&EARLIER, "b", 1, text(unreadable))
            .await
            .expect("written");
        assert_eq!(code(both.one(&PARCEL, "b").await), pending);
        assert_eq!(code(both.all(&PARCEL).await), pending);
    }
    // A write of the new binary makes the record readable again.
    let written = both.set(&PARCEL, "b", 1, Value::Int(3)).await;
    assert_eq!(written.expect("written")[1], Value::Int(3));

    let select = |filter, order| Plan::Select {
        filter,
        order,
        after: None,
        limit: None,
    };
    let larger = Filter::Cond {
        field: 1,
        op: Op::Gt,
        value: Operand::One(Source::Value(Value::Int(1))),
    };
    let by_size = vec![Order {
        field: 1,
        desc: false,
    }];
    let sum = Plan::Aggregate {
        filter: Filter::TRUE,
        groups: Vec::new(),
        by_value: Vec::new(),
        compute: vec![Compute {
            function: Function::Sum,
            field: 1,
            filter: Filter::TRUE,
        }],
        limit: 1,
    };
    let add = Plan::Update {
        filter: Filter::TRUE,
        set: vec![Assign {
            field: 1,
            value: AssignValue::Add(Source::Value(Value::Int(1))),
        }],
        pick: None,
    };
    let plans = [
        select(larger, Vec::new()),
        select(Filter::TRUE, by_size),
        sum,
        add,
    ];
    for plan in plans {
        assert_eq!(code(both.run(&PARCEL, plan, Vec::new()).await), pending);
    }
}
