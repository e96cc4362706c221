//! Included records of entities whose `list` or `get` route is disabled: the checks of that route
//! still apply.

#![allow(missing_docs, dead_code)] // a fixture

use axum::response::Response;
use linchpin::Code;
use linchpin::prelude::*;
use serde_json::json;

use crate::cases;
use crate::server::{Reply, Server};

/// An entity whose path has a guard of the app.
#[entity(path = "inside/vaults", routes(auth = none, list(disabled), get(disabled)))]
#[derive(Clone, Debug)]
pub struct Vault {
    #[field(primary)]
    pub id: String,
}

/// An entity whose package has a middleware. The app guards the path of its `create` route, but not
/// the path of its `list` route.
#[entity(path = "chests", routes(auth = none, create(path = "inside/put"), list(disabled, path = "outside"), get(disabled)))]
#[derive(Clone, Debug)]
pub struct Chest {
    #[field(primary)]
    pub id: String,
}

/// A record that every caller sees.
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

/// A middleware that refuses calls without the header `x-office`.
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

fn with_guards(app: App) -> App {
    let insider = || require_role(["insider"]);
    app.package(&INNER)
        .guard("/o/inside/{*rest}", insider())
        .guard("/i/chests/inside/put", insider())
}

cases!(&crate::unlisted::OUTER, crate::unlisted::with_guards =>
    guards_of_the_app_protect_included_records, middleware_of_the_package_runs_for_included_records,
);

async fn get_as(s: &Server, roles: Option<&[&str]>, office: bool, path: &str) -> Reply {
    let token = roles.map(|roles| s.token("someone", roles));
    let mut headers: Vec<_> = token
        .as_deref()
        .map(|token| ("authorization", token))
        .into_iter()
        .collect();
    headers.extend(office.then_some(("x-office", "yes")));
    s.raw("GET", path, &headers, "").await
}

async fn guards_of_the_app_protect_included_records(s: &Server) {
    assert_eq!(s.post("/o/open", json!({ "id": "a" })).await.status, 201);
    for path in [
        "/o/open/vaults",
        "/o/open/a?include=vault",
        "/o/open?include=vault",
    ] {
        assert_eq!(
            get_as(s, None, false, path).await.code(),
            (401, "unauthorized"),
            "{path}"
        );
        assert_eq!(
            get_as(s, Some(&[]), false, path).await.code(),
            (403, "forbidden"),
            "{path}"
        );
        let reply = get_as(s, Some(&["insider"]), false, path).await;
        assert_eq!(
            (reply.status, reply.header("cache-control").as_str()),
            (200, "no-store"),
            "{path}"
        );
    }
}

async fn middleware_of_the_package_runs_for_included_records(s: &Server) {
    assert_eq!(s.post("/o/open", json!({ "id": "a" })).await.status, 201);
    for path in [
        "/o/open/chests",
        "/o/open/a?include=chest",
        "/o/open?include=chest",
    ] {
        assert_eq!(
            get_as(s, Some(&["insider"]), false, path).await.code(),
            (403, "not_here"),
            "{path}"
        );
        // A guard of another route of this entity does not apply here.
        assert_eq!(get_as(s, None, true, path).await.status, 200, "{path}");
    }
}
