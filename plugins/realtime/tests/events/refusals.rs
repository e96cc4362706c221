//! Requests that become no stream, and the ends of streams.

use serde_json::{Value as Json, json};

use crate::bed::Bed;
use crate::client::Events;

const PATH: &str = "/__sse/notifications";

#[tokio::test]
async fn a_request_that_is_no_request_for_events_is_refused() {
    let bed = Bed::start().await;
    let ada = bed.user("ada").await;
    let bearer = format!("Bearer {}", ada.token);
    let cookie = format!("__Host-token={}", ada.token);
    let own = format!("http://{}", bed.address());
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
        let refused = Events::request(bed.address(), method, path, &headers).await;
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
        let open = Events::open(bed.address(), PATH, &headers).await;
        assert_eq!(open.status, 200, "{headers:?}");
    }
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_response_is_neither_stored_nor_collected_on_its_way() {
    let bed = Bed::start().await;
    let ada = bed.user("ada").await;
    let bearer = format!("Bearer {}", ada.token);
    let headers = [
        ("authorization", bearer.as_str()),
        ("accept-encoding", "gzip, br"),
    ];
    let mut open = Events::open(bed.address(), PATH, &headers).await;
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
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn the_ninth_stream_of_a_user_is_refused_until_one_ends() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(bed.open(&ada, PATH).await.0);
    }
    let bearer = format!("Bearer {}", ada.token);
    let headers = [("authorization", bearer.as_str())];
    let ninth = Events::open(bed.address(), PATH, &headers).await;
    assert_eq!((ninth.status, ninth.header("retry-after")), (429, "5"));
    bed.open(&bob, PATH).await;
    bed.open(&ada, "/__sse/boards").await;
    // The server learns that a client has left when it writes.
    drop(open.pop());
    loop {
        bed.notify(&ada, "one").await;
        if Events::open(bed.address(), PATH, &headers).await.status == 200 {
            break;
        }
    }
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn an_address_has_so_many_anonymous_streams() {
    let bed = Bed::with(
        |plugin| plugin.configure(|config| config.limits.connections_per_address = 3),
        |auth| auth,
    )
    .await;
    let path = "/__sse/notices";
    let mut open = Vec::new();
    for _ in 0..3 {
        let events = Events::open(bed.address(), path, &[]).await;
        assert_eq!(events.status, 200);
        open.push(events);
    }
    let refused = Events::open(bed.address(), path, &[]).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "5"));
    // A user has places of its own.
    let ada = bed.user("ada").await;
    bed.open(&ada, path).await;
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_streams_and_the_next_request_is_refused() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let (mut of_ada, _) = bed.open(&ada, PATH).await;
    let (mut of_bob, _) = bed.open(&bob, PATH).await;
    let ended = ada.http.post("/auth/logout", ()).await.unwrap();
    assert_eq!(ended.status(), 200, "{:?}", ended.text());
    assert_eq!(
        of_ada.block().await,
        "event: linchpin:close\ndata: {\"code\":4401,\"reason\":\"session_ended\"}\n\n"
    );
    assert_eq!(of_ada.block().await, "");
    let bearer = format!("Bearer {}", ada.token);
    let again = Events::open(bed.address(), PATH, &[("authorization", &bearer)]).await;
    assert_eq!(again.status, 401);
    bed.notify(&bob, "still here").await;
    assert!(of_bob.event().await.unwrap().data.contains("still here"));
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_role_that_is_taken_ends_the_stream_that_needs_it() {
    let bed = Bed::start().await;
    let ada = bed.user("ada").await;
    bed.auth
        .set_roles(&ada.id, vec!["member".to_owned(), "moderator".to_owned()])
        .await
        .unwrap();
    let ada = bed.session(&ada.id).await;
    let (mut events, _) = bed.open(&ada, "/__sse/moderation").await;
    bed.auth
        .set_roles(&ada.id, vec!["member".to_owned()])
        .await
        .unwrap();
    let closed = events.event().await.unwrap();
    assert_eq!(closed.event, "linchpin:close");
    assert_eq!(events.event().await, None);
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_stop_ends_every_stream_and_tells_when_to_come_back() {
    let bed = Bed::start().await;
    let ada = bed.user("ada").await;
    let (mut events, _) = bed.open(&ada, PATH).await;
    bed.notify(&ada, "before").await;
    let stop = tokio::spawn(bed.app.stop());
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
async fn endpoints_are_in_the_document() {
    let bed = Bed::start().await;
    let ada = bed.user("ada").await;
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
    bed.app.stop().await.unwrap();
}
