//! Idempotent routes with a permission: the write and the stored response are committed in one
//! transaction.

#![allow(missing_docs)] // test entities

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linchpin::prelude::*;
use linchpin::{AccessRequest, BoxFuture, Decision, Evaluator, Plugin, PostCx};
use serde_json::json;
use tokio::sync::Notify;

use crate::cases;
use crate::server::{Reply, Server};

/// A purse. The permission depends on its bank, so it is checked after the idempotency key is
/// claimed and the record is read.
#[entity(routes(
    idempotent,
    create(permission(requires = "pay", owner_field = owner_id, resource = bank)),
    update(permission(requires = "pay", owner_field = owner_id, resource = bank)),
    delete(permission(requires = "pay", owner_field = owner_id, resource = bank)),
    get(auth = none),
    list(auth = none)
))]
#[derive(Clone, Debug)]
pub struct Purse {
    #[field(primary)]
    pub id: String,
    pub owner_id: String,
    #[field(default = "b")]
    pub bank: String,
    #[field(default = 0)]
    pub coins: i64,
}

#[operation(
    kind = "increment", field = coins, by = 5,
    route(permission(requires = "pay", owner_field = owner_id, resource = bank))
)]
pub const EARN: Operation<Purse>;

/// The permission to pay; the evaluator reads it with a separate context.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Grant {
    #[field(primary)]
    pub id: String,
}

pub static PURSES: Package = package!(
    name = "purses",
    entities = [entity(Purse, [EARN]), entity(Grant, [])]
);

/// Delays the first call of "slow" until the test releases it.
#[derive(Default)]
struct Hold {
    was_held: AtomicBool,
    arrived: Notify,
    free: Notify,
}

struct GrantEvaluator {
    grants: GrantAdapter,
    hold: Arc<Hold>,
}

impl Evaluator for GrantEvaluator {
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        Box::pin(async move {
            let id = request.actor.id.as_deref().unwrap_or_default();
            if id == "slow" && !self.hold.was_held.swap(true, Ordering::SeqCst) {
                self.hold.arrived.notify_one();
                self.hold.free.notified().await;
            }
            let granted = self
                .grants
                .get(&Cx::system("read permissions to pay"), id)
                .await?;
            Ok(if granted.is_some() {
                Decision::Allow
            } else {
                Decision::Abstain
            })
        })
    }
}

struct GrantPlugin;

impl Plugin for GrantPlugin {
    fn name(&self) -> &'static str {
        "granting"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let (grants, hold) = (cx.adapters().get::<Grant>()?, Arc::new(Hold::default()));
            cx.adapters().provide(Arc::clone(&hold));
            cx.registrar()
                .set_evaluator(GrantEvaluator { grants, hold })
        })
    }
}

fn with_grant_plugin(app: App) -> App {
    app.plugin(GrantPlugin)
}

cases!(
    &crate::idempotency_with_permissions::PURSES,
    crate::idempotency_with_permissions::with_grant_plugin =>
    a_permitted_call_is_replayed, a_refusal_frees_the_key,
    a_call_whose_key_was_taken_over_has_no_effect,
);

async fn send(s: &Server, who: &str, method: &str, path: &str, key: &str, body: &str) -> Reply {
    let token = s.token(who, &[]);
    let headers = [
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", key),
    ];
    s.raw(method, path, &headers, body).await
}

async fn coins(s: &Server) -> i64 {
    s.get("/purses/p").await.json()["coins"].as_i64().unwrap()
}

/// Creates a grant for `granted`, and the purse `p` of the user `owner`.
async fn prepare(s: &Server, granted: &str) {
    s.post("/grants", json!({"id": granted})).await;
    let body = json!({"id": "p", "ownerId": "owner"}).to_string();
    assert_eq!(
        send(s, "owner", "POST", "/purses", "made", &body)
            .await
            .status,
        201
    );
}

async fn a_permitted_call_is_replayed(s: &Server) {
    prepare(s, "payer").await;
    for who in ["owner", "payer"] {
        let before = coins(s).await;
        let first = send(s, who, "POST", "/purses/p/earn", "earn", "").await;
        let again = send(s, who, "POST", "/purses/p/earn", "earn", "").await;
        assert_eq!((first.status, &first.body), (200, &again.body), "{first:?}");
        assert_eq!(
            (again.header("idempotency-replayed"), coins(s).await),
            ("true".to_owned(), before + 5)
        );
    }
    let changed = send(s, "payer", "PATCH", "/purses/p", "patch", r#"{"coins": 1}"#).await;
    assert_eq!((changed.status, coins(s).await), (200, 1));
    assert_eq!(
        send(s, "payer", "DELETE", "/purses/p", "gone", "")
            .await
            .status,
        204
    );
    assert_eq!(
        send(s, "payer", "DELETE", "/purses/p", "gone", "")
            .await
            .status,
        204,
        "replayed"
    );
}

async fn a_refusal_frees_the_key(s: &Server) {
    prepare(s, "payer").await;
    assert_eq!(
        send(s, "stranger", "POST", "/purses/p/earn", "k", "")
            .await
            .code(),
        (403, "forbidden")
    );
    s.post("/grants", json!({"id": "stranger"})).await;
    assert_eq!(
        send(s, "stranger", "POST", "/purses/p/earn", "k", "")
            .await
            .status,
        200
    );
    // A missing purse is 404.
    assert_eq!(
        send(s, "stranger", "POST", "/purses/none/earn", "n", "")
            .await
            .code(),
        (404, "not_found")
    );
    assert_eq!(coins(s).await, 5);
}

/// A call is so slow that another call claims the same idempotency key. The slow call has no
/// effect: its writes are rolled back together with its stored response.
async fn a_call_whose_key_was_taken_over_has_no_effect(s: &Server) {
    prepare(s, "slow").await;
    let hold = s.running().adapters().provided::<Arc<Hold>>().unwrap();
    let second = async {
        hold.arrived.notified().await;
        // A claim is free after twice the timeout of the route (default 30 s).
        s.advance(61_000);
        let reply = send(s, "slow", "POST", "/purses/p/earn", "k", "").await;
        hold.free.notify_one();
        reply
    };
    let (first, second) = tokio::join!(send(s, "slow", "POST", "/purses/p/earn", "k", ""), second);
    assert_eq!(
        (second.status, second.json()["coins"].as_i64()),
        (200, Some(5))
    );
    assert_eq!(first.code(), (409, "idempotency_in_progress"));
    assert_eq!(coins(s).await, 5);
}
