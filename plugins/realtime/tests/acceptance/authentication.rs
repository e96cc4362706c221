//! Tests of credentials on an open connection.

use linchpin::testing::Client;
use linchpin_auth::Auth;
use serde_json::{Value as Json, json};

use crate::socket::Socket;
use crate::test_app::{TestApp, User, room};

/// Opens a connection without a credential and reads its first frame.
async fn pending(test_app: &TestApp) -> Socket {
    let mut socket = Socket::open(test_app.app.address(), &[]).await;
    let connected = socket.next().await;
    assert_eq!(
        (&connected["userId"], &connected["pending"]),
        (&Json::Null, &json!(true))
    );
    socket
}

async fn authenticate(socket: &mut Socket, token: &str) -> Json {
    socket.send(json!({ "type": "auth", "token": token })).await;
    loop {
        let frame = socket.next().await;
        if frame["event"]
            .as_str()
            .is_some_and(|event| event.starts_with("auth:"))
        {
            return frame;
        }
    }
}

#[tokio::test]
async fn a_client_without_a_credential_sends_one_first() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let room = room(&test_app.container(&ada, "public").await);
    let mut socket = pending(&test_app).await;
    socket
        .send(json!({ "action": "subscribe", "room": room }))
        .await;
    let refused = socket.next().await;
    assert_eq!(
        (&refused["event"], &refused["code"], &refused["sourceEvent"]),
        (
            &json!("ws:error"),
            &json!("UNAUTHENTICATED"),
            &json!("subscribe")
        )
    );
    socket
        .send(json!({ "action": "event", "event": "pin", "room": room, "ackId": 1 }))
        .await;
    let ack = socket.next().await;
    assert_eq!(
        (&ack["event"], &ack["error"]),
        (&json!("ack"), &json!("unauthenticated"))
    );
    let bound = authenticate(&mut socket, &ada.token).await;
    assert_eq!(
        (&bound["event"], &bound["userId"]),
        (&json!("auth:authenticated"), &json!(ada.id))
    );
    assert!(bound["expiresAt"].is_string());
    assert!(
        socket.pending().await.is_empty(),
        "the earlier subscription was not executed"
    );
    socket.join(&room).await;
}

#[tokio::test]
async fn the_third_bad_token_ends_the_connection() {
    let test_app = TestApp::start().await;
    let mut socket = pending(&test_app).await;
    for token in ["bad", "", "worse"] {
        let refused = authenticate(&mut socket, token).await;
        assert_eq!(refused["code"], "INVALID_CREDENTIALS");
    }
    assert_eq!(socket.closed().await, (4401, "auth_failed".to_owned()));
}

#[tokio::test]
async fn a_client_that_sends_no_credential_is_closed() {
    let second = std::time::Duration::from_secs(1);
    let test_app = TestApp::limited(|limits| limits.authentication_time = second).await;
    let mut socket = pending(&test_app).await;
    assert_eq!(socket.closed().await, (4401, "auth_timeout".to_owned()));
}

#[tokio::test]
async fn an_identity_is_refreshed_only_by_a_token_of_the_same_user() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let mut socket = test_app.member(&ada, &room(&container)).await;
    let again = test_app.session(&ada.id).await;
    let refreshed = authenticate(&mut socket, &again.token).await;
    assert_eq!(
        (&refreshed["refreshed"], &refreshed["userId"]),
        (&json!(true), &json!(ada.id))
    );
    let refused = authenticate(&mut socket, &bob.token).await;
    assert_eq!(refused["code"], "IDENTITY_ALREADY_BOUND");
    test_app.draft(&ada, &container).await;
    // Only Ada may see her draft, so the frame shows that the connection still acts for her.
    socket.until("threads.created").await;
}

/// Opens a connection and authenticates it with a frame. Also returns the milliseconds until its
/// token expires.
async fn bound(test_app: &TestApp, user: &User) -> (Socket, i64) {
    let mut socket = pending(test_app).await;
    let bound = authenticate(&mut socket, &user.token).await;
    let expires = bound["expiresAt"]
        .as_str()
        .unwrap()
        .parse::<linchpin::Timestamp>()
        .unwrap();
    (
        socket,
        expires.millis() - test_app.app.adapters().now().millis(),
    )
}

