//! Tests of endpoints: the permission to manage them, refused values, and the secrecy of secrets.

use std::cell::RefCell;

use linchpin::Cx;
use linchpin::seal::Rekey;
use serde_json::{Value as Json, json};
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::bed::{FIRST, SECOND, TestApp};
use crate::receiver::{Plan, Receiver};

thread_local! {
    /// The log of this thread, if its test reads it.
    static LOGGED: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Writes to the log of the thread.
struct Log;

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOGGED.with_borrow_mut(|log| log.get_or_insert_default().extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Captures the log of this thread from now on. The subscriber is installed for the whole process,
/// because tracing caches for each call site whether it is enabled. It ignores the events of other
/// threads.
fn capture_log() {
    let written = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(|| Log);
    let is_kept = |log: &RefCell<Option<Vec<u8>>>| log.borrow().is_some();
    let this_thread_only = dynamic_filter_fn(move |_, _| LOGGED.try_with(is_kept).unwrap_or(false));
    tracing_subscriber::registry()
        .with(written.with_filter(this_thread_only))
        .init();
    LOGGED.set(Some(Vec::new()));
}

#[tokio::test]
async fn a_manager_creates_reads_changes_and_deletes_an_endpoint() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app
        .endpoint(&receiver.url(), json!({ "description": "ours" }))
        .await;
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_"));
    assert_eq!(made["secretHint"], secret[secret.len() - 4..]);
    assert_eq!(
        (&made["status"], &made["isActive"], &made["enabled"]),
        (&json!("active"), &json!(true), &json!(true))
    );
    assert_eq!(
        (&made["ownerType"], &made["ownerId"]),
        (&json!("tenant"), &json!("t1"))
    );
    let contradiction = json!({
        "url": receiver.url(), "events": ["*"], "isActive": false, "status": "active",
    });
    let refused = test_app
        .admin()
        .post("/webhooks/endpoints", contradiction)
        .await;
    let refused = refused.unwrap();
    assert_eq!(refused.status(), 400);
    assert!(refused.text().unwrap().contains("contradicts `status`"));
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    let read = test_app.get(&path).await;
    assert!(
        read.get("secret").is_none() && read.get("sealed").is_none(),
        "{read}"
    );
    let list = test_app.get("/webhooks/endpoints?page=1&pageSize=5").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert!(!list.to_string().contains(secret));
    let admin = test_app.admin();
    let changed = admin
        .patch(&path, json!({ "isActive": false }))
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(
        (&changed["status"], &changed["enabled"]),
        (&json!("paused"), &json!(false))
    );
    let wrong = admin
        .patch(&path, json!({ "isActive": false, "status": "active" }))
        .await
        .unwrap();
    assert_eq!(wrong.status(), 400);
    assert_eq!(
        admin
            .patch(&path, json!({ "status": "disabled" }))
            .await
            .unwrap()
            .status(),
        400
    );
    assert_eq!(admin.delete(&path).await.unwrap().status(), 204);
    assert_eq!(admin.get(&path).await.unwrap().status(), 404);
}

#[tokio::test]
async fn callers_without_the_management_role_cannot_manage_endpoints() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    let member = test_app.caller(Some("t1"), "member");
    let stranger = test_app.caller(Some("t2"), "admin");
    let nobody = linchpin::testing::Client::new(&test_app.app);
    let body = json!({ "url": receiver.url(), "events": ["*"] });
    for (client, expected) in [(&member, 403), (&nobody, 401)] {
        assert_eq!(
            client
                .post("/webhooks/endpoints", &body)
                .await
                .unwrap()
                .status(),
            expected
        );
        assert_eq!(
            client.get("/webhooks/endpoints").await.unwrap().status(),
            expected
        );
        assert_eq!(
            client.get("/webhooks/deliveries").await.unwrap().status(),
            expected
        );
    }
    for (client, expected) in [(&member, 403), (&nobody, 401), (&stranger, 404)] {
        assert_eq!(client.get(&path).await.unwrap().status(), expected);
        assert_eq!(
            client
                .patch(&path, json!({ "ordered": true }))
                .await
                .unwrap()
                .status(),
            expected
        );
        assert_eq!(client.delete(&path).await.unwrap().status(), expected);
        for action in ["rotate-secret", "test"] {
            let path = format!("{path}/{action}");
            assert_eq!(
                client.post(&path, json!({})).await.unwrap().status(),
                expected,
                "{path}"
            );
        }
    }
    assert_eq!(receiver.count(), 0);
}

