//! Refresh tokens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use linchpin::BoxFuture;
use linchpin_auth::{Auth, AuthHooks, HookCx, HookResult, Limit, SignIn};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, Store, claims};

cases!(
    refresh_tokens_renew_short_access_tokens,
    the_refresh_cookie_has_strict_attributes,
    a_refresh_token_has_one_successor_within_the_grace_period,
    fifty_concurrent_refreshes_have_one_successor,
    reuse_of_a_refresh_token_ends_the_session,
    reuse_during_a_rotation_ends_the_session,
    invalid_refresh_tokens_are_refused,
    custom_claims_survive_a_refresh,
    reuse_of_any_earlier_generation_ends_the_session
);

async fn app(store: &Store) -> Server {
    store.app_with(Auth::refresh_tokens).await
}

async fn refresh(app: &Server, token: &str) -> Reply {
    app.post("/auth/refresh", json!({ "refreshToken": token }))
        .await
}

async fn refresh_tokens_renew_short_access_tokens(store: Store) {
    let app = app(&store).await;
    let ada = app.register("ada@example.test").await;
    let first = claims(&ada.token);
    assert_eq!(
        first["exp"].as_i64().unwrap() - first["iat"].as_i64().unwrap(),
        900
    );
    app.advance(60).await;
    let renewed = refresh(&app, &ada.refresh).await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    let second = claims(&renewed.text("token"));
    assert_eq!(
        (&second["sid"], &second["sub"]),
        (&first["sid"], &json!(ada.id))
    );
    assert_ne!(second["jti"], first["jti"]);
    assert!(renewed.text("refreshToken") != ada.refresh && renewed.text("userId") == ada.id);
    assert_eq!(app.me(&ada.token).await.status, 200);
    assert_eq!(app.me(&renewed.text("token")).await.status, 200);
    app.advance(900).await;
    app.me(&ada.token).await.refused(401, "unauthorized");
    assert_eq!(app.me(&renewed.text("token")).await.status, 200);
}

async fn the_refresh_cookie_has_strict_attributes(store: Store) {
    let app = app(&store).await;
    app.register("ada@example.test").await;
    let login = app
        .post(
            "/auth/login",
            json!({ "email": "ada@example.test", "password": GOOD }),
        )
        .await;
    let cookie = login.cookie("__Secure-refresh_token").unwrap();
    for attribute in [
        "HttpOnly",
        "Secure",
        "SameSite=Strict",
        "Path=/auth",
        "Max-Age=2592000",
    ] {
        assert!(
            cookie.split("; ").any(|part| part == attribute),
            "{attribute} in {cookie}"
        );
    }
    let (mut token, mut csrf) = (
        login.cookie_value("__Secure-refresh_token"),
        login.cookie_value("csrf_token"),
    );
    assert_eq!(token, login.text("refreshToken"));
    let origin = format!("http://{}", app.host());
    let by_cookie = async |token: &str, csrf: Option<&str>| {
        let cookies = format!(
            "__Secure-refresh_token={token}; csrf_token={}",
            csrf.unwrap_or_default()
        );
        let mut headers = vec![("cookie", cookies.as_str()), ("origin", origin.as_str())];
        headers.extend(csrf.map(|csrf| ("x-csrf-token", csrf)));
        app.raw("POST", "/auth/refresh", &headers, "").await
    };
    by_cookie(&token, None).await.refused(403, "csrf_failed");
    for _ in 0..2 {
        let renewed = by_cookie(&token, Some(&csrf)).await;
        assert_eq!(renewed.status, 200, "{renewed:?}");
        (token, csrf) = (
            renewed.cookie_value("__Secure-refresh_token"),
            renewed.cookie_value("csrf_token"),
        );
    }
    let by_header = app
        .raw("POST", "/auth/refresh", &[("x-refresh-token", &token)], "")
        .await;
    assert_eq!(by_header.status, 200, "{by_header:?}");
    let latest = by_header.text("refreshToken");
    let cookies = format!("__Secure-refresh_token=bad; csrf_token={csrf}");
    let both = [
        ("x-refresh-token", "bad"),
        ("cookie", cookies.as_str()),
        ("content-type", "application/json"),
    ];
    let body = json!({ "refreshToken": latest }).to_string();
    assert_eq!(
        app.raw("POST", "/auth/refresh", &both, &body).await.status,
        200
    );
    let none = app.post("/auth/refresh", json!({})).await;
    none.refused(401, "refresh_required");
    assert!(
        none.cookie("__Host-token").unwrap().contains("Max-Age=0"),
        "{none:?}"
    );
}

