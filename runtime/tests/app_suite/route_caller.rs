//! Calls of mounted routes from within the process, through their whole policy.

use std::sync::{Arc, OnceLock};

use axum::http::HeaderMap;
use linchpin::http::{RouteAuth, RouteCaller, RouteReply, RouteRequest, require_role};
use linchpin::prelude::*;
use linchpin::{BoxFuture, MiddlewareCx, Plugin, PostCx, Running};
use serde_json::{Value as Json, json};

use crate::fixture::config;

linchpin::context! {
    /// The workshop of the caller, from a header.
    pub workshop: String;
}

/// A chore of one user.
#[entity(
    scope(owner_id = ctx(actor.id)),
    index(owner_id, title),
    routes(auth = "userAuth", get(rate_limit = "3/min"), delete(roles = ["admin"]))
)]
#[derive(Clone, Debug)]
pub struct Chore {
    #[field(primary)]
    pub id: String,
    pub owner_id: String,
    #[field(length = 2..=20)]
    pub title: String,
    #[field(default = 0, read_only)]
    pub times: i64,
}

#[operation(kind = "lookup", fields(title = param(title)), returns = "many")]
pub const BY_TITLE: Operation<Chore>;
#[operation(kind = "increment", field = times, route(idempotent))]
pub const DO: Operation<Chore>;

/// A tool of a workshop.
#[entity(scope(workshop = ctx(workshop)), index(workshop), routes(auth = "userAuth"))]
#[derive(Clone, Debug)]
pub struct Tool {
    #[field(primary)]
    pub id: String,
    pub workshop: String,
}

static HOME: Package = package!(
    name = "home",
    entities = [entity(Chore, [BY_TITLE, DO]), entity(Tool)]
);

/// Stores the `RouteCaller` of the app, and provides the workshop.
#[derive(Clone, Default)]
struct Frames(Arc<OnceLock<RouteCaller>>);

impl Plugin for Frames {
    fn name(&self) -> &'static str {
        "frames"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            cx.provide(workshop, |call| {
                let header = call.parts.headers.get("x-workshop");
                Ok(header
                    .and_then(|value| value.to_str().ok())
                    .map(str::to_owned))
            })
        })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        self.0.set(cx.route_caller().clone()).expect("one start");
        assert!(cx.credentials().is_none(), "no plugin installs credentials");
        Box::pin(async { cx.registrar().set_route_auth(RouteAuth::default()) })
    }
}

async fn started(change: impl FnOnce(App) -> App) -> (Running, RouteCaller) {
    let frames = Frames::default();
    let app = App::new(config())
        .package(&HOME)
        .plugin(frames.clone())
        .event_sink("listener", DiscardEvents);
    let running = change(app).start().await.unwrap();
    let caller = frames.0.get().cloned().unwrap();
    (running, caller)
}

/// A consumer of events, so that changes are recorded.
struct DiscardEvents;

