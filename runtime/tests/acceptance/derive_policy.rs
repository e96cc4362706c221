//! A `derive` applies the list policy of each of its sources, even if its own policy is weaker.

#![allow(missing_docs, dead_code)] // test entities; HTTP calls their operations

use axum::http::HeaderValue;
use axum::response::Response;
use linchpin::http::{NamedCheck, OverrideCall};
use linchpin::prelude::*;
use linchpin::resource::Outcome;
use linchpin::store::Rows;
use linchpin::{AccessRequest, BoxFuture, Code, Decision, Evaluator, Plugin, PostCx};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};

macro_rules! sources {
    ($($(#[$attr:meta])* $name:ident $path:tt ($($policy:tt)*)),* $(,)?) => {$(
        $(#[$attr])*
        #[entity(path = $path, routes(auth = none, $($policy)*))]
        #[derive(Clone, Debug)]
        pub struct $name {
            #[field(primary)]
            pub id: String,
            #[field(default = "t")]
            pub title: String,
            pub owner_id: Option<String>,
            pub next_id: Option<String>,
        }
    )*};
}
sources! {
    /// For anonymous callers.
    Open "open" (),
    /// For callers with a second factor.
    Proved "proved" (list(auth = "userAuth", guards(require_mfa))),
    /// For services.
    Served "served" (list(auth = "bearer")),
    /// For members.
    Membered "membered" (list(auth = "userAuth", roles = ["member"])),
    /// For callers that a middleware admits.
    Watched "watched" (list(middleware = [watched])),
    /// Its list may be called twice a minute.
    Counted "counted" (list(rate_limit = "2/min")),
    /// Its path has a guard of the app.
    Below "inside" (),
    /// For readers, or for owners.
    Owned "owned" (list(auth = "userAuth", permission(requires = "read", owner_field = owner_id))),
    /// Its list does not return the title.
    Narrow "narrow" (list(output(id))),
}

/// A record of a tenant.
#[entity(tenant(tenant_id))]
#[derive(Clone, Debug)]
pub struct Held {
    #[field(primary)]
    pub id: String,
    pub tenant_id: String,
    #[field(default = "t")]
    pub title: String,
}

macro_rules! derived {
    ($($name:ident $source:ident),* $(,)?) => {$(
        #[operation(kind = "derive", source(Open, select = title), source($source, select = title), merge = "first")]
        pub const $name: Operation<Open>;
    )*};
}
derived!(
    PROVEN Proved, SERVICE Served, MEMBERS Membered, WATCH Watched, COUNT Counted, INSIDE Below, HOLD Held, REPLACED Proved,
);

#[operation(kind = "derive", source(Open, traverse(Proved, on = next_id)), merge = "union")]
pub const BEHIND: Operation<Open>;

#[operation(kind = "derive", source(Counted), source(Counted, where = (title == "t")), merge = "union")]
pub const TWICE: Operation<Open>;

#[operation(kind = "derive", source(Owned), merge = "union")]
pub const OWN: Operation<Open>;

#[operation(kind = "derive", source(Narrow), merge = "union")]
pub const SHORT: Operation<Open>;

#[operation(kind = "derive", source(Open), merge = "union")]
pub const PLAIN: Operation<Open>;

/// Refuses the call or sends its own response if the header `x-wish` requests this.
async fn watched(call: RouteCall<'_>, next: Next<'_>) -> Result<Response> {
    assert_eq!(
        (call.name, call.path),
        ("list", "/d/watched"),
        "the middleware gets the name of the list for every route that reads it"
    );
    match call
        .parts
        .headers
        .get("x-wish")
        .and_then(|v| v.to_str().ok())
    {
        Some("refuse") => Err(Error::new(Code::Other(403, "not_today"), "Not today")),
        Some("answer") => Ok(Response::new("answered".into())),
        _ => next.await,
    }
}

/// A middleware of the package. It adds one header for each run.
async fn stamped(_: RouteCall<'_>, next: Next<'_>) -> Result<Response> {
    let mut response = next.await?;
    response
        .headers_mut()
        .append("x-stamp", HeaderValue::from_static("package"));
    Ok(response)
}

static HOUSE: Package = package!(
    name = "house",
    mount = "/d",
    entities = [
        entity(
            Open,
            [
                PROVEN, SERVICE, MEMBERS, WATCH, COUNT, INSIDE, HOLD, REPLACED, BEHIND, TWICE, OWN,
                SHORT, PLAIN
            ]
        ),
        entity(Proved, []),
        entity(Served, []),
        entity(Membered, []),
        entity(Watched, []),
        entity(Counted, []),
        entity(Below, []),
        entity(Owned, []),
        entity(Narrow, []),
        entity(Held, []),
    ],
    middleware = [stamped],
);

/// Registers the names in policies, by the roles of the actor.
struct Keeper;

impl Plugin for Keeper {
    fn name(&self) -> &'static str {
        "keeper"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let refuse =
                |code: &'static str| Error::new(Code::Other(403, code), "You lack something");
            let registrar = cx.registrar();
            registrar.named(
                "require_mfa",
                NamedCheck::guard(move |call| {
                    if call.actor.has_any_role(&["mfa"]) {
                        Ok(())
                    } else {
                        Err(refuse("mfa_required"))
                    }
                }),
            )?;
            registrar.named(
                "bearer",
                NamedCheck::actor(move |actor| {
                    if actor.has_any_role(&["service"]) {
                        Ok(())
                    } else {
                        Err(refuse("not_a_service"))
                    }
                }),
            )?;
            registrar.set_evaluator(Readers)
        })
    }
}