async fn a_refresh_token_has_one_successor_within_the_grace_period(store: Store) {
    let app = app(&store).await;
    let ada = app.register("ada@example.test").await;
    let successor = refresh(&app, &ada.refresh).await.text("refreshToken");
    app.advance(10).await;
    let again = refresh(&app, &ada.refresh).await;
    assert_eq!(
        (again.status, again.text("refreshToken")),
        (200, successor.clone()),
        "{again:?}"
    );
    assert_eq!(app.me(&again.text("token")).await.status, 200);
    let all = futures_util::future::join_all((0..10).map(|_| refresh(&app, &successor))).await;
    let mut next: Vec<String> = all.iter().map(|reply| reply.text("refreshToken")).collect();
    assert!(all.iter().all(|reply| reply.status == 200), "{all:?}");
    next.dedup();
    assert!(next.len() == 1 && next[0] != successor, "{next:?}");
}

/// Concurrent refreshes with one token return the same successor.
async fn fifty_concurrent_refreshes_have_one_successor(store: Store) {
    let high_limit = |auth: Auth| {
        auth.refresh_tokens().configure(|config| {
            config.auth.rate_limit.buckets.insert(
                "refresh".to_owned(),
                Limit {
                    max: 1000,
                    window_seconds: 60,
                },
            );
        })
    };
    let app = store.app_with(high_limit).await;
    let ada = app.register("ada@example.test").await;
    let mut token = ada.refresh;
    for _ in 0..3 {
        let all = futures_util::future::join_all((0..50).map(|_| refresh(&app, &token))).await;
        let next: BTreeSet<String> = all.iter().map(|reply| reply.text("refreshToken")).collect();
        assert!(all.iter().all(|reply| reply.status == 200), "{all:?}");
        assert!(next.len() == 1 && !next.contains(&token), "{next:?}");
        token = next.into_iter().next().unwrap();
    }
    assert_eq!(app.me(&ada.token).await.status, 200);
}

/// A stolen token and the owner's token are used concurrently: in either order the session ends,
/// with all tokens that were issued meanwhile.
async fn reuse_during_a_rotation_ends_the_session(store: Store) {
    let app = app(&store).await;
    app.register("ada@example.test").await;
    for turn in 0..12 {
        let ada = app.login("ada@example.test").await;
        let second = refresh(&app, &ada.refresh).await;
        let newest = refresh(&app, &second.text("refreshToken")).await;
        let (old, newest_token) = (refresh(&app, &ada.refresh), newest.text("refreshToken"));
        let (reused, rotated) = if turn % 2 == 0 {
            tokio::join!(old, refresh(&app, &newest_token))
        } else {
            let (rotated, reused) = tokio::join!(refresh(&app, &newest_token), old);
            (reused, rotated)
        };
        reused.refused(401, "refresh_reused");
        if rotated.status != 200 {
            rotated.refused(401, "refresh_invalid");
        }
        for token in [&newest_token, &rotated.text("refreshToken")] {
            refresh(&app, token).await.refused(401, "refresh_invalid");
        }
        for token in [&ada.token, &newest.text("token"), &rotated.text("token")] {
            app.me(token).await.refused(401, "unauthorized");
        }
    }
}

