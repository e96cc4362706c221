//! Migrations of a Postgres database, from an empty one through each kind of change.
#![allow(clippy::expect_used)] // in a test, stopping is the report

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

/// Applies a chain up to a phase, approved.
async fn run(db: &Db, app: &App, phase: Phase) -> Result<(), Refusal> {
    let options = Options {
        phase: Some(phase).filter(|phase| *phase != Phase::Contract),
        approve: db.digest(app).await,
        lock_timeout: Duration::from_millis(500),
        index_wait: Duration::from_millis(800),
        ..Options::default()
    };
    apply(&*db.store, app.of(), &options, &mut |_| ())
        .await
        .map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_change_is_applied() {
    let db = Db::postgres();
    let (one, two) = (app(1), app(2));
    run(&db, &one, Phase::Contract).await.expect("installed");
    db.is_at_head(&one).await;
    let mut own = db.session().await;
    // The function of the framework is there.
    let folded = own
        .query("SELECT linchpin_fold('ÀB')", &[], &[ColumnKind::String])
        .await
        .expect("folded");
    assert_eq!(folded, [[Value::Text("àb".to_owned())]]);
    own.execute(
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
    db.is_at_head(&two).await;
    let sql = "SELECT count(*), count(*) FILTER (WHERE title = 'name ' || id), \
         count(*) FILTER (WHERE email = 'none'), count(DISTINCT token), \
         count(*) FILTER (WHERE rank = 'b' AND level IS NULL AND tags = '{}' AND visits = 0) \
         FROM users";
    let counts = own
        .query(sql, &[], &vec![ColumnKind::Integer; 5])
        .await
        .expect("counted");
    let expected = [2500, 2500, 1250, 2500, 2500].map(Value::Int);
    assert_eq!(counts, [expected]);
    // Again: nothing is left to do.
    run(&db, &two, Phase::Contract).await.expect("done");

    let three = app(3);
    own.execute("UPDATE users SET status = 'blocked' WHERE id = '7'", &[])
        .await
        .expect("updated");
    let refusal = run(&db, &three, Phase::Contract)
        .await
        .expect_err("a value that is not declared any more");
    assert_eq!((refusal.exit, refusal.code), (Exit::Data, "values_found"));
    own.execute("UPDATE users SET status = 'left' WHERE id = '7'", &[])
        .await
        .expect("updated");
    run(&db, &three, Phase::Contract)
        .await
        .unwrap_or_else(|refusal| panic!("{refusal} {:?}", refusal.facts));
    db.is_at_head(&three).await;
    let sql = "SELECT count(*) FROM people WHERE visits = '0 visits' AND title = 'name ' || id";
    let counts = own
        .query(sql, &[], &[ColumnKind::Integer])
        .await
        .expect("counted");
    assert_eq!(counts, [[Value::Int(2500)]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_another_session_is_waited_for_and_then_refused() {
    let db = Db::postgres();
    let (one, two) = (app(1), app(2));
    run(&db, &one, Phase::Contract).await.expect("installed");
    // An older transaction: the concurrent build of an index ends after its limit, and is not tried
    // again at once.
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
    db.is_at_head(&two).await;
}