#[tokio::test]
async fn an_expiring_token_causes_a_notice_and_closes_the_connection() {
    let test_app = TestApp::with(|plugin| plugin, Auth::refresh_tokens).await;
    let ada = test_app.user("ada").await;
    let (mut socket, left) = bound(&test_app, &ada).await;
    let (mut other, _) = bound(&test_app, &ada).await;
    test_app.advance(left - 30_000);
    // A frame makes the connection check the clock.
    for socket in [&mut socket, &mut other] {
        socket.text("ping").await;
        socket.until("auth:expiring").await;
    }
    let again = test_app.session(&ada.id).await;
    let refreshed = authenticate(&mut other, &again.token).await;
    assert_eq!(refreshed["refreshed"], true, "{refreshed}");
    test_app.advance(61_000);
    socket.text("ping").await;
    assert_eq!(socket.closed().await, (4401, "token_expired".to_owned()));
    other.text("ping").await;
    other.until("pong").await;
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_connections() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let again = test_app.session(&ada.id).await;
    let container = test_app.container(&ada, "public").await;
    let mut first = test_app.member(&ada, &room(&container)).await;
    let mut second = test_app.connect(&ada).await;
    let mut other = test_app.member(&again, &room(&container)).await;
    let out = ada.http.post("/auth/logout", ()).await.unwrap();
    assert!(out.status() < 300, "{:?}", out.text());
    for socket in [&mut first, &mut second] {
        assert_eq!(socket.closed().await, (4401, "session_ended".to_owned()));
    }
    test_app.announce(&container, "still here").await;
    other.until("announcement").await;
}

#[tokio::test]
async fn a_removed_role_is_missing_at_the_next_frame() {
    let test_app = TestApp::start().await;
    let moderator = test_app.user_with("ada", &["moderator"]).await;
    let container = test_app.container(&moderator, "public").await;
    let mut socket = test_app.member(&moderator, &room(&container)).await;
    let (first, second) = (
        test_app.draft(&moderator, &container).await,
        test_app.draft(&moderator, &container).await,
    );
    let pin = |thread: &str, ack: u64| {
        json!({
            "action": "event", "event": "pin", "room": room(&container), "ackId": ack,
            "payload": { "id": thread },
        })
    };
    socket.send(pin(&first, 1)).await;
    assert_eq!(socket.until("ack").await["outcome"], "ok");
    test_app
        .auth
        .set_roles(&moderator.id, vec!["member".to_owned()])
        .await
        .unwrap();
    socket.send(pin(&second, 2)).await;
    let ack = socket.until("ack").await;
    assert_eq!(
        (&ack["outcome"], &ack["error"]),
        (&json!("error"), &json!("forbidden"))
    );
}

/// Returns a client with the cookies of a session, and its CSRF token.
async fn browser(test_app: &TestApp, user: &User) -> Client {
    let http = Client::new(&test_app.app);
    let cookie = format!("__Host-token={}", user.token);
    let me = http
        .with_header("cookie", &cookie)
        .unwrap()
        .get("/auth/me")
        .await
        .unwrap();
    let set = me.headers().get_all("set-cookie").iter();
    let csrf = set
        .filter_map(|value| value.to_str().ok()?.strip_prefix("csrf_token="))
        .find_map(|rest| rest.split(';').next())
        .expect("a token against forged requests")
        .to_owned();
    http.with_header("cookie", &format!("{cookie}; csrf_token={csrf}"))
        .and_then(|http| http.with_header("x-csrf-token", &csrf))
        .and_then(|http| http.with_header("origin", "http://localhost"))
        .and_then(|http| http.with_header("host", "localhost"))
        .unwrap()
}

#[tokio::test]
async fn a_page_with_cookies_extends_its_connection() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let address = test_app.app.address();
    let open = async |user: &User| {
        let (cookie, origin) = (
            format!("__Host-token={}", user.token),
            format!("http://{address}"),
        );
        let headers = [("cookie", cookie.as_str()), ("origin", origin.as_str())];
        let mut socket = Socket::open(address, &headers).await;
        let id = socket.next().await["id"].as_str().unwrap().to_owned();
        (socket, id)
    };
    let (mut ada_socket, own_id) = open(&ada).await;
    let (_bob_socket, foreign_id) = open(&bob).await;
    let page = browser(&test_app, &ada).await;
    let refresh = async |page: &Client, id: &str| {
        let body = json!({ "connectionId": id });
        page.post("/__ws/refresh", body).await.unwrap().status()
    };
    assert_eq!(refresh(&page, &own_id).await, 204);
    assert_eq!(
        ada_socket.until("auth:authenticated").await["refreshed"],
        true
    );
    assert_eq!(refresh(&page, &foreign_id).await, 404);
    assert_eq!(refresh(&page, "unknown").await, 404);
    let forged = page.with_header("x-csrf-token", "forged").unwrap();
    assert_eq!(refresh(&forged, &own_id).await, 403);
    assert_eq!(refresh(&Client::new(&test_app.app), &own_id).await, 401);
}

#[tokio::test]
async fn extensions_are_counted_like_handshakes() {
    let test_app = TestApp::limited(|limits| limits.handshakes_per_minute = 2).await;
    let ada = test_app.user("ada").await;
    let page = browser(&test_app, &ada).await;
    let mut answers = Vec::new();
    for _ in 0..3 {
        let body = json!({ "connectionId": "unknown" });
        let answer = page.post("/__ws/refresh", body).await.unwrap();
        answers.push(answer.status());
    }
    assert_eq!(answers, [404, 404, 429]);
}
