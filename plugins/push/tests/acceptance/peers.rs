//! Independent libraries read the messages of the plugin: npm `http_ece` and `web-push`, and `PyPI`
//! `http-ece` and `py-vapid`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin_push::{PushMessage, VapidKey};
use serde_json::{Value as Json, json};

use crate::receiver::Receiver;
use crate::test_app::{Browser, TestApp};

/// The folder of the programs. `cargo xtask test` installs their libraries.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");

fn run(program: &[&str], task: &Json) -> Json {
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .current_dir(PEERS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cargo xtask test says how the program is installed");
    let text = serde_json::to_vec(task).unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).expect("cargo xtask test installs the libraries")
}

#[tokio::test]
async fn independent_libraries_decrypt_the_messages() {
    let (test_app, service) = (TestApp::start().await, Receiver::start().await);
    let browser = Browser::new();
    test_app.subscribe("ada", &browser, &service.url()).await;
    let long = "Käse und Brot. ".repeat(500);
    for body in ["Text", &"x".repeat(600), &long] {
        let message = PushMessage::new("ada", "Käse").body(body).url("/orders/1");
        test_app.send(&message).await;
    }
    let arrived = service.until(3).await;
    let tasks: Vec<Json> = arrived
        .iter()
        .map(|one| {
            json!({
                "privateKey": browser.private_key,
                "auth": browser.auth,
                "body": URL_SAFE_NO_PAD.encode(&one.body),
                "authorization": one.header("authorization"),
            })
        })
        .collect();
    let tasks = Json::Array(tasks);
    let node = run(&["node", "node/peer.mjs"], &tasks);
    let python = run(&["python3", "peer.py"], &tasks);
    assert_eq!(node, python);
    let texts: Vec<Json> = node
        .as_array()
        .unwrap()
        .iter()
        .map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(texts.len(), 3);
    let deliveries = test_app.deliveries("ada");
    for text in &texts {
        assert_eq!(
            (&text["title"], &text["data"]["url"]),
            (&json!("Käse"), &json!("/orders/1"))
        );
        let id = &text["data"]["deliveryId"];
        assert!(deliveries.iter().any(|one| one["id"] == *id), "{id}");
    }
    let mut lengths: Vec<usize> = texts
        .iter()
        .map(|text| text["body"].as_str().unwrap().len())
        .collect();
    lengths.sort_unstable();
    assert_eq!(lengths[..2], [4, 600]);
    assert!((3_000..4_000).contains(&lengths[2]), "{lengths:?}");
}

#[tokio::test]
async fn the_token_is_for_the_origin_of_the_push_service() {
    let (test_app, service) = (TestApp::start().await, Receiver::start().await);
    test_app
        .subscribe("ada", &Browser::new(), &service.url())
        .await;
    test_app.send(&PushMessage::new("ada", "x")).await;
    let header = service.until(1).await[0].header("authorization").to_owned();
    let claims = header.split('.').nth(1).unwrap();
    let claims: Json = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    assert_eq!(claims["aud"], service.url().trim_end_matches("/hook"));
    assert_eq!(claims["sub"], "mailto:ops@example.com");
    let lifetime = claims["exp"].as_i64().unwrap() - test_app.now().millis() / 1_000;
    assert!((43_100..=43_200).contains(&lifetime), "{lifetime}");
}

#[test]
fn keys_of_another_library_are_read() {
    let keys = run(&["node", "node/peer.mjs"], &json!("keys"));
    let key = VapidKey::parse(keys["privateKey"].as_str().unwrap()).unwrap();
    assert_eq!(key.public_text(), keys["publicKey"]);
}
