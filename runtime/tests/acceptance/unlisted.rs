//! Included records without a `list` or `get` route of their own: the checks of that route still
//! apply.

#![allow(missing_docs, dead_code)] // a fixture

use axum::response::Response;
use linchpin::Code;
use linchpin::prelude::*;
use serde_json::json;

use crate::cases;
use crate::server::{Reply, Server};

/// Below a guard of the app.
#[entity(path = "inside/vaults", routes(auth = none, list(disabled), get(disabled)))]
#[derive(Clone, Debug)]
pub struct Vault {
    #[field(primary)]
    pub id: String,
}

/// With a middleware of its package, and a guard of the app on a neighbouring path.
#[entity(path = "chests", routes(auth = none, create(path = "inside/put"), list(disabled, path = "outside"), get(disabled)))]
#[derive(Clone, Debug)]
pub struct Chest {
    #[field(primary)]
    pub id: String,
}

/// Anybody's.
#[entity(
    path = "open",
    belongs_to(vault: Vault, key = vault_id),
    belongs_to(chest: Chest, key = chest_id),
    routes(auth = none)
)]
#[derive(Clone, Debug)]
pub struct Open {
    #[field(primary)]
    pub id: String,
    pub vault_id: Option<String>,
    pub chest_id: Option<String>,
}

#[operation(kind = "derive", source(Vault), merge = "union")]
pub const VAULTS: Operation<Open>;

#[operation(kind = "derive", source(Chest), merge = "union")]
pub const CHESTS: Operation<Open>;

/// Refuses calls from outside.
async fn office(call: RouteCall<'_>, next: Next<'_>) -> Result<Response> {
    match call.parts.headers.get("x-office") {
        Some(_) => next.await,
        None => Err(Error::new(Code::Other(403, "not_here"), "Not from here")),
    }
}

static OUTER: Package = package!(
    name = "outer",
    mount = "/o",
    entities = [entity(Open, [VAULTS, CHESTS]), entity(Vault, [])]
);
static INNER: Package = package!(
    name = "inner",
    mount = "/i",
    entities = [entity(Chest, [])],
    middleware = [office]
);

fn kept(app: App) -> App {
    let insider = || require_role(["insider"]);
    app.package(&INNER)
        .guard("/o/inside/{*rest}", insider())
        .guard("/i/chests/inside/put", insider())
}

cases!(&crate::unlisted::OUTER, crate::unlisted::kept => guards_of_the_app, middleware_of_the_package);

async fn ask(s: &Server, roles: Option<&[&str]>, office: bool, path: &str) -> Reply {
    let token = roles.map(|roles| s.token("someone", roles));
    let mut headers: Vec<_> = token
        .as_deref()
        .map(|token| ("authorization", token))
        .into_iter()
        .collect();
    headers.extend(office.then_some(("x-office", "yes")));
    s.raw("GET", path, &headers, "").await
}

async fn guards_of_the_app(s: &Server) {
    assert_eq!(s.post("/o/open", json!({ "id": "a" })).await.status, 201);
    for path in [
        "/o/open/vaults",
        "/o/open/a?include=vault",
        "/o/open?include=vault",
    ] {
        assert_eq!(
            ask(s, None, false, path).await.code(),
            (401, "unauthorized"),
            "{path}"
        );
        assert_eq!(
            ask(s, Some(&[]), false, path).await.code(),
            (403, "forbidden"),
            "{path}"
        );
        let reply = ask(s, Some(&["insider"]), false, path).await;
        assert_eq!(
            (reply.status, reply.header("cache-control").as_str()),
            (200, "no-store"),
            "{path}"
        );
    }
}

async fn middleware_of_the_package(s: &Server) {
    assert_eq!(s.post("/o/open", json!({ "id": "a" })).await.status, 201);
    for path in [
        "/o/open/chests",
        "/o/open/a?include=chest",
        "/o/open?include=chest",
    ] {
        assert_eq!(
            ask(s, Some(&["insider"]), false, path).await.code(),
            (403, "not_here"),
            "{path}"
        );
        // The guard before another of its routes is not before this one.
        assert_eq!(ask(s, None, true, path).await.status, 200, "{path}");
    }
}
