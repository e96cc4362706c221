//! An app with another authentication plugin instead of this one.

use std::sync::Arc;

use linchpin::axum::http::request::Parts;
use linchpin::http::{ActorResolver, Origin, Resolution, RouteAuth};
use linchpin::prelude::*;
use linchpin::testing::{Answer, Client};
use linchpin::{BoxFuture, MiddlewareCx, Plugin, PostCx};
use linchpin_auth::{Auth, AuthService, NewUser};
use serde_json::json;

use crate::cases;
use crate::server::{SECRET, Store};

cases!(
    another_plugin_may_replace_this_one,
    two_plugins_of_accounts_are_refused,
    the_same_policies_hold_with_accounts,
    roles_that_nobody_can_hold_are_refused
);

#[entity(routes(auth = "userAuth", create(auth = none), delete(roles = ["admin"])))]
#[derive(Clone, Debug)]
pub struct Page {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = 0)]
    pub reads: i64,
}

#[operation(kind = "increment", field = reads, by = 1, route(roles = ["admin"]))]
pub const READ: Operation<Page>;

static PAGES: Package = package!(name = "pages", entities = [entity(Page, [READ])]);

/// Uses the name in a header as the user, without a check. For tests only.
struct ByHeader;

impl ActorResolver for ByHeader {
    fn resolve(&self, parts: &Parts, _: Origin<'_>) -> Resolution {
        let header = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        Resolution::Ready(Ok(Arc::new(match header("x-user") {
            Some(user) => Actor::user(user).with_roles(header("x-role")),
            None => Actor::anonymous(),
        })))
    }
}

struct OwnAuth;

impl Plugin for OwnAuth {
    fn name(&self) -> &'static str {
        "own-auth"
    }

    fn setup_middleware<'a>(
        &'a self,
        cx: &'a mut MiddlewareCx,
    ) -> BoxFuture<'a, linchpin::Result<()>> {
        Box::pin(async { cx.set_actor_resolver(Arc::new(ByHeader)) })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, linchpin::Result<()>> {
        Box::pin(async { cx.registrar().set_route_auth(RouteAuth::default()) })
    }
}

fn pages(store: &Store) -> App {
    App::new(
        Config::new()
            .signing_secret(SECRET)
            .port(0)
            .database(store.url()),
    )
    .package(&PAGES)
}

/// Checks the policies of an entity and its operations, with any authentication plugin.
async fn check_policies(anonymous: &Client, user: &Client, admin: &Client) {
    let made = anonymous
        .post("/pages", &json!({}))
        .await
        .unwrap()
        .json()
        .unwrap();
    let page = format!("/pages/{}", made["id"].as_str().unwrap());
    let read = format!("{page}/read");
    let refused = |reply: Answer, status: u16| {
        assert_eq!(reply.status(), status);
        assert!(reply.json().unwrap()["error"].is_string());
    };
    refused(anonymous.get(&page).await.unwrap(), 401);
    refused(anonymous.post(&read, &json!({})).await.unwrap(), 401);
    refused(anonymous.delete(&page).await.unwrap(), 401);
    refused(user.post(&read, &json!({})).await.unwrap(), 403);
    refused(user.delete(&page).await.unwrap(), 403);
    assert_eq!(user.get(&page).await.unwrap().status(), 200);
    assert_eq!(admin.post(&read, &json!({})).await.unwrap().status(), 200);
    assert_eq!(admin.delete(&page).await.unwrap().status(), 204);
}

fn start_error(started: linchpin::Result<linchpin::Running>) -> String {
    started
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

async fn another_plugin_may_replace_this_one(store: Store) {
    let app = pages(&store).plugin(OwnAuth).start().await.unwrap();
    let user = Client::new(&app).with_header("x-user", "ada").unwrap();
    let admin = Client::new(&app)
        .with_header("x-user", "root")
        .unwrap()
        .with_header("x-role", "admin")
        .unwrap();
    check_policies(&Client::new(&app), &user, &admin).await;
    app.stop().await.unwrap();

    let without = start_error(pages(&store).start().await);
    for route in [
        "route `list` of `Page`",
        "route `get` of `Page`",
        "route `read` of `Page`",
    ] {
        assert!(
            without.contains(route) && without.contains("userAuth"),
            "{route} in {without}"
        );
    }
    assert!(without.contains("`linchpin_auth::Auth`"), "{without}");
}

async fn two_plugins_of_accounts_are_refused(store: Store) {
    let two = start_error(
        pages(&store)
            .plugin(Auth::new().roles(["admin"]).default_role("admin"))
            .plugin(OwnAuth)
            .start()
            .await,
    );
    assert!(
        two.contains("own-auth") && two.contains("keep one"),
        "{two}"
    );
}

/// The same policies have the same results with this plugin.
async fn the_same_policies_hold_with_accounts(store: Store) {
    let app = pages(&store)
        .plugin(
            Auth::new()
                .roles(["admin", "member"])
                .default_role("member"),
        )
        .start()
        .await
        .unwrap();
    let service = app.adapters().provided::<AuthService>().unwrap();
    let signed_in = async |account: NewUser| {
        let account = service.create_user(account).await.unwrap();
        Client::new(&app)
            .bearer(service.sign_in(&account.id).await.unwrap().expose())
            .unwrap()
    };
    let user = signed_in(NewUser::new("ada@x.test")).await;
    let admin = signed_in(NewUser::new("root@x.test").roles(["admin"])).await;
    check_policies(&Client::new(&app), &user, &admin).await;
    app.stop().await.unwrap();
}

/// A policy with an undeclared role is a start-up error, because no account can have the role.
async fn roles_that_nobody_can_hold_are_refused(store: Store) {
    for (roles, hint) in [
        (Vec::new(), ""),
        (vec!["admins"], "; did you mean `admins`?"),
    ] {
        let error = start_error(pages(&store).plugin(Auth::new().roles(roles)).start().await);
        for route in ["delete", "read"] {
            let what = format!(
                "needs role `admin`, which no plugin declares: list it in `auth.roles`{hint}"
            );
            let line = error
                .lines()
                .find(|line| line.contains(&format!("route `{route}` of `Page`")))
                .unwrap_or_default();
            assert!(line.ends_with(&what), "{what} in {error}");
        }
    }
    let chiefs = pages(&store).guard("/pages/{*rest}", linchpin::http::require_role(["chief"]));
    let error = start_error(chiefs.plugin(Auth::new().roles(["admin"])).start().await);
    let what = "guard of `/pages/{*rest}` needs role `chief`, which no plugin declares: list it in `auth.roles`";
    assert!(
        error.contains(what) && !error.contains("`admin`"),
        "{error}"
    );
}