impl linchpin::EventSink for DiscardEvents {
    fn publish<'a>(&'a self, _: &'a linchpin::event::Batch) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

fn request_of(user: &str, route: &str) -> RouteRequest {
    let actor = match user {
        "" => Actor::anonymous(),
        user => Actor::user(user),
    };
    RouteRequest::new(Chore::DESC, route, actor)
}

fn code(reply: &RouteReply) -> (u16, String) {
    let body = reply.json().unwrap();
    let text = body["code"].as_str().unwrap_or_default();
    (reply.status, text.to_owned())
}

fn problems(reply: &RouteReply) -> Vec<(String, String)> {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let body = reply.json().unwrap();
    let details = body["details"].as_array().cloned().unwrap_or_default();
    details
        .iter()
        .map(|one| (text(&one["path"]), text(&one["code"])))
        .collect()
}

async fn create_chore(caller: &RouteCaller, user: &str, id: &str) {
    let create = request_of(user, "create")
        .member("id", id)
        .member("title", "sweep");
    let reply = caller.call(create).await.unwrap();
    assert_eq!(reply.status, 201, "{reply:?}");
    assert!(reply.event_id().is_some(), "{reply:?}");
}

#[tokio::test]
async fn a_call_from_code_has_the_checks_and_response_of_a_request() {
    let (app, caller) = started(|app| app).await;
    create_chore(&caller, "ada", "a").await;
    let read = |user: &'static str| caller.call(request_of(user, "get").id("a"));
    let reply = read("ada").await.unwrap();
    assert_eq!(
        (reply.status, reply.json().unwrap()),
        (
            200,
            json!({"id": "a", "ownerId": "ada", "title": "sweep", "times": 0})
        )
    );
    assert_eq!(code(&read("bob").await.unwrap()), (404, "not_found".into()));
    assert_eq!(code(&read("").await.unwrap()), (401, "unauthorized".into()));
    let delete = caller
        .call(request_of("ada", "delete").id("a"))
        .await
        .unwrap();
    assert_eq!(code(&delete), (403, "forbidden".into()));

    let bad = request_of("ada", "create")
        .member("id", "b")
        .member("title", "x")
        .member("color", 7);
    let reply = caller.call(bad).await.unwrap();
    assert_eq!(reply.status, 400);
    assert_eq!(
        problems(&reply),
        [
            ("color".to_owned(), "unknown_field".to_owned()),
            ("title".to_owned(), "min_length".to_owned())
        ]
    );
    let lookup = request_of("ada", "by_title").member("title", "sweep");
    let found = caller.call(lookup).await.unwrap().json().unwrap();
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{found}");
    let lookup = request_of("ada", "by_title").member("titel", "sweep");
    let refused = caller.call(lookup).await.unwrap();
    assert_eq!(code(&refused), (400, "unknown_parameter".into()));

    // An id is one segment, and never the path of another route.
    for id in ["by-title", "a/b", "a?x=1", "..", "%2e"] {
        let reply = caller
            .call(request_of("bob", "get").id(id).uncounted())
            .await
            .unwrap();
        assert_eq!(code(&reply), (404, "not_found".into()), "{id}");
    }
    let reply = caller.call(request_of("ada", "get")).await.unwrap();
    assert_eq!(
        problems(&reply),
        [("path:id".to_owned(), "required".to_owned())]
    );
    assert!(caller.has(Chore::DESC, "do") && !caller.has(Chore::DESC, "undo"));
    assert!(caller.call(request_of("ada", "undo")).await.is_err());
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_call_counts_for_the_rate_limit_unless_it_is_the_servers_own() {
    let (app, caller) = started(|app| app).await;
    create_chore(&caller, "ada", "a").await;
    for _ in 0..5 {
        let own = caller
            .call(request_of("ada", "get").id("a").uncounted())
            .await;
        assert_eq!(own.unwrap().status, 200);
    }
    for expected in [200, 200, 200, 429] {
        let reply = caller.call(request_of("ada", "get").id("a")).await.unwrap();
        assert_eq!(reply.status, expected);
    }
    assert!(
        caller
            .admit(request_of("ada", "get").uncounted())
            .await
            .is_ok()
    );
    assert!(caller.admit(request_of("ada", "get")).await.is_err());
    app.stop().await.unwrap();
}

#[tokio::test]
async fn calls_under_one_key_have_one_effect() {
    let (app, caller) = started(|app| app).await;
    create_chore(&caller, "ada", "a").await;
    let call = |key: &str| {
        let request = request_of("ada", "do")
            .id("a")
            .idempotency_key(key)
            .unwrap();
        caller.call(request)
    };
    let first = call("one").await.unwrap();
    assert!(first.is_success() && !first.is_replayed(), "{first:?}");
    let again = call("one").await.unwrap();
    assert!(again.is_replayed());
    assert_eq!(
        (again.json().unwrap(), again.event_id()),
        (first.json().unwrap(), first.event_id())
    );
    let other = call("two").await.unwrap();
    assert_eq!(other.json().unwrap()["times"], 2);
    assert!(request_of("ada", "do").idempotency_key("a\nb").is_err());
    assert!(caller.is_idempotent(Chore::DESC, "do") && !caller.is_idempotent(Chore::DESC, "get"));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn guards_by_path_and_values_of_the_context_apply() {
    let (app, caller) = started(|app| app.guard("/chores/{*rest}", require_role(["member"]))).await;
    let refused = caller.call(request_of("ada", "list")).await.unwrap();
    assert_eq!(code(&refused), (403, "forbidden".into()));
    let member = Actor::user("ada").with_roles(["member"]);
    let list = RouteRequest::new(Chore::DESC, "list", member).member("limit", 5);
    assert_eq!(caller.call(list).await.unwrap().status, 200);

    let mut headers = HeaderMap::new();
    headers.insert("x-workshop", "north".parse().unwrap());
    // Headers of the request that opened the connection, such as `If-Match`, do not apply to the
    // call.
    headers.insert("if-none-match", "*".parse().unwrap());
    let tool = |route: &str| RouteRequest::new(Tool::DESC, route, Actor::user("ada"));
    let reply = caller
        .call(tool("create").member("id", "saw").headers(&headers))
        .await
        .unwrap();
    assert_eq!(reply.json().unwrap()["workshop"], "north", "{reply:?}");
    let reply = caller.call(tool("list").headers(&headers)).await.unwrap();
    assert_eq!(reply.json().unwrap()["items"][0]["id"], "saw");
    assert_eq!(caller.call(tool("list")).await.unwrap().status, 403);
    assert!(caller.admit(tool("list").headers(&headers)).await.is_ok());
    let refused = caller.admit(tool("list")).await.unwrap_err();
    assert_eq!(refused.code().status(), 403);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_policy_is_checked_without_a_call() {
    let (app, caller) = started(|app| app).await;
    for route in ["list", "get"] {
        let nobody = caller
            .admit(request_of("", route).uncounted())
            .await
            .unwrap_err();
        assert_eq!(nobody.code().status(), 401, "{route}");
        let cx = caller
            .admit(request_of("ada", route).uncounted())
            .await
            .unwrap();
        assert_eq!(cx.get_actor_id(), Some("ada"));
    }
    let refused = caller.admit(request_of("ada", "delete")).await.unwrap_err();
    assert_eq!(refused.code().status(), 403);
    app.stop().await.unwrap();
    // The app has stopped.
    let gone = caller.call(request_of("ada", "list")).await.unwrap_err();
    assert_eq!(gone.code().status(), 503);
}
