//! Tests of refused requests, and of the end of streams.

use serde_json::{Value as Json, json};

use crate::client::Events;
use crate::test_app::TestApp;

const PATH: &str = "/__sse/notifications";

#[tokio::test]
async fn a_request_that_does_not_accept_events_is_refused() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let bearer = format!("Bearer {}", ada.token);
    let cookie = format!("__Host-token={}", ada.token);
    let own = format!("http://{}", test_app.address());
    let (by_token, by_cookie) = (
        ("authorization", bearer.as_str()),
        ("cookie", cookie.as_str()),
    );
    let json = ("accept", "application/json");
    let foreign = ("origin", "https://evil.test");
    let bad = ("authorization", "Bearer bad");
    for (method, path, headers, status, code) in [
        ("GET", PATH, vec![], 401, "unauthorized"),
        ("GET", PATH, vec![bad], 401, "unauthorized"),
        ("GET", "/__sse/notices", vec![bad], 401, "unauthorized"),
        ("GET", PATH, vec![by_token, json], 406, "not_acceptable"),
        (
            "GET",
            PATH,
            vec![by_cookie, foreign],
            403,
            "origin_not_allowed",
        ),
        (
            "GET",
            PATH,
            vec![by_cookie, ("origin", "null")],
            403,
            "origin_not_allowed",
        ),
        ("GET", "/__sse/moderation", vec![by_token], 403, "forbidden"),
        (
            "GET",
            "/__sse/notifications?token=x",
            vec![by_token],
            400,
            "unknown_parameter",
        ),
        (
            "PUT",
            PATH,
            vec![by_token, ("content-length", "0")],
            405,
            "method_not_allowed",
        ),
        ("GET", "/__sse/other", vec![by_token], 404, "not_found"),
    ] {
        let refused = Events::request(test_app.address(), method, path, &headers).await;
        assert_eq!(refused.status, status, "{method} {path} {headers:?}");
        assert!(
            refused
                .header("content-type")
                .starts_with("application/json")
        );
        let body: Json = serde_json::from_str(&refused.rest().await).unwrap();
        assert_eq!(body["code"], code, "{method} {path} {headers:?}");
    }
    for headers in [
        vec![by_token, ("accept", "text/event-stream")],
        vec![by_token, foreign],
        vec![by_cookie],
        vec![by_cookie, ("origin", own.as_str())],
    ] {
        let open = Events::open(test_app.address(), PATH, &headers).await;
        assert_eq!(open.status, 200, "{headers:?}");
    }
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn response_headers_forbid_proxies_to_store_or_buffer_a_stream() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let bearer = format!("Bearer {}", ada.token);
    let headers = [
        ("authorization", bearer.as_str()),
        ("accept-encoding", "gzip, br"),
    ];
    let mut open = Events::open(test_app.address(), PATH, &headers).await;
    for (name, value) in [
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-store, no-transform"),
        ("x-accel-buffering", "no"),
        ("content-length", ""),
        ("content-encoding", ""),
    ] {
        assert_eq!(open.header(name), value, "{}", open.head);
    }
    assert!(
        open.block()
            .await
            .starts_with(": connected\nretry: 3000\nid: ")
    );
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn the_ninth_stream_of_a_user_is_refused_until_one_ends() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(test_app.open(&ada, PATH).await.0);
    }
    let bearer = format!("Bearer {}", ada.token);
    let headers = [("authorization", bearer.as_str())];
    let ninth = Events::open(test_app.address(), PATH, &headers).await;
    assert_eq!((ninth.status, ninth.header("retry-after")), (429, "5"));
    test_app.open(&bob, PATH).await;
    test_app.open(&ada, "/__sse/boards").await;
    // The server detects that a client has disconnected only when it writes to this client.
    drop(open.pop());
    loop {
        test_app.notify(&ada, "one").await;
        if Events::open(test_app.address(), PATH, &headers)
            .await
            .status
            == 200
        {
            break;
        }
    }
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn anonymous_streams_per_address_are_limited() {
    let test_app = TestApp::with(
        |plugin| plugin.configure(|config| config.limits.connections_per_address = 3),
        |auth| auth,
    )
    .await;
    let path = "/__sse/notices";
    let mut open = Vec::new();
    for _ in 0..3 {
        let events = Events::open(test_app.address(), path, &[]).await;
        assert_eq!(events.status, 200);
        open.push(events);
    }
    let refused = Events::open(test_app.address(), path, &[]).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "5"));
    // Streams of a user are counted separately.
    let ada = test_app.user("ada").await;
    test_app.open(&ada, path).await;
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_streams_and_the_next_request_is_refused() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let (mut ada_events, _) = test_app.open(&ada, PATH).await;
    let (mut bob_events, _) = test_app.open(&bob, PATH).await;
    let ended = ada.http.post("/auth/logout", ()).await.unwrap();
    assert_eq!(ended.status(), 200, "{:?}", ended.text());
    assert_eq!(
        ada_events.block().await,
        "event: linchpin:close\ndata: {\"code\":4401,\"reason\":\"session_ended\"}\n\n"
    );
    assert_eq!(ada_events.block().await, "");
    let bearer = format!("Bearer {}", ada.token);
    let again = Events::open(test_app.address(), PATH, &[("authorization", &bearer)]).await;
    assert_eq!(again.status, 401);
    test_app.notify(&bob, "still here").await;
    assert!(
        bob_events
            .event()
            .await
            .unwrap()
            .data
            .contains("still here")
    );
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn removing_a_role_ends_the_stream_that_needs_it() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    test_app
        .auth
        .set_roles(&ada.id, vec!["member".to_owned(), "moderator".to_owned()])
        .await
        .unwrap();
    let ada = test_app.session(&ada.id).await;
    let (mut events, _) = test_app.open(&ada, "/__sse/moderation").await;
    test_app
        .auth
        .set_roles(&ada.id, vec!["member".to_owned()])
        .await
        .unwrap();
    let closed = events.event().await.unwrap();
    assert_eq!(closed.event, "linchpin:close");
    assert_eq!(events.event().await, None);
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_stop_ends_every_stream_and_sends_the_retry_time() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let (mut events, _) = test_app.open(&ada, PATH).await;
    test_app.notify(&ada, "before").await;
    let stop = tokio::spawn(test_app.app.stop());
    let mut last = String::new();
    loop {
        let block = events.block().await;
        if block.is_empty() {
            break;
        }
        last = block;
    }
    assert_eq!(last, "retry: 3000\n\n");
    stop.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_openapi_document_lists_the_endpoints() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let document: Json = ada.http.get("/openapi.json").await.unwrap().json().unwrap();
    let route = &document["paths"][PATH]["get"];
    assert_eq!(route["x-linchpin-kind"], "stream");
    assert_eq!(route["summary"], "The signed-in user's notifications.");
    assert!(route["responses"]["200"]["content"]["text/event-stream"].is_object());
    assert!(route["responses"]["406"].is_object() && route["responses"]["401"].is_object());
    let parameters = route["parameters"].as_array().unwrap();
    assert!(
        parameters
            .iter()
            .any(|one| one["name"] == json!("lastEventId"))
    );
    assert_eq!(
        document["paths"]["/__sse/notices"]["get"]["security"],
        json!([])
    );
    test_app.app.stop().await.unwrap();
}
