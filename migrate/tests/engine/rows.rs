//! Tests of data steps: fills, transforms, computed fields and counters.

use std::sync::atomic::{AtomicUsize, Ordering};

use linchpin_core::entity::{
    ComputedDesc, DefaultDesc, EntityDesc, EnumDesc, FieldDesc, Kind, SoftDelete, Summary, Tenant,
    TransformDesc, TransformError, TransformInput,
};
use linchpin_core::filter::{FilterSpec, Op, OperandSpec, SourceSpec};
use linchpin_core::schema::{Column, ColumnKind, Snapshot};
use linchpin_core::store::Row;
use linchpin_core::{DecodeError, Value, ValueRef};
use linchpin_migrate::{DataAction, Exit, Options, Pace, Phase, Refusal, Stop, apply};
use serde_json::json;

use crate::support::{App, BODY, Db, Link, function, index, snapshot};

crate::cases!(rows:
    nulls_are_refused_without_a_default_and_filled_with_one,
    a_null_becomes_the_default_of_a_replaced_field,
    a_backfill_keeps_a_value_that_the_new_binary_wrote,
    refused_rows_are_listed_and_only_they_are_visited_again,
    a_value_that_the_database_refuses_counts_as_refused,
    an_impure_transform_is_refused_before_anything_runs,
    a_stopped_run_continues_at_its_cursor,
    a_row_that_becomes_stale_after_its_step_is_reported,
    a_computed_field_is_recomputed,
    a_counter_counts_only_matching_live_records_of_its_tenant,
    a_unique_index_compares_records_that_are_not_deleted,
);

fn sized(kind: &str, rest: serde_json::Value) -> Snapshot {
    let mut size = json!({ "type": kind });
    let members = size.as_object_mut().expect("an object");
    members.extend(rest.as_object().expect("an object").clone());
    snapshot(&[("files", json!({ "size": size }), json!({}))])
}

/// The app whose second migration converts the text `size` to a number.
fn converting(before: Snapshot, after: Snapshot, transform: &'static TransformDesc) -> App {
    let second = Link::converted(after, ("files", "size"), transform);
    App::of_links([Link::plain(before), second], &[transform])
}