async fn reuse_of_a_refresh_token_ends_the_session(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| post.on(auth).refresh_tokens()).await;
    let ada = app.register("ada@example.test").await;
    let newest = refresh(&app, &ada.refresh).await;
    app.advance(11).await;
    let reused = refresh(&app, &ada.refresh).await;
    reused.refused(401, "refresh_reused");
    refresh(&app, &ada.refresh)
        .await
        .refused(401, "refresh_invalid");
    let mails = post.all("refresh_reused", 1).await;
    assert_eq!(
        (
            mails.len(),
            mails[0].to.as_str(),
            mails[0].vars["ip"].as_str()
        ),
        (1, "ada@example.test", "127.0.0.1")
    );
    assert!(
        reused
            .cookie("__Secure-refresh_token")
            .unwrap()
            .contains("Max-Age=0")
    );
    refresh(&app, &newest.text("refreshToken"))
        .await
        .refused(401, "refresh_invalid");
    for token in [&ada.token, &newest.text("token")] {
        app.me(token).await.refused(401, "unauthorized");
    }
}

async fn invalid_refresh_tokens_are_refused(store: Store) {
    let app = app(&store).await;
    let ada = app.register("ada@example.test").await;
    for garbage in [
        "garbage",
        "",
        "v1.a.b",
        &ada.token,
        &format!("{}x", ada.refresh),
    ] {
        let reply = refresh(&app, garbage).await;
        reply.refused(401, "refresh_invalid");
    }
    assert_eq!(app.me(&ada.token).await.status, 200);
    let day = 86_400;
    let mut token = ada.refresh.clone();
    for n in 0..89 {
        app.advance(day).await;
        let renewed = refresh(&app, &token).await;
        assert_eq!(renewed.status, 200, "day {n}: {renewed:?}");
        token = renewed.text("refreshToken");
    }
    app.advance(day).await;
    refresh(&app, &token).await.refused(401, "refresh_invalid");
    let idle = app.login("ada@example.test").await;
    app.advance(31 * day).await;
    refresh(&app, &idle.refresh)
        .await
        .refused(401, "refresh_invalid");
}

/// Adds claims for every user, and counts its calls.
struct Plans(Arc<AtomicUsize>);

impl AuthHooks for Plans {
    fn post_login<'a>(
        &'a self,
        _: &'a HookCx,
        input: &'a SignIn,
    ) -> BoxFuture<'a, HookResult<Json>> {
        Box::pin(async {
            assert!(input.user_id.is_some() && input.session_id.is_some());
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(
                json!({ "customClaims": { "plan": "pro", "sub": "somebody", "exp": 1, "iss": "x", "sid": "x" } }),
            )
        })
    }
}

async fn custom_claims_survive_a_refresh(store: Store) {
    let calls = Arc::new(AtomicUsize::new(0));
    let hooks = Plans(Arc::clone(&calls));
    let app = store
        .app_with(|auth| auth.refresh_tokens().hooks(hooks))
        .await;
    let ada = app.register("ada@example.test").await;
    let renewed = refresh(&app, &ada.refresh).await;
    for token in [&ada.token, &renewed.text("token")] {
        let claims = claims(token);
        assert_eq!(
            (&claims["plan"], &claims["sub"]),
            (&json!("pro"), &json!(ada.id)),
            "{claims}"
        );
        assert_eq!(
            app.get(token, "/__test/actor").await.json()["claims"]["plan"],
            "pro"
        );
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

/// If a client uses a refresh token that is older than the last two, the session ends.
async fn reuse_of_any_earlier_generation_ends_the_session(store: Store) {
    let app = app(&store).await;
    app.register("ada@example.test").await;
    for replayed in 0..4 {
        let ada = app.login("ada@example.test").await;
        let mut tokens = vec![ada.refresh];
        for _ in 0..3 {
            tokens.push(
                refresh(&app, tokens.last().unwrap())
                    .await
                    .text("refreshToken"),
            );
        }
        let reply = refresh(&app, &tokens[replayed]).await;
        if replayed < 2 {
            reply.refused(401, "refresh_reused");
            for token in &tokens {
                refresh(&app, token).await.refused(401, "refresh_invalid");
            }
            app.me(&ada.token).await.refused(401, "unauthorized");
        } else {
            assert_eq!(reply.status, 200, "{replayed}: {reply:?}");
        }
    }
}
