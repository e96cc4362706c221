//! Sessions: lists, limits, and the ways in which they end.

use std::sync::{Arc, Mutex};

use http_body_util::Full;
use linchpin::axum::body::Bytes;
use linchpin::axum::http::{HeaderValue, Request};
use linchpin::http::SessionWatch;
use linchpin::{BoxFuture, Cx, Plugin, PostCx, Result};
use linchpin_auth::{Auth, Limit};
use serde_json::json;
use tower_service::Service;

use crate::cases;
use crate::server::{GOOD, Store, claims};

cases! {
    every_store:
        sessions_are_listed, a_session_is_ended_by_its_owner_only,
        other_sessions_and_all_sessions_can_be_ended, the_number_of_sessions_is_limited,
        sessions_end_after_idle_time, a_suspension_ends_sessions, changed_roles_take_effect,
        sessions_end_at_once, the_end_of_a_session_is_reported_to_other_plugins;
    one_store: other_cookies_are_ignored;
}

async fn sessions_are_listed(store: Store) {
    let app = store.app().await;
    let first = app.register("ada@example.test").await;
    app.advance(60).await;
    let second = app.login("ada@example.test").await;
    let list = app.get(&second.token, "/auth/sessions").await.json()["sessions"]
        .as_array()
        .cloned()
        .unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(
        list.iter()
            .map(|s| s["current"] == true)
            .collect::<Vec<_>>(),
        [true, false],
        "the latest active first"
    );
    for session in &list {
        for time in ["createdAt", "lastActiveAt", "expiresAt"] {
            let text = session[time].as_str().unwrap();
            assert!(
                text.len() == 24 && text.ends_with('Z') && linchpin::Timestamp::parse(text).is_ok(),
                "{time} {text}"
            );
        }
        assert_eq!(
            (&session["ipAddress"], &session["isActive"], &session["amr"]),
            (&json!("127.0.0.1"), &json!(true), &json!(["pwd"]))
        );
    }
    let text = json!(list).to_string();
    for token in [&first.token, &second.token] {
        assert!(
            !text.contains(claims(token)["sid"].as_str().unwrap()),
            "{text}"
        );
    }
    // The handle of a session is not a token.
    app.me(list[0]["sessionId"].as_str().unwrap())
        .await
        .refused(401, "unauthorized");
}