/// Actors with the role `reader` may read.
struct Readers;

impl Evaluator for Readers {
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        let reads = request.actor.roles.iter().any(|role| role == "reader");
        Box::pin(async move {
            Ok(if reads {
                Decision::Allow
            } else {
                Decision::Abstain
            })
        })
    }
}

/// Overrides a derive and reads none of its sources.
async fn replaced(_: OverrideCall) -> Result<Outcome> {
    let mut rows = Rows::count();
    rows.json = b"\"replaced\"".to_vec();
    Ok(Outcome::List(rows))
}

fn with_policies(app: App) -> App {
    app.plugin(Keeper)
        .guard("/d/inside/{*rest}", require_role(["insider"]))
        .override_operation(REPLACED, replaced)
}

cases!(&crate::derive_policy::HOUSE, crate::derive_policy::with_policies =>
    a_derive_checks_the_policies_of_its_lists, a_derive_counts_for_the_limits_of_its_lists,
    a_derive_runs_the_middleware_of_its_lists, owners_see_their_own_records,
    a_derive_checks_tenants_first, a_derive_returns_what_its_lists_return,
    calls_from_code_check_identity_roles_and_permissions, the_document_lists_refusals_of_derives,
);

async fn get_as(s: &Server, roles: Option<&[&str]>, path: &str) -> Reply {
    let token = roles.map(|roles| s.token("someone", roles));
    let headers: Vec<_> = token
        .as_deref()
        .map(|token| ("authorization", token))
        .into_iter()
        .collect();
    s.raw("GET", path, &headers, "").await
}

async fn seed(s: &Server) {
    for (path, body) in [
        (
            "/d/open",
            json!({"id": "o", "title": "open", "nextId": "p"}),
        ),
        ("/d/proved", json!({"id": "p", "title": "proved"})),
        ("/d/counted", json!({"id": "c"})),
        ("/d/owned", json!({"id": "a", "ownerId": "someone"})),
        ("/d/owned", json!({"id": "b", "ownerId": "else"})),
        ("/d/narrow", json!({"id": "n"})),
    ] {
        assert_eq!(s.post(path, body).await.status, 201, "{path}");
    }
}

