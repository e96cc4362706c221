//! Tests of the board over HTTP: on SQLite, on PostgreSQL with the feature, and of the README.

use std::io::{BufRead, Read};

use example_support::client::Client;
use example_support::markdown::{blocks, read};
use example_support::seeded::Seeded;
use example_support::session::{golden, printed};
use serde_json::{Value as Json, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tasks");

fn start(variables: &[(&str, &str)]) -> Seeded {
    Seeded::start(PROGRAM, "2 accounts, 5 tasks", variables)
}

#[test]
fn the_board_works_on_sqlite() {
    check_board(&start(&[]));
}

#[cfg(feature = "postgres")]
#[test]
fn the_board_works_on_postgres() {
    check_board(&start(&[(
        "LINCHPIN_DATABASE_URL",
        &example_support::postgres::fresh_url(),
    )]));
}

/// Checks the behaviour on a store.
fn check_board(app: &Seeded) {
    let (alice, bob, admin) = (
        app.user("alice", &[]),
        app.user("bob", &[]),
        app.user("root", &["admin"]),
    );

    // Scope: each caller has a separate board. That of the administrator is empty.
    assert_eq!(
        alice.ask("GET", "/tasks/summary", "").body,
        json!({"tasks": 3, "states": {"doing": 1, "open": 2}})
    );
    assert_eq!(admin.ask("GET", "/tasks", "").body["items"], json!([]));
    let overdue = admin.ask("GET", "/tasks/overdue?before=2026-04-02T00:00:00Z", "");
    assert_eq!(
        overdue.body["items"].as_array().map(Vec::len),
        Some(3),
        "{overdue:?}"
    );
    let overdue_of_bob = admin.ask(
        "GET",
        &format!(
            "/tasks/overdue?before=2026-04-02T00:00:00Z&ownerId={}",
            bob.id()
        ),
        "",
    );
    assert_eq!(overdue_of_bob.body["items"][0]["title"], "Fix the bicycle");
    assert_eq!(
        bob.ask("GET", "/tasks/overdue?before=2026-04-02T00:00:00Z", "")
            .status,
        403
    );

    let created = alice.send("POST", "/tasks", json!({"title": "Paint the fence"}));
    assert_eq!(
        (
            created.status,
            &created.body["ownerId"],
            &created.body["version"]
        ),
        (201, &json!(alice.id()), &json!(1))
    );
    let task = format!("/tasks/{}", created.body["id"].as_str().expect("an id"));
    assert_eq!(bob.ask("GET", &task, "").status, 404);
    assert_eq!(bob.ask("POST", &format!("{task}/start"), "").status, 404);

    // States: a task must be started before it can be blocked; clients cannot write the state.
    let refused = alice.ask("POST", &format!("{task}/block"), "");
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (400, &json!("invalid_transition"))
    );
    let written = alice.call_with_version("PATCH", &task, 1, json!({"state": "done"}));
    assert_eq!(
        (written.status, &written.body["details"][0]["code"]),
        (400, &json!("read_only"))
    );
    for (step, state) in [("start", "doing"), ("block", "blocked"), ("start", "doing")] {
        assert_eq!(
            alice.ask("POST", &format!("{task}/{step}"), "").body["state"],
            state
        );
    }

    // Versions, further changes.
    assert_eq!(
        alice.send("PATCH", &task, json!({"title": "x"})).status,
        428
    );
    assert_eq!(
        alice
            .call_with_version("PATCH", &task, 1, json!({"title": "x"}))
            .status,
        412
    );
    assert_eq!(
        alice
            .call_with_version("PATCH", &task, 4, json!({"title": "Paint it"}))
            .body["version"],
        5
    );
    assert_eq!(
        alice
            .send("POST", &format!("{task}/tag"), json!({"tag": "garden"}))
            .body["tags"],
        json!(["garden"])
    );
    let due = json!({"dueAt": "2026-05-01T00:00:00.000Z"});
    assert_eq!(
        alice
            .send("PATCH", &format!("{task}/reschedule"), due.clone())
            .body["dueAt"],
        due["dueAt"]
    );
    assert_eq!(
        alice
            .send(
                "PATCH",
                &format!("{task}/reschedule"),
                json!({"dueAt": null})
            )
            .body["dueAt"],
        Json::Null
    );

    // Cleaning up: removes the finished tasks of all boards.
    assert!(alice.ask("POST", &format!("{task}/finish"), "").body["doneAt"].is_string());
    let before = json!({"before": "2100-01-01T00:00:00Z"});
    assert_eq!(
        bob.send("POST", "/tasks/clean-up", before.clone()).status,
        403
    );
    assert_eq!(
        admin
            .send(
                "POST",
                "/tasks/clean-up",
                json!({"before": "2026-01-01T00:00:00Z"})
            )
            .body,
        0
    );
    assert_eq!(
        admin.send("POST", "/tasks/clean-up", before.clone()).body,
        1
    );
    assert_eq!(admin.send("POST", "/tasks/clean-up", before).body, 0);
    assert_eq!(alice.ask("GET", &task, "").status, 404);
    let page = alice.ask("GET", "/tasks/in-state?state=open", "");
    assert_eq!(page.body["items"].as_array().map(Vec::len), Some(2));
}