const fn transform(
    name: &'static str,
    kind: Kind,
    run: fn(TransformInput<'_>) -> Result<Value, TransformError>,
) -> TransformDesc {
    function(name, BODY, (Kind::String, kind), run)
}

static PARSE: TransformDesc = transform("app::parse", Kind::Integer, parse);

/// Parses a number. Panics for the text "panic", and refuses any other text.
fn parse(input: TransformInput<'_>) -> Result<Value, TransformError> {
    let TransformInput::Value(ValueRef::Text(text)) = input else {
        return Err("no text".into());
    };
    assert_ne!(text, "panic");
    let number = text.parse().map_err(|_| "not a number")?;
    Ok(Value::Int(number))
}

/// Installs the first migration and inserts files. The size of a file is its number.
async fn seeded(db: &Db, app: &App, rows: usize) {
    let first = App::new(&[app.chain.migrations()[0].snapshot.clone()]);
    db.apply(&first, Phase::Contract).await.expect("installed");
    let numbers: Vec<usize> = (0..rows).collect();
    for chunk in numbers.chunks(1_000) {
        let rows: Vec<String> = chunk
            .iter()
            .map(|n| format!("('f{n:06}', '{n}')"))
            .collect();
        let sql = format!("INSERT INTO files (id, size) VALUES {}", rows.join(", "));
        db.execute(&[&sql]).await;
    }
}

fn facts(refusal: &Refusal) -> Vec<&str> {
    refusal.facts.iter().map(|f| f.text.as_str()).collect()
}

async fn nulls_are_refused_without_a_default_and_filled_with_one(db: Db) {
    let optional = sized("string", json!({ "optional": true }));
    let required = App::new(&[optional.clone(), sized("string", json!({}))]);
    seeded(&db, &required, 30).await;
    db.execute(&["UPDATE files SET size = NULL WHERE id < 'f000012'"])
        .await;
    let plan = db.command(&required, "migrate plan").await.expect("a plan");
    assert!(
        plan.text
            .contains("no_nulls fails: `size` is null in 12 records")
    );
    let refusal = db.apply(&required, Phase::Contract).await;
    let refusal = refusal.expect_err("there are nulls");
    assert_eq!((refusal.code, refusal.exit), ("nulls_found", Exit::Data));
    assert!(refusal.message.contains("12 records"), "{refusal}");

    let default = sized("string", json!({ "default": { "literal": "none" } }));
    let app = App::new(&[optional, default]);
    // The same in a new database, with a second migration that has a default.
    let db = if db.is_sqlite() {
        Db::sqlite()
    } else {
        Db::postgres()
    };
    seeded(&db, &app, 30).await;
    db.execute(&["UPDATE files SET size = NULL WHERE id < 'f000012'"])
        .await;
    db.apply(&app, Phase::Contract).await.expect("applied");
    db.assert_at_head(&app).await;
    let filled = "SELECT count(*) FROM files WHERE size = 'none'";
    assert_eq!(db.number(filled).await, 12);
}

async fn a_null_becomes_the_default_of_a_replaced_field(db: Db) {
    let before = sized("string", json!({ "optional": true }));
    let after = sized("integer", json!({ "default": { "literal": 7 } }));
    let app = converting(before, after, &PARSE);
    seeded(&db, &app, 20).await;
    db.execute(&["UPDATE files SET size = NULL WHERE id < 'f000005'"])
        .await;
    let done = db.apply(&app, Phase::Contract).await;
    done.unwrap_or_else(|refusal| panic!("{refusal} {:?}", refusal.facts));
    db.assert_at_head(&app).await;
    let sum = db.number("SELECT sum(size) FROM files").await;
    assert_eq!(sum, (5..20).sum::<i64>() + 5 * 7);
}

async fn a_backfill_keeps_a_value_that_the_new_binary_wrote(db: Db) {
    let text = |name: &str| Column {
        name: name.to_owned(),
        kind: ColumnKind::String,
        optional: true,
        default: None,
    };
    let data = DataAction::Transform {
        table: "files".to_owned(),
        key: text("id"),
        from: text("size"),
        next: Column {
            kind: ColumnKind::Integer,
            ..text("size__next")
        },
        source: text("size__src"),
        transform: PARSE.name.to_owned(),
        required: true,
        null: None,
    };
    db.execute(&[
        "CREATE TABLE files (id TEXT PRIMARY KEY, size TEXT, size__next BIGINT, size__src TEXT)",
        "INSERT INTO files VALUES ('new', '5', 50, '5'), ('old', '5', 50, '4'), ('none', '5', NULL, '5')",
    ])
    .await;
    let mut session = db.store.connect().await.expect("a session");
    let statements = data.statements(db.store.dialect());
    let mut written = Vec::new();
    for key in ["new", "old", "none"] {
        let text = |text: &str| (Value::Text(text.to_owned()), ColumnKind::String);
        let values = [text(key), (Value::Int(5), ColumnKind::Integer), text("5")];
        let done = session.execute(&statements[0], &values).await;
        written.push(done.expect("executed"));
    }
    // The new binary wrote the row `new` after the batch was read. Its source value is still the
    // one that was read, so the batch must not overwrite its new value.
    assert_eq!(written, [0, 1, 1]);
}

async fn refused_rows_are_listed_and_only_they_are_visited_again(db: Db) {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static CALLS_POSTGRES: AtomicUsize = AtomicUsize::new(0);
    fn count_and_parse(input: TransformInput<'_>) -> Result<Value, TransformError> {
        CALLS.fetch_add(1, Ordering::Relaxed);
        parse(input)
    }
    fn count_and_parse_on_postgres(input: TransformInput<'_>) -> Result<Value, TransformError> {
        CALLS_POSTGRES.fetch_add(1, Ordering::Relaxed);
        parse(input)
    }
    static ON_SQLITE: TransformDesc = transform("app::counted", Kind::Integer, count_and_parse);
    static ON_POSTGRES: TransformDesc =
        transform("app::counted", Kind::Integer, count_and_parse_on_postgres);
    let (function, calls) = if db.is_sqlite() {
        (&ON_SQLITE, &CALLS)
    } else {
        (&ON_POSTGRES, &CALLS_POSTGRES)
    };
    let app = converting(
        sized("string", json!({})),
        sized("integer", json!({})),
        function,
    );
    seeded(&db, &app, 5_000).await;
    let spoiled = "UPDATE files SET size = 'x' WHERE id IN ('f000003', 'f004000')";
    let panics = "UPDATE files SET size = 'panic' WHERE id = 'f004999'";
    db.execute(&[spoiled, panics]).await;
    let plan = db.command(&app, "migrate plan").await.expect("a plan");
    assert!(
        plan.text
            .contains("sample: the function refused 1 of 100 records; keys: f000003"),
        "{}",
        plan.text
    );
    let refusal = db.apply(&app, Phase::Backfill).await;
    let refusal = refusal.expect_err("three rows have no number");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("transform_failed", Exit::Data)
    );
    let expected = [
        "f000003: not a number",
        "f004000: not a number",
        "f004999: the function panicked",
    ];
    assert_eq!(facts(&refusal), expected);
    let ledger = db.ledger().await.expect("a ledger");
    let step = ledger
        .steps
        .values()
        .find(|step| step.state.name() == "failed");
    let step = step.expect("a failed step");
    assert_eq!((step.rows_done, step.rows_failed), (4_997, 3));
    let filled = "SELECT count(*) FROM files WHERE size__next IS NOT NULL";
    assert_eq!(db.number(filled).await, 4_997);
    let untouched = "SELECT count(*) FROM files WHERE size IN ('x', 'panic')";
    assert_eq!(db.number(untouched).await, 3);

    db.execute(&["UPDATE files SET size = '1' WHERE size IN ('x', 'panic')"])
        .await;
    calls.store(0, Ordering::Relaxed);
    db.apply(&app, Phase::Backfill).await.expect("applied");
    // Each trial run calls the function twice on 100 rows.
    let visited = calls.load(Ordering::Relaxed);
    assert!(visited <= 3 + 3 * 200, "{visited} calls");
    db.apply(&app, Phase::Contract).await.expect("applied");
    db.assert_at_head(&app).await;
}

