//! The lease of a serving app.

use std::time::Duration;

use linchpin::prelude::*;
use linchpin::testing::Client;
use rusqlite::Connection;

use crate::declared;

#[tokio::test]
async fn an_app_that_its_database_does_not_accept_any_more_answers_503_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let config = Config::new()
        .database(format!("sqlite:{}", file.display()))
        .signing_secret("only a test: 32 bytes or more of it")
        .port(0);
    let app = App::new(config).package(declared::generation("served"));
    let app = app.start().await.unwrap();
    let client = Client::new(&app);
    assert_eq!(client.get("/tasks").await.unwrap().status(), 200);

    // The same update as in a migration that this binary does not know.
    let moved = "UPDATE linchpin_schema SET min_seq = 5, max_seq = 6, epoch = epoch + 1";
    let database = Connection::open(&file).unwrap();
    database.execute(moved, []).unwrap();
    drop(database);
    assert_eq!(client.get("/tasks").await.unwrap().status(), 200);
    // From here on the clock is paused: it jumps to the next timer.
    tokio::time::pause();
    let mut refused = client.get("/tasks").await.unwrap();
    for _ in 0..60 {
        if refused.status() != 200 {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        refused = client.get("/tasks").await.unwrap();
    }
    tokio::time::resume();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.json().unwrap()["code"], "unavailable");
    assert_eq!(client.get("/health/ready").await.unwrap().status(), 503);
    assert_eq!(client.get("/health/live").await.unwrap().status(), 200);

    let error = app.until_signal().await.unwrap_err();
    let text = "the database accepts binaries of schema 5 .. 6 now; this binary has schema 0";
    assert_eq!(error.message(), text);
}
