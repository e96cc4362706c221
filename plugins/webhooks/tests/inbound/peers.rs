//! Tests with independent senders: npm and `PyPI` `standardwebhooks` and `svix`.

use std::process::Stdio;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::test_app::{SECRET, TestApp, now};

/// The folder of the programs. `cargo xtask test` installs their libraries.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");

async fn check_accepted(program: &[&str]) {
    let mut test_app = TestApp::start().await;
    let body = r#"{"type":"invoice.paid","data":{"title":"Käse"}}"#;
    for (library, prefix) in [("standardwebhooks", "webhook"), ("svix", "svix")] {
        let (id, at) = (format!("msg_{library}"), now());
        let task = json!([{
            "library": library,
            "secret": SECRET,
            "sign": { "id": id, "timestamp": at },
            "body": body,
        }]);
        let mut child = Command::new(program[0])
            .args(&program[1..])
            .current_dir(PEERS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cargo xtask test says how the program is installed");
        let mut input = child.stdin.take().unwrap();
        input.write_all(task.to_string().as_bytes()).await.unwrap();
        drop(input);
        let output = child.wait_with_output().await.unwrap();
        let [signature]: [String; 1] = serde_json::from_slice(&output.stdout)
            .expect("cargo xtask test installs the libraries");
        let names = ["id", "timestamp", "signature"].map(|part| format!("{prefix}-{part}"));
        let values = [id.clone(), at.to_string(), signature];
        let headers: Vec<(&str, String)> = names.iter().map(String::as_str).zip(values).collect();
        let answer = test_app.post("billing", &headers, body).await;
        assert_eq!(answer, (200, json!({ "received": true })), "{library}");
        let message = test_app.next().await;
        assert_eq!((message.message_id, &*message.body), (id, body.as_bytes()));
        assert_eq!(test_app.post("billing", &headers, "{}").await.0, 400);
    }
}

#[tokio::test]
async fn messages_of_npm_libraries_are_accepted() {
    check_accepted(&["node", "node/peer.mjs"]).await;
}

#[tokio::test]
async fn messages_of_pypi_libraries_are_accepted() {
    check_accepted(&["python3", "peer.py"]).await;
}
