//! Authentication by the plugin of the framework, and by a plugin of the app.

use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use linchpin::http::{ActorResolver, Origin, Resolution, RouteAuth};
use linchpin::testing::Client;
use linchpin::{
    Actor, App, BoxFuture, Cx, Error, JwtAuth, MiddlewareCx, Plugin, PostCx, Result, Timestamp,
};
use serde_json::json;

use crate::fixture::{JSON, KEY, NOTES, Routes, SECRETS, config, exchange, get, status};

/// A complete auth plugin of an app.
pub struct HeaderAuth;

pub struct ByHeader;

impl ActorResolver for ByHeader {
    fn resolve(&self, parts: &Parts, _: Origin<'_>) -> Resolution {
        let header = |name| parts.headers.get(name).and_then(|v| v.to_str().ok());
        Resolution::Ready(Ok(Arc::new(match header("x-user") {
            Some(user) => Actor::user(user).with_roles(header("x-role")),
            None => Actor::anonymous(),
        })))
    }
}

impl Plugin for HeaderAuth {
    fn name(&self) -> &'static str {
        "header-auth"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.set_actor_resolver(Arc::new(ByHeader)) })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        let user_auth = Arc::new(|actor: &Actor| {
            if actor.id.is_some() {
                Ok(())
            } else {
                Err(Error::unauthorized())
            }
        });
        let require_role = Arc::new(|actor: &Actor, roles: &[&str]| {
            if actor.has_any_role(roles) {
                Ok(())
            } else {
                Err(Error::forbidden())
            }
        });
        Box::pin(async {
            cx.registrar().set_route_auth(RouteAuth {
                user_auth,
                require_role,
                ..RouteAuth::default()
            })
        })
    }
}

#[tokio::test]
async fn an_auth_plugin_of_the_app_authenticates() {
    let app = App::new(config())
        .package(&SECRETS)
        .plugin(HeaderAuth)
        .start()
        .await
        .unwrap();
    let at = app.address();
    let refused = get(at, "/secrets", "").await;
    assert_eq!(status(&refused), "401");
    assert!(refused.contains("\"error\":"), "{refused}");
    assert_eq!(
        status(&get(at, "/secrets", "x-user: alice\r\n").await),
        "200"
    );
    let refused = exchange(
        at,
        "DELETE",
        "/secrets/x",
        "x-user: alice\r\nx-role: member\r\n",
        "",
    )
    .await;
    assert_eq!(status(&refused), "403");
    assert!(refused.contains("\"error\":"), "{refused}");
    assert_eq!(
        status(
            &exchange(
                at,
                "DELETE",
                "/secrets/x",
                "x-user: alice\r\nx-role: admin\r\n",
                ""
            )
            .await
        ),
        "404"
    );
    app.stop().await.unwrap();
}

const NOW: i64 = 1_800_000_000;

fn token(key: &str, algorithm: Algorithm, claims: &serde_json::Value) -> String {
    format!(
        "authorization: Bearer {}\r\n",
        encode(
            &Header::new(algorithm),
            claims,
            &EncodingKey::from_secret(key.as_bytes())
        )
        .unwrap()
    )
}

/// Tokens that code mints identify the caller and the roles.
#[tokio::test]
async fn tokens_minted_in_code_authenticate() {
    let app = App::new(config())
        .package(&SECRETS)
        .plugin(JwtAuth::new())
        .start()
        .await
        .unwrap();
    let caller = |actor: Actor| {
        Client::new(&app)
            .bearer(&JwtAuth::token(KEY, &actor, Duration::from_mins(5)).unwrap())
            .unwrap()
    };
    let (alice, admin) = (
        caller(Actor::user("alice")),
        caller(Actor::user("root").with_roles(["admin"])),
    );
    assert_eq!(
        Client::new(&app).get("/secrets").await.unwrap().status(),
        401
    );
    assert_eq!(alice.get("/secrets").await.unwrap().status(), 200);
    assert_eq!(
        alice.delete("/secrets/x").await.unwrap().json().unwrap()["code"],
        "forbidden"
    );
    assert_eq!(admin.delete("/secrets/x").await.unwrap().status(), 404);
    assert!(JwtAuth::token(KEY, &Actor::anonymous(), Duration::from_mins(5)).is_err());
    app.stop().await.unwrap();
}