#[tokio::test]
async fn invalid_urls_events_headers_and_secrets_are_refused() {
    // No private networks are allowed, so loopback is refused, too.
    let test_app = TestApp::with(|config| {
        config.allow_cidrs = Vec::new();
        config.allow_http = false;
    })
    .await;
    let admin = test_app.admin();
    let refused = |body: Json| {
        let admin = admin.clone();
        async move {
            let answer = admin.post("/webhooks/endpoints", &body).await.unwrap();
            assert_eq!(answer.status(), 400, "{body}: {:?}", answer.text());
            let paths: Vec<String> = answer.json().unwrap()["details"]
                .as_array()
                .unwrap()
                .iter()
                .map(|problem| problem["path"].as_str().unwrap().to_owned())
                .collect();
            paths
        }
    };
    for url in [
        "http://example.com/",
        "ftp://example.com/",
        "https://user:password@example.com/",
        "https://localhost/",
        "https://10.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://0x7f.1/",
        "https://2130706433/",
        "https://169.254.169.254/latest",
        "https://[64:ff9b::a00:1]/",
        "https://printer.local/",
        "https://intranet/",
        "https://example.com:22/",
        "nothing",
    ] {
        assert_eq!(
            refused(json!({ "url": url, "events": ["*"] })).await,
            ["url"],
            "{url}"
        );
    }
    let url = "https://93.184.215.14/";
    for events in [
        json!([]),
        json!(["nothing.happened"]),
        json!(["shop.orders*"]),
        json!([""]),
    ] {
        let paths = refused(json!({ "url": url, "events": events })).await;
        assert!(
            paths.iter().all(|path| path.starts_with("events")),
            "{paths:?}"
        );
    }
    let headers = json!({ "Host": "x", "X-Ok": "y", "content-type": "z" });
    let paths = refused(json!({ "url": url, "events": ["*"], "headers": headers })).await;
    assert_eq!(paths, ["headers.Host", "headers.content-type"]);
    for secret in [
        "",
        "whsec_",
        "whsec_AAAA",
        "sk_0123456789012345678901234567890123456789",
    ] {
        let paths = refused(json!({ "url": url, "events": ["*"], "secret": secret })).await;
        assert_eq!(paths, ["secret"], "{secret}");
    }
}

#[tokio::test]
async fn a_secret_is_returned_once_and_is_in_no_table_and_no_log() {
    // The app runs on the thread of the test, so the captured log is the one of the app.
    capture_log();
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let own = "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=";
    let made = test_app
        .endpoint(&receiver.url(), json!({ "secret": own }))
        .await;
    assert_eq!(made["secret"], own);
    let random = test_app.endpoint(&receiver.url(), json!({})).await["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    // An error does not contain the refused secret.
    let refused = "whsec_QUJDREVGR0hJSktM";
    let body = json!({ "url": receiver.url(), "events": ["*"], "secret": refused });
    let answer = test_app
        .admin()
        .post("/webhooks/endpoints", body)
        .await
        .unwrap();
    assert_eq!(answer.status(), 400);
    assert!(!answer.text().unwrap().contains(refused));
    receiver.next([Plan::status(500)]);
    test_app.order("one").await;
    receiver.until(2).await;
    let path = test_app.path();
    test_app.app.stop().await.unwrap();
    let log = LOGGED.take().unwrap();
    let log_contains = |text: &[u8]| log.windows(text.len()).any(|part| part == text);
    assert!(log_contains(b"webhooks"), "the log was not captured");
    assert!(
        !log_contains(refused.as_bytes()),
        "the refused secret is in the log"
    );
    let mut stored = std::fs::read(&path).unwrap();
    let wal = path.with_file_name("app.db-wal");
    stored.extend(std::fs::read(wal).unwrap_or_default());
    for secret in [own, &random] {
        let key = secret.trim_start_matches("whsec_").as_bytes();
        assert!(
            !stored.windows(key.len()).any(|part| part == key),
            "the secret is in the file"
        );
        assert!(!log_contains(key), "the secret is in the log");
    }
}

#[tokio::test]
async fn rekey_encrypts_secrets_with_the_new_key() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    test_app.endpoint(&receiver.url(), json!({})).await;
    let test_app = test_app.restarted_with(&[SECOND, FIRST]).await;
    let rekey = test_app.app.adapters().provided::<Rekey>().unwrap();
    let done = rekey.run(&Cx::system("test")).await.unwrap();
    assert_eq!((done.rewritten, done.needed.len()), (1, 0));
    let test_app = test_app.restarted_with(&[SECOND]).await;
    test_app.order("one").await;
    receiver.until(1).await;
}

#[tokio::test]
async fn an_app_without_a_data_key_does_not_start() {
    use linchpin::prelude::*;
    let config = Config::new()
        .port(0)
        .database("memory:")
        .signing_secret("x".repeat(40));
    let started = App::new(config)
        .plugin(linchpin::JwtAuth::new())
        .plugin(linchpin_webhooks::Webhooks::new(
            linchpin_webhooks::webhook_events! {},
        ))
        .start()
        .await;
    let error = format!("{:?}", started.unwrap_err());
    assert!(error.contains("LINCHPIN_DATA_KEYS"), "{error}");
}

#[tokio::test]
async fn the_address_of_the_app_is_refused_as_endpoint() {
    let test_app = TestApp::start().await;
    let own = format!("http://{}/hook", test_app.app.address());
    let body = json!({ "url": own, "events": ["*"] });
    let refused = test_app
        .admin()
        .post("/webhooks/endpoints", body)
        .await
        .unwrap();
    assert_eq!(refused.status(), 400);
    let error = refused.json().unwrap();
    assert_eq!(
        (&error["details"][0]["path"], &error["details"][0]["code"]),
        (&json!("url"), &json!("check"))
    );
}
