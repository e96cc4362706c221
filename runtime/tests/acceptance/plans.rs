//! Query plans with row-level guards: the server logs the plan of each statement that a route runs.

use serde_json::Value as Json;

use crate::server::{Server, postgres_server as database};
use crate::tenancy::call;

/// The number of rows of each table; many rows have the same owner, tenant and parent.
const ROWS: usize = 20_000;

/// Options that load the logger of plans (`auto_explain`) in the connections of an app only.
const PLAN_LOGGING: &str =
    "%20-c%20session_preload_libraries%3Dauto_explain%20-c%20auto_explain.log_min_duration%3D0";

/// A server that logs plans, with a package and these rows.
async fn filled(
    package: &'static linchpin::prelude::Package,
    rows: &[&str],
) -> (database::Server, String, Server) {
    let engine = tokio::task::spawn_blocking(database::Server::start)
        .await
        .unwrap();
    let url = database::fresh_schema(&engine.url());
    let app = Server::at(package, format!("{url}{PLAN_LOGGING}")).await;
    for insert in rows {
        database::execute(
            &url,
            &format!("INSERT INTO {insert} FROM generate_series(1, {ROWS}) n; ANALYZE"),
        )
        .unwrap();
    }
    (engine, url, app)
}

/// Every statement of these reads uses an index, also after the server has switched to a generic
/// plan.
async fn reads(engine: &database::Server, app: &Server, token: &str, paths: &[&str]) {
    for path in paths {
        for _ in 0..7 {
            let before = engine.log().len();
            let reply = call(app, token, "GET", path, Json::Null).await;
            assert_eq!(reply.status, 200, "{path} {reply:?}");
            let found = reply.json();
            assert!(
                found["items"]
                    .as_array()
                    .is_none_or(|items| !items.is_empty())
                    && !found.is_null(),
                "{path} finds nothing: {found}"
            );
            let log = engine.log().split_off(before);
            assert!(log.contains("plan:"), "{path} left no plan: {log}");
            assert!(
                log.contains("Index") && !log.contains("Seq Scan"),
                "{path}: {log}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_owners_and_tenants_are_read_by_index() {
    // A hundred tasks per owner, each with ten subtasks of the same owner.
    let rows = [
        "tasks (id, whole_id, owner_id, slug, title, status, views, tags) \
         SELECT 'k' || n, 'k' || (n % 200 + n % 10 * 200), 'o' || n % 200, 's' || n, 't' || n % 500, 'draft', 0, '{}'",
        "accounts (id, parent_id, tenant_id, slug, title, status, views, tags, lines, created_at, version) \
         SELECT 'k' || n, 'k' || (n % 200 + n % 10 * 200), 'a' || n % 200, 's' || n, 't' || n % 500, 'draft', 0, '{}', '[]', \
         now() - n * interval '1 s', 1",
    ];
    let (engine, url, app) = filled(&crate::visibility_fixture::SEEN, &rows).await;
    reads(
        &engine,
        &app,
        &app.token("o7", &[]),
        &[
            "/tasks",
            "/tasks/k207",
            "/tasks?title=t7",
            "/tasks?include=whole",
            "/tasks?include=parts",
            "/tasks/k207?include=whole,parts",
            "/tasks/mine",
            "/tasks/task-by-slug/s207",
            "/tasks/task-taken/s207",
        ],
    )
    .await;
    let tenant = app.token_in("u", "a7");
    reads(
        &engine,
        &app,
        &tenant,
        &[
            "/accounts",
            "/accounts/k207",
            "/accounts?title=t7",
            "/accounts?sort=title",
            "/accounts?include=parent,branches",
            "/accounts/account-by-slug/s207",
            "/accounts/accounts-by-title/t7",
            "/accounts/account-taken/s207",
        ],
    )
    .await;
    // A statement without an index is detected; otherwise this test could not fail.
    let before = engine.log().len();
    database::execute(
        &format!("{url}{PLAN_LOGGING}"),
        "SELECT 1 FROM tasks WHERE views = 7",
    )
    .unwrap();
    assert!(engine.log().split_off(before).contains("Seq Scan on tasks"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_behind_gates_are_read_by_index() {
    let rows = [
        "parents (id, open, closed, owner_id) SELECT 'p' || n, n % 2 = 0, false, 'o' || n % 200",
        "children (id, parent_id, slug, title, status, views, tags, members, version) \
         SELECT 'k' || n, 'p' || n % 2000, 's' || n, 't' || n % 500, 'draft', 0, '{}', '[]', 1",
        "remarks (id, child_id) SELECT 'r' || n, 'k' || n",
    ];
    let (engine, _, app) = filled(&crate::gated_fixture::SEEN, &rows).await;
    let paths = [
        "/children",
        "/children/k8",
        "/children?parentId=p8",
        "/children?include=parent,remarks",
        "/children/by-slug?slug=s8",
        "/children/by-title?title=t8",
        "/children/slug-taken?slug=s8",
        "/children/feed?title=t8",
        "/remarks",
        "/remarks/r8",
        "/parents?include=children",
    ];
    for token in ["", &app.token("o8", &[])] {
        reads(&engine, &app, token, &paths).await;
    }
}
