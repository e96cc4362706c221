//! Tests of migrations of a Postgres database: from an empty one, through each kind of change.
#![allow(clippy::expect_used)] // in a test, a panic reports the failure

use std::time::Duration;

use linchpin_core::Value;
use linchpin_core::entity::TransformDesc;
use linchpin_core::schema::ColumnKind;
use linchpin_migrate::{Exit, Options, Phase, Refusal, apply};

use crate::support::{App, Db, people, to_text};

#[path = "engine/support.rs"]
#[allow(dead_code)] // each program uses its part of it
mod support;

#[path = "../../runtime/tests/support/postgres.rs"]
mod server;

static TO_TEXT: TransformDesc = people::to_text(to_text);

/// The app with this number of migrations.
fn app(migrations: usize) -> App {
    let links = people::links(&TO_TEXT).into_iter().take(migrations);
    App::of_links(links, &[&TO_TEXT])
}

/// Applies a chain up to a phase, with an approval.
async fn run(db: &Db, app: &App, phase: Phase) -> Result<(), Refusal> {
    let options = Options {
        phase: Some(phase).filter(|phase| *phase != Phase::Contract),
        approve: db.digest(app).await,
        lock_timeout: Duration::from_millis(500),
        index_wait: Duration::from_millis(800),
        ..Options::default()
    };
    apply(&*db.store, app.chain_and_declared(), &options, &mut |_| ())
        .await
        .map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_change_is_applied() {
    let db = Db::postgres();
    let (one, two) = (app(1), app(2));
    run(&db, &one, Phase::Contract).await.expect("installed");
    db.assert_at_head(&one).await;
    let mut session = db.session().await;
    // The SQL function of the framework exists.
    let folded = session
        .query("SELECT linchpin_fold('ÀB')", &[], &[ColumnKind::String])
        .await
        .expect("folded");
    assert_eq!(folded, [[Value::Text("àb".to_owned())]]);
    session
        .execute(
            "INSERT INTO users (id, name, email, status, gone) SELECT n::text, 'name ' || n, \
         CASE WHEN n % 2 = 0 THEN 'e' || n END, 'active', 'x' FROM generate_series(1, 2500) AS n",
            &[],
        )
        .await
        .expect("inserted");

    for phase in [Phase::Expand, Phase::Backfill, Phase::Contract] {
        run(&db, &two, phase)
            .await
            .unwrap_or_else(|refusal| panic!("{}: {refusal}", phase.name()));
    }
    db.assert_at_head(&two).await;
    let sql = "SELECT count(*), count(*) FILTER (WHERE title = 'name ' || id), \
         count(*) FILTER (WHERE email = 'none'), count(DISTINCT token), \
         count(*) FILTER (WHERE rank = 'b' AND level IS NULL AND tags = '{}' AND visits = 0) \
         FROM users";
    let counts = session
        .query(sql, &[], &vec![ColumnKind::Integer; 5])
        .await
        .expect("counted");
    let expected = [2500, 2500, 1250, 2500, 2500].map(Value::Int);
    assert_eq!(counts, [expected]);
    // A second run has no step.
    run(&db, &two, Phase::Contract).await.expect("done");

    let three = app(3);
    session
        .execute("UPDATE users SET status = 'blocked' WHERE id = '7'", &[])
        .await
        .expect("updated");
    let refusal = run(&db, &three, Phase::Contract)
        .await
        .expect_err("a value that is not declared any more");
    assert_eq!((refusal.exit, refusal.code), (Exit::Data, "values_found"));
    session
        .execute("UPDATE users SET status = 'left' WHERE id = '7'", &[])
        .await
        .expect("updated");
    run(&db, &three, Phase::Contract)
        .await
        .unwrap_or_else(|refusal| panic!("{refusal} {:?}", refusal.facts));
    db.assert_at_head(&three).await;
    let sql = "SELECT count(*) FROM people WHERE visits = '0 visits' AND title = 'name ' || id";
    let counts = session
        .query(sql, &[], &[ColumnKind::Integer])
        .await
        .expect("counted");
    assert_eq!(counts, [[Value::Int(2500)]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_for_an_older_transaction_and_is_then_refused() {
    let db = Db::postgres();
    let (one, two) = (app(1), app(2));
    run(&db, &one, Phase::Contract).await.expect("installed");
    // With an older transaction, the concurrent build of an index ends after its time limit, and is
    // not retried.
    let mut other = db.session().await;
    other
        .begin(linchpin_core::schema::TransactionMode::Read)
        .await
        .expect("begun");
    other
        .query("SELECT count(*) FROM pg_class", &[], &[ColumnKind::Integer])
        .await
        .expect("read");
    let begun = std::time::Instant::now();
    let refusal = run(&db, &two, Phase::Expand).await.expect_err("it waits");
    assert_eq!(refusal.exit, Exit::Busy, "{refusal}");
    assert!(refusal.to_string().contains("session "), "{refusal}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    other.rollback().await;
    run(&db, &two, Phase::Contract).await.expect("applied");
    db.assert_at_head(&two).await;
}