async fn a_value_that_the_database_refuses_counts_as_refused(db: Db) {
    fn choose(input: TransformInput<'_>) -> Result<Value, TransformError> {
        match input {
            TransformInput::Value(ValueRef::Text("7")) => Ok(Value::Text("other".to_owned())),
            _ => Ok(Value::Text("small".to_owned())),
        }
    }
    static CHOOSE: TransformDesc = transform(
        "app::choose",
        Kind::Enum(&EnumDesc {
            name: "Size",
            variants: &["large", "small"],
        }),
        choose,
    );
    let after = sized("enum", json!({ "values": ["large", "small"] }));
    let app = converting(sized("string", json!({})), after, &CHOOSE);
    seeded(&db, &app, 300).await;
    let refusal = db.apply(&app, Phase::Backfill).await;
    let refusal = refusal.expect_err("a value is not declared");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("transform_failed", Exit::Data)
    );
    assert!(facts(&refusal)[0].starts_with("f000007: "), "{refusal:?}");
    let filled = "SELECT count(*) FROM files WHERE size__next IS NOT NULL";
    assert_eq!(db.number(filled).await, 299);
}

async fn an_impure_transform_is_refused_before_anything_runs(db: Db) {
    fn impure(_: TransformInput<'_>) -> Result<Value, TransformError> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Value::Int(i64::try_from(next).unwrap_or_default()))
    }
    static IMPURE: TransformDesc = transform("app::impure", Kind::Integer, impure);
    let app = converting(
        sized("string", json!({})),
        sized("integer", json!({})),
        &IMPURE,
    );
    seeded(&db, &app, 10).await;
    let refusal = db.command(&app, "migrate plan").await.expect_err("impure");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("transform_impure", Exit::Planning)
    );
    let refusal = db.apply(&app, Phase::Contract).await.expect_err("impure");
    assert_eq!(refusal.code, "transform_impure");
    let ledger = db.ledger().await.expect("a ledger");
    assert!(ledger.steps.values().all(|step| step.seq == 1));
}

