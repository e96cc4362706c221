//! Tests of sessions: transactions, errors, privileges, counts.

use linchpin_core::Value;
use linchpin_core::schema::{
    Action, ColumnKind, RowCount, SchemaFault, SchemaSession, SchemaStore, Table, Tables,
    TransactionMode,
};
use linchpin_core::store::{DatabaseUrl, Store, StoreProvider};

use super::{create, run, server, session, store, tasks};
use crate::{PostgresOptions, PostgresProvider, PostgresStore};

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_transaction_does_not_commit() {
    let store = store();
    let mut session = session(&store).await;
    session.begin(TransactionMode::Write).await.expect("begun");
    session
        .execute("CREATE TABLE a (n bigint UNIQUE)", &[])
        .await
        .expect("created");
    session
        .execute(
            "INSERT INTO a VALUES ($1)",
            &[(Value::Int(1), ColumnKind::Integer)],
        )
        .await
        .expect("inserted");
    let error = session
        .execute(
            "INSERT INTO a VALUES ($1)",
            &[(Value::Int(1), ColumnKind::Integer)],
        )
        .await
        .expect_err("a duplicate");
    assert_eq!(error.fault, SchemaFault::Violation);
    // The server puts the value only into the detail of its message.
    assert!(!error.message.contains("(1)"), "{error}");
    session.commit().await.expect_err("it has failed");
    assert_eq!(session.tables().await.expect("names"), Vec::<String>::new());

    session.begin(TransactionMode::Write).await.expect("begun");
    session
        .execute("CREATE TABLE a (n bigint)", &[])
        .await
        .expect("created");
    session.rollback().await;
    session.begin(TransactionMode::Write).await.expect("begun");
    session
        .execute("CREATE TABLE b (n bigint)", &[])
        .await
        .expect("created");
    session.commit().await.expect("committed");
    assert_eq!(session.tables().await.expect("names"), ["b"]);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_database_are_converted_to_schema_faults() {
    let store = store();
    let mut session = session(&store).await;
    run(
        &mut session,
        "CREATE TABLE a (n bigint); CREATE VIEW v AS SELECT n FROM a",
    )
    .await;
    session.begin(TransactionMode::Read).await.expect("begun");
    let error = session
        .execute("INSERT INTO a VALUES (1)", &[])
        .await
        .expect_err("read-only");
    assert_eq!(error.fault, SchemaFault::Forbidden);
    session.rollback().await;
    // An object with dependent objects is not removed, and the message names them.
    let action = Action::DropColumn {
        table: "a".to_owned(),
        column: "n".to_owned(),
    };
    let error = session
        .perform(&action, &Tables::new())
        .await
        .expect_err("a view needs it");
    assert_eq!(error.fault, SchemaFault::Violation);
    assert!(error.message.contains("view v depends on"), "{error}");
    // Messages contain no values of records.
    let error = session
        .execute(
            "SELECT $1::bigint",
            &[(Value::Text("secret".to_owned()), ColumnKind::String)],
        )
        .await
        .expect_err("no number");
    assert_eq!(error.fault, SchemaFault::Other);
    assert!(!error.message.contains("secret"), "{error}");
    store.close().await;

    let unreachable =
        PostgresStore::open(PostgresOptions::new("postgres://u:secret@127.0.0.1:1/d"))
            .expect("opened");
    let schema = linchpin_core::store::Store::schema(&unreachable).expect("a schema");
    assert_eq!(schema.database(), "d");
    let error = schema.connect().await.map(drop).expect_err("no server");
    assert_eq!(error.fault, SchemaFault::Unreachable);
    assert!(!error.message.contains("secret"), "{error}");
    unreachable.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_another_encoding_is_refused() {
    let base = server::fresh_url();
    server::execute(
        &base,
        "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
    )
    .expect("created");
    let (server, name) = base
        .rsplit_once("/postgres")
        .expect("a database in the URL");
    let settings = name.split_once('?').expect("a schema in the URL").1;
    let url = format!("{server}/latin?{settings}");
    let store = PostgresStore::open(PostgresOptions::new(url.clone())).expect("opened");
    let error = store.schema.connect().await.map(drop).expect_err("refused");
    assert_eq!(error.fault, SchemaFault::Unsupported);
    assert!(error.message.contains("LATIN1"), "{error}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_of_a_database_needs_no_open_store() {
    let provider = PostgresProvider::default();
    let url = DatabaseUrl::new(server::fresh_url());
    let schema = provider.schema(&url).expect("valid").expect("a schema");
    let mut session = schema.connect().await.expect("a session");
    assert_eq!(session.tables().await.expect("names"), Vec::<String>::new());
    let invalid = DatabaseUrl::new("postgres://u:hush@h:port/d");
    let error = provider.schema(&invalid).map(drop).expect_err("invalid");
    assert!(!format!("{error:?}").contains("hush"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_schema_is_refused() {
    let url = server::fresh_url().replace("linchpin_", "absent_");
    let store = PostgresStore::open(PostgresOptions::new(url)).expect("opened");
    let error = store.schema.connect().await.map(drop).expect_err("refused");
    assert_eq!(error.fault, SchemaFault::Unsupported);
    assert!(error.message.contains("search path"), "{error}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_only_reads_can_compare() {
    let url = server::fresh_url();
    let owner = PostgresStore::open(PostgresOptions::new(url.clone())).expect("opened");
    let mut tables = Tables::new();
    let mut own = session(&owner).await;
    create(&mut own, &tasks(), &mut tables).await;
    let schema = url.rsplit("%3D").next().expect("a schema");
    run(
        &mut own,
        &format!(
            "CREATE ROLE {schema}_reader LOGIN; GRANT USAGE ON SCHEMA {schema} TO {schema}_reader; \
             GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}_reader; \
             REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC; \
             ALTER ROLE {schema}_reader SET default_transaction_read_only = on"
        ),
    )
    .await;
    let reader = url.replace("//test@", &format!("//{schema}_reader@"));
    let store = PostgresStore::open(PostgresOptions::new(reader)).expect("opened");
    let mut session = session(&store).await;
    session.begin(TransactionMode::Read).await.expect("begun");
    let all: Vec<&Table> = tables.values().collect();
    assert_eq!(session.compare(&all).await.expect("compared"), []);
    assert_eq!(session.tables().await.expect("names"), ["tasks"]);
    assert_eq!(
        session.count("tasks").await.expect("counted"),
        RowCount::Exact(0)
    );
    let locator = session.locator().await.expect("facts");
    assert_eq!(locator.get("schema").map(String::as_str), Some(schema));
    assert!(locator.contains_key("databaseOid"), "{locator:?}");
    session.now().await.expect("the time");
    session.commit().await.expect("ended");
    session.begin(TransactionMode::Write).await.expect("begun");
    let error = session
        .execute("DELETE FROM tasks", &[])
        .await
        .expect_err("no right");
    assert_eq!(error.fault, SchemaFault::Forbidden);
    session.rollback().await;
    store.close().await;
    owner.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_rows_are_estimated() {
    let store = store();
    let mut session = session(&store).await;
    run(
        &mut session,
        "CREATE TABLE a WITH (autovacuum_enabled = off) AS SELECT n FROM generate_series(1, 100000) AS n",
    )
    .await;
    let count = |count| RowCount::Exact(count);
    assert_eq!(session.count("a").await.expect("counted"), count(100_000));
    run(&mut session, "INSERT INTO a VALUES (0)").await;
    assert_eq!(
        session.count("a").await.expect("counted"),
        RowCount::Unknown
    );
    run(&mut session, "ANALYZE a").await;
    assert_eq!(
        session.count("a").await.expect("counted"),
        RowCount::Estimate(100_001)
    );
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_each_kind_are_bound_and_read() {
    let store = store();
    let mut session = session(&store).await;
    let date = linchpin_core::Timestamp::from_millis(1_700_000_000_123);
    let values = [
        (Value::Text("it's".to_owned()), ColumnKind::String),
        (Value::Bool(true), ColumnKind::Boolean),
        (Value::Int(-5), ColumnKind::Integer),
        (Value::Float(0.5), ColumnKind::Number),
        (Value::Date(date), ColumnKind::Date),
        (
            Value::Strings(vec!["a".to_owned(), String::new()]),
            ColumnKind::StringArray,
        ),
        (Value::Json("{\"a\": 1}".to_owned()), ColumnKind::Json),
    ];
    let kinds: Vec<ColumnKind> = values.iter().map(|(_, kind)| kind.clone()).collect();
    let sql = "SELECT $1::text, $2::boolean, $3::bigint, $4::double precision, $5::timestamptz, $6::text[], $7::jsonb";
    let rows = SchemaSession::query(&mut session, sql, &values, &kinds)
        .await
        .expect("read");
    let expected: Vec<Value> = values.iter().map(|(value, _)| value.clone()).collect();
    assert_eq!(rows, [expected]);
    let nulls: Vec<_> = kinds
        .iter()
        .map(|kind| (Value::Null, kind.clone()))
        .collect();
    let rows = SchemaSession::query(&mut session, sql, &nulls, &kinds)
        .await
        .expect("read");
    assert!(rows[0].iter().all(Value::is_null), "{rows:?}");
    // The type of a sum is NUMERIC, not the type of its integers.
    for n in [0, 1, -1, 9_999, 10_000, -20_000_000, 9_007_199_254_740_991] {
        let sql = format!("SELECT sum(n) FROM (VALUES ({n}::bigint)) AS all_of_them(n)");
        let rows = SchemaSession::query(&mut session, &sql, &[], &[ColumnKind::Integer])
            .await
            .expect("read");
        assert_eq!(rows, [[Value::Int(n)]]);
    }
    for sql in ["SELECT 1.5", "SELECT 'NaN'::numeric", "SELECT 1e30"] {
        SchemaSession::query(&mut session, sql, &[], &[ColumnKind::Integer])
            .await
            .expect_err("no whole number");
    }
    store.close().await;
}