async fn a_derive_checks_the_policies_of_its_lists(s: &Server) {
    seed(s).await;
    for (path, list, anonymous, without_role, role) in [
        (
            "proven",
            "proved",
            (401, "unauthorized"),
            (403, "mfa_required"),
            "mfa",
        ),
        (
            "service",
            "served",
            (403, "not_a_service"),
            (403, "not_a_service"),
            "service",
        ),
        (
            "members",
            "membered",
            (401, "unauthorized"),
            (403, "forbidden"),
            "member",
        ),
        (
            "inside",
            "inside",
            (401, "unauthorized"),
            (403, "forbidden"),
            "insider",
        ),
        (
            "replaced",
            "proved",
            (401, "unauthorized"),
            (403, "mfa_required"),
            "mfa",
        ),
    ] {
        for path in [format!("/d/open/{path}"), format!("/d/{list}")] {
            // The first source has records, so the second is not read. Its policy applies anyway.
            assert_eq!(get_as(s, None, &path).await.code(), anonymous, "{path}");
            assert_eq!(
                get_as(s, Some(&[]), &path).await.code(),
                without_role,
                "{path}"
            );
            let reply = get_as(s, Some(&[role]), &path).await;
            assert_eq!(
                (reply.status, reply.header("cache-control").as_str()),
                (200, "no-store"),
                "{path}"
            );
        }
        // The policy is checked first: the response to a caller without access reports no other
        // problem.
        assert_eq!(
            get_as(s, Some(&[]), &format!("/d/open/{path}?nonsense=1"))
                .await
                .code(),
            without_role,
            "{path}"
        );
        assert_eq!(
            get_as(s, Some(&[role]), &format!("/d/open/{path}?nonsense=1"))
                .await
                .code(),
            (400, "unknown_parameter"),
            "{path}"
        );
    }
    assert_eq!(
        get_as(s, Some(&["mfa"]), "/d/open/proven").await.json(),
        json!(["open"])
    );
    assert_eq!(
        get_as(s, Some(&["mfa"]), "/d/open/replaced").await.json(),
        json!(["replaced"])
    );
    // The records that a source refers to have their own list policy.
    assert_eq!(
        get_as(s, Some(&[]), "/d/open/behind").await.code(),
        (403, "mfa_required")
    );
    assert_eq!(
        get_as(s, Some(&["mfa"]), "/d/open/behind").await.json()[0]["title"],
        "proved"
    );
    // A derive without restrictions is public and may be cached.
    let plain = get_as(s, None, "/d/open/plain").await;
    assert_eq!(
        (plain.status, plain.header("cache-control").as_str()),
        (200, "")
    );
}

async fn a_derive_counts_for_the_limits_of_its_lists(s: &Server) {
    seed(s).await;
    // A derive counts as one call of the list, even if several sources read the list.
    assert_eq!(get_as(s, None, "/d/open/twice").await.status, 200);
    assert_eq!(get_as(s, None, "/d/counted").await.status, 200);
    let reply = get_as(s, None, "/d/open/twice").await;
    assert_eq!(
        (reply.code(), reply.header("retry-after").as_str()),
        ((429, "rate_limited"), "60")
    );
    assert_eq!(
        get_as(s, None, "/d/open/count").await.code(),
        (429, "rate_limited")
    );
    assert_eq!(
        get_as(s, None, "/d/counted").await.code(),
        (429, "rate_limited")
    );
    assert_eq!(
        get_as(s, Some(&[]), "/d/open/twice").await.status,
        200,
        "another caller"
    );
    assert_eq!(get_as(s, None, "/d/open/plain").await.status, 200);
}

async fn a_derive_runs_the_middleware_of_its_lists(s: &Server) {
    seed(s).await;
    let wish =
        async |wish: &'static str| s.raw("GET", "/d/open/watch", &[("x-wish", wish)], "").await;
    assert_eq!(wish("refuse").await.code(), (403, "not_today"));
    assert_eq!(wish("answer").await.code(), (403, "forbidden"));
    let passed = wish("none").await;
    assert_eq!((passed.status, passed.json()), (200, json!(["open"])));
    // The middleware of the package runs once, for the outer request.
    assert_eq!(passed.headers.get_all("x-stamp").iter().count(), 1);
    assert_eq!(
        s.raw("GET", "/d/open/plain", &[("x-wish", "refuse")], "")
            .await
            .status,
        200
    );
}