async fn a_stopped_run_continues_at_its_cursor(db: Db) {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static CALLS_POSTGRES: AtomicUsize = AtomicUsize::new(0);
    static STOP: std::sync::OnceLock<Stop> = std::sync::OnceLock::new();
    static STOP_POSTGRES: std::sync::OnceLock<Stop> = std::sync::OnceLock::new();
    fn parse_until_stop(
        (calls, stop): (&AtomicUsize, &std::sync::OnceLock<Stop>),
        input: TransformInput<'_>,
    ) -> Result<Value, TransformError> {
        if calls.fetch_add(1, Ordering::Relaxed) == 2_500 {
            stop.get_or_init(Stop::default).request();
        }
        parse(input)
    }
    static ON_SQLITE: TransformDesc = transform("app::stop", Kind::Integer, |input| {
        parse_until_stop((&CALLS, &STOP), input)
    });
    static ON_POSTGRES: TransformDesc = transform("app::stop", Kind::Integer, |input| {
        parse_until_stop((&CALLS_POSTGRES, &STOP_POSTGRES), input)
    });
    let (function, calls, stop) = if db.is_sqlite() {
        (&ON_SQLITE, &CALLS, &STOP)
    } else {
        (&ON_POSTGRES, &CALLS_POSTGRES, &STOP_POSTGRES)
    };
    let app = converting(
        sized("string", json!({})),
        sized("integer", json!({})),
        function,
    );
    let rows = 6_000;
    seeded(&db, &app, rows).await;
    let options = Options {
        approve: db.digest(&app).await,
        backup: false,
        stop: stop.get_or_init(Stop::default).clone(),
        pace: Pace {
            batch: 500,
            duty: 1.0,
            // A small target keeps the batches small.
            target: Some(std::time::Duration::from_millis(1)),
            ..Pace::default()
        },
        ..Options::default()
    };
    let refusal = apply(&*db.store, app.chain_and_declared(), &options, &mut |_| ()).await;
    let refusal = refusal.expect_err("stopped");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("interrupted", Exit::Incomplete)
    );
    let before = db
        .number("SELECT count(*) FROM files WHERE size__next IS NOT NULL")
        .await;
    assert!((1..6_000).contains(&before), "{before}");
    db.apply(&app, Phase::Contract).await.expect("applied");
    db.assert_at_head(&app).await;
    // The function visits each row once. Plans and runs also make trial runs, each of which visits
    // up to 100 rows twice.
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls <= rows + 5 * 200, "{calls} calls for {rows} rows");
}

async fn a_row_that_becomes_stale_after_its_step_is_reported(db: Db) {
    let app = converting(
        sized("string", json!({})),
        sized("integer", json!({})),
        &PARSE,
    );
    seeded(&db, &app, 10).await;
    db.apply(&app, Phase::Backfill).await.expect("filled");
    // The contract phase begins with the rows that older binaries changed after the backfill.
    let options = Options {
        approve: db.digest(&app).await,
        backup: false,
        max_steps: 1,
        ..Options::default()
    };
    let done = apply(&*db.store, app.chain_and_declared(), &options, &mut |_| ()).await;
    let step = done.expect("applied").steps.remove(0);
    let done = db.command(&app, "migrate verify").await.expect("verified");
    assert_eq!(done.exit, Exit::Done, "{}", done.text);
    db.execute(&["UPDATE files SET size = '99' WHERE id = 'f000003'"])
        .await;
    let done = db.command(&app, "migrate verify").await.expect("verified");
    assert_eq!(done.exit, Exit::Data);
    let finding = &done.result["findings"][0];
    assert_eq!(finding["code"], "step_unverified");
    assert_eq!(finding["object"], step.as_str());
    assert!(done.text.contains("1 record"), "{}", done.text);
}