#[tokio::test]
async fn bearer_tokens_authenticate_over_a_socket() {
    let app = App::new(config())
        .package(&SECRETS)
        .package(&NOTES)
        .plugin(JwtAuth::new())
        .plugin(Routes(|cx: &mut linchpin::RoutesCx| {
            cx.route(
                "/me",
                axum::routing::get(|cx: Cx| async move {
                    cx.get_actor_id().unwrap_or_default().to_owned()
                }),
            );
        }))
        .clock(|| Timestamp::from_millis(NOW * 1000))
        .start()
        .await
        .unwrap();
    let at = app.address();
    let alice = json!({ "sub": "alice", "exp": NOW + 60, "roles": ["admin"] });
    let good = token(KEY, Algorithm::HS256, &alice);
    // Twice: from the token, and from the cache.
    for _ in 0..2 {
        assert_eq!(status(&get(at, "/secrets", &good).await), "200");
        assert_eq!(
            status(&exchange(at, "DELETE", "/secrets/x", &good, "").await),
            "404"
        );
        assert!(get(at, "/me", &good).await.ends_with("\r\n\r\nalice"));
    }
    let anonymous = get(at, "/secrets", "").await;
    assert_eq!(status(&anonymous), "401");
    assert!(
        anonymous
            .to_lowercase()
            .contains("www-authenticate: bearer"),
        "{anonymous}"
    );
    assert_eq!(status(&get(at, "/notes", "").await), "200");

    let member = token(
        KEY,
        Algorithm::HS256,
        &json!({ "sub": "bob", "exp": NOW + 60, "roles": ["member"] }),
    );
    assert_eq!(
        status(&exchange(at, "DELETE", "/secrets/x", &member, "").await),
        "403"
    );

    let huge = json!({ "sub": "alice", "exp": NOW + 60, "fill": "x".repeat(9000) });
    for bad in [
        token("another secret for tests of at least 32 bytes", Algorithm::HS256, &alice),
        token(KEY, Algorithm::HS512, &alice),
        token(KEY, Algorithm::HS256, &json!({ "sub": "alice", "exp": NOW - 60 })),
        token(KEY, Algorithm::HS256, &json!({ "sub": "alice", "exp": NOW + 60, "nbf": NOW + 30 })),
        token(KEY, Algorithm::HS256, &huge),
        // {"alg":"none","typ":"JWT"}
        "authorization: Bearer eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJhbGljZSIsImV4cCI6NDAwMDAwMDAwMH0.\r\n".to_owned(),
        "authorization: Bearer garbage\r\n".to_owned(),
        "authorization: Basic YWxpY2U6YWxpY2U=\r\n".to_owned(),
        format!("{good}{good}"),
    ] {
        for path in ["/secrets", "/notes", "/me"] {
            let answer = get(at, path, &bad).await;
            assert_eq!(status(&answer), "401", "{path} {bad}");
            assert!(answer.contains("\"code\":\"unauthorized\""), "{answer}");
        }
        assert_eq!(status(&get(at, "/health/live", &bad).await), "200", "health checks skip auth");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn two_apps_in_one_process_share_nothing() {
    let one = App::new(config()).package(&NOTES).start().await.unwrap();
    let other = App::new(config().signing_secret("a second secret, known to the other app alone"))
        .package(&SECRETS)
        .plugin(JwtAuth::new());
    let other = other.start().await.unwrap();
    assert_eq!(
        status(&exchange(one.address(), "POST", "/notes", JSON, r#"{"text":"mine"}"#).await),
        "201"
    );
    assert_eq!(status(&get(other.address(), "/notes", "").await), "404");
    assert_eq!(status(&get(one.address(), "/secrets", "").await), "404");
    one.stop().await.unwrap();
    assert_eq!(
        status(&get(other.address(), "/secrets", "").await),
        "401",
        "the other app still serves"
    );
    tokio::time::timeout(Duration::from_mins(1), other.stop())
        .await
        .unwrap()
        .unwrap();
}