async fn owners_see_their_own_records(s: &Server) {
    seed(s).await;
    let ids = |reply: &Reply| -> Vec<String> {
        reply
            .json()
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        get_as(s, None, "/d/open/own").await.code(),
        (401, "unauthorized")
    );
    assert_eq!(ids(&get_as(s, Some(&[]), "/d/open/own").await), ["a"]);
    assert_eq!(
        ids(&get_as(s, Some(&["reader"]), "/d/open/own").await),
        ["a", "b"]
    );
}

async fn a_derive_checks_tenants_first(s: &Server) {
    seed(s).await;
    assert_eq!(
        get_as(s, None, "/d/open/hold").await.code(),
        (401, "unauthorized")
    );
    assert_eq!(
        get_as(s, Some(&[]), "/d/open/hold").await.code(),
        (403, "forbidden")
    );
    let token = s.token_in("someone", "acme");
    assert_eq!(
        s.raw("GET", "/d/open/hold", &[("authorization", &token)], "")
            .await
            .json(),
        json!(["open"])
    );
}

async fn a_derive_returns_what_its_lists_return(s: &Server) {
    seed(s).await;
    assert_eq!(
        s.get("/d/narrow").await.json()["items"],
        json!([{"id": "n"}])
    );
    assert_eq!(s.get("/d/open/short").await.json(), json!([{"id": "n"}]));
    let document = s.get("/openapi.json").await.json();
    let item = &document["paths"]["/d/open/short"]["get"]["responses"]["200"]["content"]["application/json"]
        ["schema"]["items"];
    assert_eq!(item["$ref"], "#/components/schemas/NarrowListRecord");
}

/// Calls from code check identity, roles and permissions only; calls of the application itself
/// check nothing.
async fn calls_from_code_check_identity_roles_and_permissions(s: &Server) {
    seed(s).await;
    let open = s.running().adapter::<Open>().unwrap();
    let as_actor =
        |roles: &[&str]| Cx::actor(Actor::user("someone").with_roles(roles.iter().copied()));
    assert_eq!(
        open.members(&as_actor(&["member"])).await.unwrap(),
        ["open"]
    );
    assert_eq!(
        open.members(&as_actor(&[])).await.unwrap_err().code(),
        Code::Forbidden
    );
    assert_eq!(
        open.members(&Cx::actor(Actor::anonymous()))
            .await
            .unwrap_err()
            .code(),
        Code::Unauthorized
    );
    let ids = async |cx: &Cx| {
        open.own(cx)
            .await
            .unwrap()
            .into_iter()
            .map(|owned: Owned| owned.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&as_actor(&[])).await, ["a"]);
    assert_eq!(ids(&Cx::system("a test")).await, ["a", "b"]);
}

async fn the_document_lists_refusals_of_derives(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let statuses = |path: &str| -> Vec<u16> {
        let responses = document["paths"][format!("/d/open/{path}")]["get"]["responses"]
            .as_object()
            .unwrap();
        let refusals = [401, 403, 429].into_iter();
        refusals
            .filter(|status| responses.contains_key(&status.to_string()))
            .collect()
    };
    assert_eq!(statuses("plain"), Vec::<u16>::new());
    assert_eq!(statuses("proven"), [401, 403]);
    assert_eq!(statuses("members"), [401, 403]);
    assert_eq!(statuses("behind"), [401, 403]);
    assert_eq!(statuses("hold"), [401, 403]);
    assert_eq!(statuses("count"), [429]);
    assert_eq!(
        document["paths"]["/d/open/plain"]["get"]["security"],
        Json::Array(Vec::new())
    );
}