fn length(record: &dyn Row) -> Result<Value, DecodeError> {
    match record.value(1) {
        ValueRef::Text(text) => Ok(Value::Int(text.len() as i64)),
        _ => Ok(Value::Int(-1)),
    }
}

const fn computed(body: &'static str) -> ComputedDesc {
    ComputedDesc {
        name: "app::length",
        body,
        value: length,
        blank: || ValueRef::Int(0),
        from: &[1],
    }
}

const ID: FieldDesc = FieldDesc {
    default: DefaultDesc::Uuid,
    ..FieldDesc::new("id", "id", "id", Kind::String, false)
};

const fn named(computed: ComputedDesc) -> [FieldDesc; 3] {
    [
        ID,
        FieldDesc::new("name", "name", "name", Kind::String, false),
        FieldDesc::new("length", "length", "length", Kind::Integer, false).computed(computed),
    ]
}

async fn a_computed_field_is_recomputed(db: Db) {
    static OLD: [FieldDesc; 3] = named(computed(
        "1111111111111111111111111111111111111111111111111111111111111111",
    ));
    static NEW: [FieldDesc; 3] = named(computed(
        "2222222222222222222222222222222222222222222222222222222222222222",
    ));
    static BEFORE: EntityDesc = EntityDesc::new("Name", "names", "names", &OLD);
    static AFTER: EntityDesc = EntityDesc::new("Name", "names", "names", &NEW);
    let first = Snapshot::of([&BEFORE]);
    let mut app = App::new(&[first.clone(), Snapshot::of([&AFTER])]);
    app.declared.entities = vec![&AFTER];
    db.apply(&App::new(&[first]), Phase::Contract)
        .await
        .expect("installed");
    db.execute(&[
        "INSERT INTO names (id, name, length) VALUES ('a', 'Ada', 0), ('b', 'Grace', 5), ('c', '', 9)",
    ])
    .await;
    // The step needs an approval, because a plan cannot show the values that it writes.
    assert!(db.digest(&app).await.is_some());
    db.apply(&app, Phase::Contract)
        .await
        .unwrap_or_else(|refusal| panic!("{refusal} {:?}", refusal.facts));
    let wrong = "SELECT count(*) FROM names WHERE length <> length(name)";
    assert_eq!(db.number(wrong).await, 0);
    let ledger = db.ledger().await.expect("a ledger");
    let steps = ledger.steps.values().filter(|step| step.seq == 2);
    let written: Vec<u64> = steps.map(|step| step.rows_done).collect();
    // The first step writes the two wrong values. The second step finds none.
    assert_eq!(written, [2, 0]);
}

static TOPIC: [FieldDesc; 3] = [
    ID,
    FieldDesc::new("tenant", "tenant", "tenant", Kind::String, false),
    FieldDesc::new("answers", "answers", "answers", Kind::Integer, false).literal(|| Value::Int(0)),
];
static ANSWER: [FieldDesc; 5] = [
    ID,
    FieldDesc::new("tenant", "tenant", "tenant", Kind::String, false),
    FieldDesc::new("topic", "topic", "topic_id", Kind::String, true),
    FieldDesc::new("good", "good", "good", Kind::Boolean, false),
    FieldDesc::new("deleted_at", "deletedAt", "deleted_at", Kind::Date, true),
];
static TOPICS: EntityDesc = EntityDesc {
    tenant: Some(Tenant {
        field: 1,
        optional: false,
        anonymous_read: false,
    }),
    ..EntityDesc::new("Topic", "topics", "topics", &TOPIC)
};

