//! Tests of the routes of subscriptions.

use linchpin::Cx;
use linchpin::axum::body::Body;
use linchpin::axum::http::Request;
use linchpin::http::SessionWatches;
use linchpin::testing::Client;
use linchpin_push::{PushMessage, VapidKey};
use serde_json::{Value as Json, json};

use crate::receiver::Receiver;
use crate::test_app::{Browser, Requests, TestApp};

const ENDPOINT: &str = "http://127.0.0.1:9999/a";

/// The paths of the problems in a response with 400.
fn problem_paths(answer: &linchpin::testing::Answer) -> Vec<String> {
    assert_eq!(answer.status(), 400, "{:?}", answer.text());
    let details = answer.json().unwrap()["details"].clone();
    let paths = details.as_array().unwrap().iter();
    paths
        .map(|one| one["path"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_browser_that_subscribes_again_keeps_its_subscription() {
    let test_app = TestApp::start().await;
    let (ada, browser) = (test_app.user("ada"), Browser::new());
    let first = ada.subscribe(&browser, ENDPOINT).await;
    assert_eq!(first.status(), 201, "{:?}", first.text());
    let first = first.json().unwrap();
    assert_eq!(first["ok"], true);
    let again = ada.subscribe(&browser, ENDPOINT).await;
    assert_eq!(again.status(), 200);
    assert_eq!(again.json().unwrap()["id"], first["id"]);
    assert_eq!(test_app.subscriptions("ada").len(), 1);

    let anonymous = Client::new(&test_app.app)
        .subscribe(&browser, ENDPOINT)
        .await;
    assert_eq!(anonymous.status(), 401);
    assert_eq!(
        Client::new(&test_app.app)
            .get("/__push/subscriptions")
            .await
            .unwrap()
            .status(),
        401
    );
}

#[tokio::test]
async fn invalid_subscriptions_are_refused() {
    let test_app = TestApp::start().await;
    let (ada, browser) = (test_app.user("ada"), Browser::new());
    let post = async |body: Json| ada.post("/__push/subscribe", body).await.unwrap();
    let with = |change: &dyn Fn(&mut Json)| {
        let mut body = browser.at(ENDPOINT);
        change(&mut body);
        body
    };
    for (keys, expected) in [
        (json!({}), vec!["keys.auth", "keys.p256dh"]),
        (json!(null), vec!["keys"]),
        (json!("x"), vec!["keys.auth", "keys.p256dh"]),
        (json!({ "p256dh": browser.p256dh }), vec!["keys.auth"]),
        (
            json!({ "p256dh": browser.p256dh, "auth": "AAAA" }),
            vec!["keys.auth"],
        ),
        (
            json!({ "p256dh": browser.p256dh, "auth": 1 }),
            vec!["keys.auth"],
        ),
        (
            json!({ "p256dh": "AAAA", "auth": browser.auth }),
            vec!["keys.p256dh"],
        ),
        (
            // A point that is not on the curve.
            json!({ "p256dh": format!("B{}", "A".repeat(86)), "auth": browser.auth }),
            vec!["keys.p256dh"],
        ),
    ] {
        let answer = post(with(&|body| body["keys"] = keys.clone())).await;
        assert_eq!(problem_paths(&answer), expected, "{keys}");
    }
    for endpoint in [
        "ftp://127.0.0.1/a",
        "http://127.0.0.1.evil.example/a",
        "https://evil.example/a",
        "https://push.example/a",
        "https://a.push.example.evil.example/a",
        "https://user@a.push.example/a",
        "https://a.push.example/a#b",
        "https://a.push.example:22/a",
        "https://localhost/a",
        "https://10.0.0.1/a",
        "https://[::1]/a",
        "no address",
        "",
    ] {
        let answer = post(with(&|body| body["endpoint"] = json!(endpoint))).await;
        assert_eq!(problem_paths(&answer), ["endpoint"], "{endpoint}");
    }
    let long = format!("https://a.push.example/{}", "x".repeat(2_048));
    assert_eq!(
        problem_paths(&post(with(&|body| body["endpoint"] = json!(long))).await),
        ["endpoint"]
    );
    let key = VapidKey::generate();
    let answer = post(with(&|body| {
        body["vapidPublicKey"] = json!(key.public_text());
    }))
    .await;
    assert_eq!(problem_paths(&answer), ["vapidPublicKey"]);
    let answer = post(json!({ "endpoint": "x", "keys": {}, "vapidPublicKey": "x" })).await;
    assert_eq!(
        problem_paths(&answer).len(),
        4,
        "all problems are reported at once"
    );
    assert!(test_app.subscriptions("ada").is_empty());

    let zero = json!({ "endpoint": "http://127.0.0.1:9999/\u{0}" });
    assert_eq!(
        problem_paths(&ada.delete_with("/__push/subscribe", zero).await),
        ["endpoint"]
    );
    for path in [
        "/__push/ack/%00",
        "/__push/ack/%ff",
        "/__push/subscriptions/%00",
    ] {
        let answer = if path.contains("ack") {
            ada.post(path, json!({})).await.unwrap()
        } else {
            ada.delete(path).await.unwrap()
        };
        assert_eq!(answer.status(), 404, "{path}: {:?}", answer.text());
    }
    for (number, time) in [1e300, -1e300, 0.5, 253_402_300_799_999.0]
        .into_iter()
        .enumerate()
    {
        let answer = post(with(&|body| {
            body["endpoint"] = json!(format!("{ENDPOINT}/{number}"));
            body["expirationTime"] = json!(time);
        }));
        assert_eq!(answer.await.status(), 201, "{time}");
    }

    // Base64 with padding is allowed, and so is an expiration time.
    let answer = post(with(&|body| {
        body["keys"]["auth"] = json!(format!("{}==", browser.auth));
        body["expirationTime"] = json!(1_800_000_000_000_i64);
        body["vapidPublicKey"] = json!(test_app.keys[0].public_text());
    }));
    assert_eq!(answer.await.status(), 201);
}

#[tokio::test]
async fn http_is_refused_unless_it_is_allowed() {
    let test_app = TestApp::with(|push| push.configure(|config| config.allow_http = false)).await;
    let answer = test_app
        .user("ada")
        .subscribe(&Browser::new(), ENDPOINT)
        .await;
    assert_eq!(problem_paths(&answer), ["endpoint"]);
}

#[tokio::test]
async fn forged_requests_are_refused() {
    let test_app = TestApp::start().await;
    let (ada, browser) = (test_app.user("ada"), Browser::new());
    let host = test_app.app.address().to_string();
    let send = async |method: &str, path: &str, kind: Option<&str>, origin: Option<&str>| {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &host);
        for (name, value) in [("content-type", kind), ("origin", origin)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let body = match path {
            "/__push/subscribe" if method == "POST" => browser.at(ENDPOINT).to_string(),
            "/__push/subscribe" => json!({ "endpoint": ENDPOINT }).to_string(),
            _ => String::new(),
        };
        let answer = ada
            .call(request.body(Body::from(body)).unwrap())
            .await
            .unwrap();
        let code = answer
            .json()
            .map_or(Json::Null, |json| json["code"].clone());
        (answer.status(), code)
    };
    let json = Some("application/json");
    let own = format!("http://{host}");
    for (method, path) in [
        ("POST", "/__push/subscribe"),
        ("DELETE", "/__push/subscribe"),
        ("POST", "/__push/ack/x"),
        ("POST", "/__push/test"),
    ] {
        let (status, code) = send(method, path, Some("text/plain"), Some(&own)).await;
        assert_eq!(
            (status, code),
            (415, json!("unsupported_media_type")),
            "{method} {path}"
        );
        let (status, _) = send(method, path, None, None).await;
        assert_eq!(status, 415, "{method} {path}");
        let own_but_longer = format!("{own}.evil.example");
        let foreign = [
            "https://evil.example",
            "null",
            "",
            "http://",
            &own_but_longer,
        ];
        // Refused requests also count toward the rate limit of the test route.
        let few = if path == "/__push/test" {
            3
        } else {
            foreign.len()
        };
        for foreign in &foreign[..few] {
            let (status, code) = send(method, path, json, Some(foreign)).await;
            assert_eq!(
                (status, code),
                (403, json!("origin_not_allowed")),
                "{path} {foreign}"
            );
        }
    }
    let (status, _) = send(
        "DELETE",
        "/__push/subscriptions/x",
        None,
        Some("https://evil.example"),
    )
    .await;
    assert_eq!(status, 403);
    assert!(test_app.subscriptions("ada").is_empty());
    assert_eq!(
        send("POST", "/__push/subscribe", json, Some(&own)).await.0,
        201
    );
    assert_eq!(
        send("DELETE", "/__push/subscribe", json, Some(&own))
            .await
            .0,
        204
    );
}

#[tokio::test]
async fn a_user_removes_own_subscriptions_only() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada"), test_app.user("bob"));
    let id = test_app.subscribe("ada", &Browser::new(), ENDPOINT).await;
    let body = json!({ "endpoint": ENDPOINT });
    assert_eq!(
        bob.delete_with("/__push/subscribe", body.clone())
            .await
            .status(),
        204
    );
    let path = format!("/__push/subscriptions/{id}");
    assert_eq!(bob.delete(&path).await.unwrap().status(), 204);
    assert_eq!(test_app.subscriptions("ada").len(), 1);
    for _ in 0..2 {
        assert_eq!(
            ada.delete_with("/__push/subscribe", body.clone())
                .await
                .status(),
            204
        );
        assert!(test_app.subscriptions("ada").is_empty());
    }
    let id = test_app.subscribe("ada", &Browser::new(), ENDPOINT).await;
    let path = format!("/__push/subscriptions/{id}");
    assert_eq!(ada.delete(&path).await.unwrap().status(), 204);
    assert!(test_app.subscriptions("ada").is_empty());
}

#[tokio::test]
async fn a_subscription_moves_to_another_user_only_with_its_keys() {
    let test_app = TestApp::start().await;
    let (bob, browser) = (test_app.user("bob"), Browser::new());
    let first = test_app.subscribe("ada", &browser, ENDPOINT).await;
    let stolen = bob.subscribe(&Browser::new(), ENDPOINT).await;
    assert_eq!(stolen.status(), 409);
    assert_eq!(stolen.json().unwrap()["code"], "conflict");
    assert_eq!(test_app.subscriptions("ada").len(), 1);

    let moved = bob.subscribe(&browser, ENDPOINT).await;
    assert_eq!(moved.status(), 201, "{:?}", moved.text());
    assert_ne!(moved.json().unwrap()["id"], first);
    assert!(test_app.subscriptions("ada").is_empty());
    assert_eq!(test_app.subscriptions("bob").len(), 1);
    assert_eq!(test_app.send(&PushMessage::new("ada", "x")).await, 0);

    // The same user in another tenant takes over the subscription of the browser.
    let elsewhere = test_app
        .user_of("bob", "bob", "t2")
        .subscribe(&Browser::new(), ENDPOINT)
        .await;
    assert_eq!(elsewhere.status(), 201);
    assert_eq!(test_app.subscriptions("bob").len(), 1);
}

#[tokio::test]
async fn browsers_are_listed_and_the_21st_replaces_the_oldest() {
    let test_app = TestApp::start().await;
    let mut ids = Vec::new();
    for number in 0..21 {
        let endpoint = format!("https://a.push.example/{number}");
        ids.push(test_app.subscribe("ada", &Browser::new(), &endpoint).await);
    }
    let other = test_app.user_of("ada", "another session", "t1");
    let answer = other
        .subscribe(&Browser::new(), "https://a.push.example/20")
        .await;
    assert_eq!(answer.status(), 200);
    let page = other
        .get("/__push/subscriptions")
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(
        (&page["nextCursor"], &page["hasMore"]),
        (&Json::Null, &json!(false))
    );
    let items = page["items"].as_array().unwrap();
    assert_eq!(items.len(), 20);
    assert!(items.iter().all(|one| one["id"] != ids[0].as_str()));
    let current: Vec<&Json> = items.iter().filter(|one| one["current"] == true).collect();
    assert_eq!(current.len(), 1);
    assert_eq!(current[0]["id"], ids[20].as_str());
    let mut names: Vec<&String> = current[0].as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(
        names,
        ["createdAt", "current", "endpointHost", "id", "userAgent"]
    );
    let bob = test_app
        .user("bob")
        .get("/__push/subscriptions")
        .await
        .unwrap();
    assert_eq!(bob.json().unwrap()["items"], json!([]));
}

#[tokio::test]
async fn the_public_key_and_the_worker_are_public() {
    let test_app = TestApp::start().await;
    let anonymous = Client::new(&test_app.app);
    let key = anonymous.get("/__push/vapid-public-key").await.unwrap();
    assert_eq!(key.header("cache-control"), Some("max-age=300"));
    assert_eq!(
        key.json().unwrap(),
        json!({ "publicKey": test_app.keys[0].public_text() })
    );
    let worker = anonymous.get("/sw.js").await.unwrap();
    assert_eq!(worker.header("cache-control"), Some("no-cache"));
    assert_eq!(
        worker.header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    assert!(worker.text().unwrap().contains("pushsubscriptionchange"));
}

#[tokio::test]
async fn secrets_of_browsers_are_stored_encrypted() {
    let test_app = TestApp::start().await;
    let browser = Browser::new();
    test_app.subscribe("ada", &browser, ENDPOINT).await;
    let stored = test_app.stored();
    let contains = |text: &[u8]| stored.windows(text.len()).any(|part| part == text);
    assert!(
        contains(browser.p256dh.as_bytes()),
        "the public key is not in the files of the database"
    );
    assert!(!contains(browser.auth.as_bytes()));
}

#[tokio::test]
async fn the_end_of_a_session_suspends_its_subscriptions() {
    let test_app = TestApp::start().await;
    let service = Receiver::start().await;
    let browser = Browser::new();
    test_app.subscribe("ada", &browser, &service.url()).await;
    let ended = async |user: &str, session: &str| {
        let watches = SessionWatches::of(test_app.app.adapters());
        watches
            .session_ended(&Cx::system("a test"), user, session)
            .await
            .unwrap();
    };
    ended("ada", "another session").await;
    ended("bob", "ada").await;
    assert_eq!(test_app.subscriptions("ada")[0]["status"], "active");
    ended("ada", "ada").await;
    assert_eq!(test_app.subscriptions("ada")[0]["status"], "suspended");
    assert_eq!(test_app.send(&PushMessage::new("ada", "x")).await, 0);
    test_app.subscribe("ada", &browser, &service.url()).await;
    assert_eq!(test_app.subscriptions("ada")[0]["status"], "active");
    assert_eq!(test_app.send(&PushMessage::new("ada", "x")).await, 1);
    test_app.until("ada", "sent").await;
    assert_eq!(service.count(), 1);

    let watches = SessionWatches::of(test_app.app.adapters());
    watches
        .account_deleted(&Cx::system("a test"), "ada")
        .await
        .unwrap();
    assert!(test_app.subscriptions("ada").is_empty());
    assert!(test_app.deliveries("ada").is_empty());
}

#[tokio::test]
async fn a_removed_key_suspends_its_subscriptions() {
    let test_app = TestApp::start().await;
    let service = Receiver::start().await;
    let browser = Browser::new();
    test_app.subscribe("ada", &browser, &service.url()).await;
    let (old, new) = (test_app.keys[0].clone(), VapidKey::generate());
    let test_app = test_app.restarted(vec![new.clone(), old.clone()]).await;
    test_app.send(&PushMessage::new("ada", "x")).await;
    test_app.until("ada", "sent").await;
    let header = service.arrived()[0].header("authorization").to_owned();
    assert!(
        header.ends_with(&format!("k={}", old.public_text())),
        "the message is not signed with the key of the subscription"
    );

    let test_app = test_app.restarted(vec![new.clone()]).await;
    test_app.send(&PushMessage::new("ada", "x")).await;
    for _ in 0..6_000 {
        if test_app.subscriptions("ada")[0]["status"] == "suspended" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(test_app.subscriptions("ada")[0]["status"], "suspended");
    assert_eq!(service.count(), 1);
    // With the new key the subscription is active again, and the waiting messages are sent.
    test_app.subscribe("ada", &browser, &service.url()).await;
    let header = service.until(2).await[1].header("authorization").to_owned();
    assert!(header.ends_with(&format!("k={}", new.public_text())));
}