async fn a_session_is_ended_by_its_owner_only(store: Store) {
    let app = store.app().await;
    let (own, other) = (
        app.register("ada@example.test").await,
        app.login("ada@example.test").await,
    );
    let eve = app.register("eve@example.test").await;
    let handle = async |token: &str| {
        let list = app.get(token, "/auth/sessions").await.json()["sessions"]
            .as_array()
            .cloned()
            .unwrap();
        list.iter().find(|s| s["current"] == true).unwrap()["sessionId"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (other_session, eve_session) = (handle(&other.token).await, handle(&eve.token).await);
    let delete = async |id: &str| {
        app.with(&own.token, "DELETE", &format!("/auth/sessions/{id}"), None)
            .await
    };
    delete(&eve_session).await.refused(404, "not_found");
    delete("unknown").await.refused(404, "not_found");
    assert_eq!(app.me(&eve.token).await.status, 200);
    assert_eq!(
        delete(&other_session).await.json(),
        json!({ "ok": true, "message": "The session was ended." })
    );
    app.me(&other.token).await.refused(401, "unauthorized");
    assert_eq!(app.me(&own.token).await.status, 200);
    delete(&other_session).await.refused(404, "not_found");
    let current = handle(&own.token).await;
    assert_eq!(delete(&current).await.status, 200);
    app.me(&own.token).await.refused(401, "unauthorized");
}

async fn other_sessions_and_all_sessions_can_be_ended(store: Store) {
    let app = store.app().await;
    let own = app.register("ada@example.test").await;
    for (method, path) in [
        ("POST", "/auth/sessions/revoke-others"),
        ("DELETE", "/auth/sessions"),
    ] {
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(app.login("ada@example.test").await);
        }
        assert_eq!(
            app.with(&own.token, method, path, None).await.json(),
            json!({ "ok": true, "revoked": 3 })
        );
        for other in others {
            app.me(&other.token).await.refused(401, "unauthorized");
        }
        let list = app.get(&own.token, "/auth/sessions").await.json();
        assert_eq!(list["sessions"].as_array().unwrap().len(), 1);
    }
}

async fn the_number_of_sessions_is_limited(store: Store) {
    let limited = |auth: Auth| {
        auth.configure(|config| {
            config.auth.session.max_per_user = 3;
            // Concurrent sign-ins are counted before they are checked.
            for name in ["login", "loginIp", "loginSpread", "loginIdentifier"] {
                config.auth.rate_limit.buckets.insert(
                    name.to_owned(),
                    Limit {
                        max: 1000,
                        window_seconds: 900,
                    },
                );
            }
        })
    };
    // With the cheapest hash, all sign-ins would reach the store at the same time, and some of them
    // would fail with 503.
    let store = store.hashing_slowly();
    let app = store.app_with(limited).await;
    let first = app.register("ada@example.test").await;
    let mut signed_in = vec![first];
    for _ in 0..4 {
        app.advance(1).await;
        signed_in.push(app.login("ada@example.test").await);
    }
    let mut alive = Vec::new();
    for one in &signed_in {
        alive.push(app.me(&one.token).await.status == 200);
    }
    assert_eq!(alive, [false, false, true, true, true]);
    app.advance(1).await;
    let raced =
        futures_util::future::join_all((0..20).map(|_| app.login("ada@example.test"))).await;
    let mut live = 0;
    for one in &raced {
        live += usize::from(app.me(&one.token).await.status == 200);
    }
    for one in &signed_in {
        app.me(&one.token).await.refused(401, "unauthorized");
    }
    assert_eq!(live, 3);
}

async fn sessions_end_after_idle_time(store: Store) {
    let app = store
        .app_with(|auth| auth.configure(|config| config.auth.session.idle_seconds = 60))
        .await;
    let ada = app.register("ada@example.test").await;
    for _ in 0..2 {
        app.advance(50).await;
        assert_eq!(app.me(&ada.token).await.status, 200);
    }
    let idle = app.get(&ada.token, "/auth/sessions").await.json()["sessions"][0]["sessionId"]
        .as_str()
        .unwrap()
        .to_owned();
    app.advance(100).await;
    app.me(&ada.token).await.refused(401, "unauthorized");
    // A session without a valid token is not listed.
    let again = app.login("ada@example.test").await;
    let sessions = app.get(&again.token, "/auth/sessions").await.json();
    assert_eq!(
        (
            sessions["sessions"].as_array().map(Vec::len),
            &sessions["sessions"][0]["current"]
        ),
        (Some(1), &json!(true))
    );
    app.with(
        &again.token,
        "DELETE",
        &format!("/auth/sessions/{idle}"),
        None,
    )
    .await
    .refused(404, "not_found");
}

async fn a_suspension_ends_sessions(store: Store) {
    let app = store.app().await;
    let ada = app.register("ada@example.test").await;
    assert_eq!(app.me(&ada.token).await.status, 200);
    app.change(&ada.id, json!({ "suspended": true })).await;
    app.me(&ada.token).await.refused(401, "unauthorized");
    let login = |password: &str| {
        app.post(
            "/auth/login",
            json!({ "email": "ada@example.test", "password": password }),
        )
    };
    login(GOOD).await.refused(403, "account_suspended");
    login("wrong-otter-91-lamp")
        .await
        .refused(401, "invalid_credentials");
    app.change(&ada.id, json!({ "suspended": false })).await;
    assert_eq!(login(GOOD).await.status, 200);
    app.me(&ada.token).await.refused(401, "unauthorized");
}

async fn changed_roles_take_effect(store: Store) {
    let app = store.app().await;
    let ada = app.register("ada@example.test").await;
    app.get(&ada.token, "/__test/protected/admin")
        .await
        .refused(403, "forbidden");
    app.get(&ada.token, "/notes")
        .await
        .refused(403, "forbidden");
    app.change(&ada.id, json!({ "roles": ["admin"] })).await;
    assert_eq!(
        app.get(&ada.token, "/__test/protected/admin").await.status,
        200
    );
    assert_eq!(app.get(&ada.token, "/notes").await.status, 200);
    app.change(&ada.id, json!({ "roles": [] })).await;
    app.get(&ada.token, "/__test/protected/admin")
        .await
        .refused(403, "forbidden");
    app.raw("GET", "/notes", &[], "")
        .await
        .refused(401, "unauthorized");
}

/// After the response to a logout every new request of the session is refused, also under load.
async fn sessions_end_at_once(store: Store) {
    let app = store.app().await;
    app.register("ada@example.test").await;
    for _ in 0..5 {
        let one = app.login("ada@example.test").await;
        let call = |_| async {
            app.me(&one.token).await;
        };
        let ((), after) = tokio::join!(
            async { drop(futures_util::future::join_all((0..20).map(call)).await) },
            async {
                assert_eq!(
                    app.with(&one.token, "POST", "/auth/logout", None)
                        .await
                        .status,
                    200
                );
                futures_util::future::join_all((0..10).map(|_| app.me(&one.token))).await
            }
        );
        for reply in after {
            reply.refused(401, "unauthorized");
        }
        app.me(&one.token).await.refused(401, "unauthorized");
    }
}

/// Other cookies of the app are ignored, even if they are not text. The token's cookie must appear
/// once and be text.
async fn other_cookies_are_ignored(store: Store) {
    let app = store.app().await;
    let ada = app.register("ada@example.test").await;
    let me = async |cookies: &[&[u8]]| {
        let mut request = Request::builder()
            .uri("/auth/me")
            .header("host", app.host());
        for line in cookies {
            let token = ada.token.as_bytes();
            let line = line.split(|b| *b == b'$').collect::<Vec<_>>().join(token);
            request = request.header("cookie", HeaderValue::from_bytes(&line).unwrap());
        }
        app.service()
            .call(request.body(Full::new(Bytes::new())).unwrap())
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    for good in [
        &[&b"__Host-token=$"[..]][..],
        &[b"theme=d\xc3\xa4mmerung; __Host-token=$"],
        &[b"\xff\xfe=1; a; __Host-token=$; name=\xe9"],
        &[b"__Host-token=$", b"name=\xe9"],
    ] {
        assert_eq!(me(good).await, 200, "{good:?}");
    }
    for bad in [
        &[&b"__Host-token=$\xe9"[..]][..],
        &[b"__Host-token=$; __Host-token=$"],
        &[b"__Host-token=\xe9; __Host-token=$"],
        &[b"__Host-token=$", b"__Host-token=$"],
        &[b"\xe9__Host-token=$"],
    ] {
        assert_eq!(me(bad).await, 401, "{bad:?}");
    }
}

/// Records the ended sessions that the plugin reports to a session watch.
#[derive(Clone, Default)]
struct EndRecorder(Arc<Mutex<Vec<Ended>>>);

/// A user, and the session that ended; `None` for the whole account.
type Ended = (String, Option<String>);

impl EndRecorder {
    fn take_recorded(&self) -> Vec<Ended> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl SessionWatch for EndRecorder {
    fn session_ended<'a>(
        &'a self,
        cx: &'a Cx,
        user: &'a str,
        session: &'a str,
    ) -> BoxFuture<'a, Result<()>> {
        assert!(cx.is_in_transaction());
        let ended = (user.to_owned(), Some(session.to_owned()));
        self.0.lock().unwrap().push(ended);
        Box::pin(async { Ok(()) })
    }

    fn account_deleted<'a>(&'a self, cx: &'a Cx, user: &'a str) -> BoxFuture<'a, Result<()>> {
        assert!(cx.is_in_transaction());
        self.0.lock().unwrap().push((user.to_owned(), None));
        Box::pin(async { Ok(()) })
    }
}