async fn a_counter_counts_only_matching_live_records_of_its_tenant(db: Db) {
    static BEFORE: EntityDesc = EntityDesc {
        soft_delete: Some(SoftDelete::At(4)),
        tenant: TOPICS.tenant,
        ..EntityDesc::new("Answer", "answers", "answers", &ANSWER)
    };
    static AFTER: EntityDesc = EntityDesc {
        summaries: &[Summary {
            target: || &TOPICS,
            field: "answers",
            by: 2,
            when: FilterSpec::Cond(
                3,
                Op::Eq,
                OperandSpec::One(SourceSpec::Literal(|| Value::Bool(true))),
            ),
            least: None,
        }],
        ..BEFORE
    };
    let first = Snapshot::of([&TOPICS, &BEFORE]);
    let mut app = App::new(&[first.clone(), Snapshot::of([&TOPICS, &AFTER])]);
    app.declared.entities = vec![&TOPICS, &AFTER];
    db.apply(&App::new(&[first]), Phase::Contract)
        .await
        .expect("installed");
    // More topics than one batch has. The number of good answers is the number of the topic modulo
    // 4.
    let mut topics = Vec::new();
    let mut answers = Vec::new();
    for topic in 0..120 {
        topics.push(format!("('t{topic:03}', 'one', 99)"));
        for answer in 0..(topic % 4) {
            answers.push(format!(
                "('a{topic:03}{answer}', 'one', 't{topic:03}', (1 = 1), NULL)"
            ));
        }
    }
    let deleted = if db.is_sqlite() { "1" } else { "now()" };
    answers.push("('bad', 'one', 't000', (1 = 0), NULL)".to_owned());
    answers.push("('other', 'two', 't000', (1 = 1), NULL)".to_owned());
    answers.push("('none', 'one', NULL, (1 = 1), NULL)".to_owned());
    answers.push("('lost', 'one', 'nothing', (1 = 1), NULL)".to_owned());
    answers.push(format!("('gone', 'one', 't000', (1 = 1), {deleted})"));
    db.execute(&[
        &format!(
            "INSERT INTO topics (id, tenant, answers) VALUES {}",
            topics.join(", ")
        ),
        &format!(
            "INSERT INTO answers (id, tenant, topic_id, good, deleted_at) VALUES {}",
            answers.join(", ")
        ),
    ])
    .await;
    db.apply(&app, Phase::Contract)
        .await
        .unwrap_or_else(|refusal| panic!("{refusal} {:?}", refusal.facts));
    let wrong = "SELECT count(*) FROM topics WHERE answers <> CAST(substr(id, 2) AS INTEGER) % 4";
    assert_eq!(db.number(wrong).await, 0);
}

async fn a_unique_index_compares_records_that_are_not_deleted(db: Db) {
    let fields = json!({
        "email": { "type": "string" },
        "state": { "type": "enum", "values": ["gone", "here"], "optional": true },
    });
    let mark = json!({ "field": "state", "value": "gone" });
    let first = snapshot(&[("people", fields.clone(), json!({ "softDelete": mark }))]);
    let mut unique = index("ux_people_email", &["email"]);
    unique["live"] = json!(true);
    let second = snapshot(&[(
        "people",
        fields,
        json!({ "softDelete": mark, "uniques": [unique] }),
    )]);
    let app = App::new(&[first.clone(), second]);
    db.apply(&App::new(&[first]), Phase::Contract)
        .await
        .expect("installed");
    db.execute(&[
        "INSERT INTO people (id, email, state) VALUES ('a', 'x', NULL), ('b', 'x', 'here'), \
         ('c', 'x', 'gone'), ('d', 'y', 'gone'), ('e', 'y', NULL)",
    ])
    .await;
    let refusal = db.apply(&app, Phase::Contract).await.expect_err("repeated");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("duplicates_found", Exit::Data)
    );
    let wanted = "unique (email): 1 value occurs more than once, in 2 records; keys: a, b";
    assert_eq!(refusal.message, wanted);
    db.execute(&["UPDATE people SET email = 'z' WHERE id = 'a'"])
        .await;
    db.apply(&app, Phase::Contract).await.expect("applied");
    db.assert_at_head(&app).await;
}