/// The names of the next events of a stream, each with the title and the state of its task.
fn read_changes(lines: &mut impl Iterator<Item = String>, count: usize) -> Vec<[String; 3]> {
    let mut changes = Vec::new();
    let mut name = String::new();
    while changes.len() < count {
        let line = lines.next().expect("the stream has another event");
        if let Some(event) = line.strip_prefix("event: ") {
            event.clone_into(&mut name);
        } else if let Some(data) = line.strip_prefix("data: ") {
            let task: Json = serde_json::from_str(data).expect("JSON");
            let text = |member: &str| {
                let value = task[member].as_str();
                value.unwrap_or_else(|| panic!("{name}: {task}")).to_owned()
            };
            changes.push([name.clone(), text("title"), text("state")]);
        }
    }
    changes
}

#[test]
fn the_live_page_receives_the_changes_of_its_user() {
    let app = start(&[]);
    let (alice, bob) = (app.user("alice", &[]), app.user("bob", &[]));
    let mut page = String::new();
    Client::anonymous(&app.server)
        .open("/tasks/live")
        .read_to_string(&mut page)
        .expect("a page");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("content-type: text/html"));
    assert!(page.contains("fetch(\"/__sse/tasks\""), "{page}");

    let refused = Client::anonymous(&app.server).ask("GET", "/__sse/tasks", "");
    assert_eq!(refused.status, 401);
    let lines = alice.open("/__sse/tasks").lines();
    let mut lines = lines.map(|line| line.expect("a line"));
    assert!(lines.any(|line| line == ": connected"));
    assert_eq!(
        bob.send("POST", "/tasks", json!({"title": "Bob's"})).status,
        201
    );
    let created = alice.send("POST", "/tasks", json!({"title": "Paint the fence"}));
    let task = format!("/tasks/{}", created.body["id"].as_str().expect("an id"));
    assert_eq!(alice.ask("POST", &format!("{task}/start"), "").status, 200);
    let version = "if-match: \"2\"\r\n";
    assert_eq!(alice.ask("DELETE", &task, version).status, 204);
    let expected = [
        ["board.tasks.created", "Paint the fence", "open"],
        ["board.tasks.start", "Paint the fence", "doing"],
        ["board.tasks.deleted", "Paint the fence", "doing"],
    ];
    assert_eq!(read_changes(&mut lines, 3), expected);
}

#[test]
fn the_readme_matches_the_program() {
    start(&[]).check_readme("tasks");
}

#[cfg(feature = "postgres")]
#[test]
fn the_readme_matches_the_program_on_postgres() {
    start(&[(
        "LINCHPIN_DATABASE_URL",
        &example_support::postgres::fresh_url(),
    )])
    .check_readme("tasks");
}

#[test]
fn the_readme_shows_the_graph() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = printed(PROGRAM, folder.path(), &["graph"], &[]);
    let readme = blocks(&read("examples/tasks/README.md"));
    let shown: Vec<_> = readme
        .iter()
        .filter(|b| b.kind == "mermaid")
        .map(|b| b.text.as_str())
        .collect();
    assert_eq!(shown, [graph]);
}

#[test]
fn reports_need_no_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    // A database server that does not exist, in production mode and without a secret.
    let unreachable_database = [
        ("LINCHPIN_ENVIRONMENT", "production"),
        ("LINCHPIN_DATABASE_URL", "sqlite:/nowhere/at/all.db"),
    ];
    let routes: Json = serde_json::from_str(&printed(
        PROGRAM,
        folder.path(),
        &["routes", "--json"],
        &unreachable_database,
    ))
    .expect("JSON");
    let clean_up = routes
        .as_array()
        .expect("rows")
        .iter()
        .find(|row| row["route"] == "clean_up")
        .expect("the route");
    assert_eq!(
        clean_up["unscoped"],
        "administrators delete finished tasks of all users"
    );
    assert_eq!(
        (
            &clean_up["roles"],
            &clean_up["scope"],
            &clean_up["statements"]
        ),
        (&json!(["admin"]), &json!([]), &json!(1))
    );
    assert_eq!(clean_up["events"], json!(["board.tasks.clean-up"]));
    assert!(
        printed(PROGRAM, folder.path(), &["openapi"], &unreachable_database)
            .contains("/tasks/{id}/start")
    );
    assert_eq!(
        std::fs::read_dir(folder.path())
            .expect("the folder")
            .count(),
        0,
        "nothing is written"
    );
}

#[test]
fn the_golden_openapi_document_is_up_to_date() {
    golden(PROGRAM, "tasks");
}