impl Plugin for EndRecorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        cx.watch_sessions(self.clone());
        Box::pin(async { Ok(()) })
    }
}

async fn the_end_of_a_session_is_reported_to_other_plugins(store: Store) {
    let recorder = EndRecorder::default();
    let at_once =
        |auth: Auth| auth.configure(|config| config.auth.account_deletion.grace_seconds = 0);
    let app = store.with_plugin(recorder.clone(), at_once).await;
    let first = app.register("ada@example.test").await;
    let second = app.login("ada@example.test").await;
    let handle = async |token: &str| {
        let list = app.get(token, "/auth/sessions").await.json();
        let sessions = list["sessions"].as_array().unwrap().clone();
        let current = sessions.into_iter().find(|one| one["current"] == true);
        current.unwrap()["sessionId"].as_str().map(str::to_owned)
    };
    let (one, other) = (handle(&first.token).await, handle(&second.token).await);
    assert_eq!(recorder.take_recorded(), []);
    let logout = app.with(&first.token, "POST", "/auth/logout", None).await;
    assert_eq!(logout.status, 200);
    assert_eq!(recorder.take_recorded(), [(first.id.clone(), one)]);
    app.change(&first.id, json!({ "suspended": true })).await;
    assert_eq!(app.me(&second.token).await.status, 401);
    app.change(&first.id, json!({ "suspended": false })).await;
    let ended_sessions = recorder.take_recorded();
    assert!(
        ended_sessions
            .iter()
            .all(|ended| *ended == (first.id.clone(), other.clone())),
        "{ended_sessions:?}"
    );

    let third = app.login("ada@example.test").await;
    let handle = handle(&third.token).await;
    let password = json!({ "password": GOOD });
    let deleted = app
        .with(&third.token, "DELETE", "/auth/me", Some(password))
        .await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
    let ended_sessions = recorder.take_recorded();
    assert!(
        ended_sessions.contains(&(first.id.clone(), handle)),
        "{ended_sessions:?}"
    );
    assert_eq!(ended_sessions.last(), Some(&(first.id.clone(), None)));
}
