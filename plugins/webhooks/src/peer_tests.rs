//! Independent libraries verify the signatures of the plugin: `standardwebhooks` and `svix`, each
//! from npm and from `PyPI`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use linchpin::Timestamp;
use serde_json::{Value as Json, json};

use crate::signature::{SigningSecret, sign};

/// The folder of the programs. `cargo xtask test` installs their libraries.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");

fn run(program: &[&str], tasks: &[Json]) -> Vec<String> {
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .current_dir(PEERS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cargo xtask test says how the program is installed");
    let text = serde_json::to_vec(tasks).unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).expect("cargo xtask test installs the libraries")
}

fn check_signatures_of(program: &[&str]) {
    let now = Timestamp::system_now().millis() / 1_000;
    let (new, old) = (
        SigningSecret::generate().unwrap(),
        SigningSecret::generate().unwrap(),
    );
    let other = SigningSecret::generate().unwrap();
    let body = r#"{"type":"shop.orders.created","data":{"title":"Käse"}}"#;
    let case = |secret: &SigningSecret, id: &str, shift: i64, age: i64, body: &str| {
        let at = now - age;
        let signed = r#"{"type":"shop.orders.created","data":{"title":"Käse"}}"#;
        let signature = sign(&[&new, &old], "msg_1", at, signed.as_bytes());
        json!({
            "secret": secret.text(),
            "body": body,
            "headers": {
                "webhook-id": id,
                "webhook-timestamp": (at + shift).to_string(),
                "webhook-signature": signature,
            },
        })
    };
    let cases = [
        (true, case(&new, "msg_1", 0, 0, body)),
        (true, case(&old, "msg_1", 0, 0, body)),
        (true, case(&new, "msg_1", 0, 280, body)),
        (false, case(&other, "msg_1", 0, 0, body)),
        (false, case(&new, "msg_2", 0, 0, body)),
        (false, case(&new, "msg_1", 1, 0, body)),
        (false, case(&new, "msg_1", 0, 0, r#"{"type":"other"}"#)),
        (false, case(&new, "msg_1", 0, 301, body)),
    ];
    for library in ["standardwebhooks", "svix"] {
        let tasks = cases.iter().map(|(_, task)| {
            let mut task = task.clone();
            task["library"] = library.into();
            task
        });
        let results = run(program, &tasks.collect::<Vec<_>>());
        assert_eq!(results.len(), cases.len());
        for (at, ((valid, _), result)) in cases.iter().zip(&results).enumerate() {
            assert_eq!(result == "valid", *valid, "{library}, case {at}: {result}");
        }
    }
}

#[test]
fn npm_libraries_accept_the_signatures() {
    check_signatures_of(&["node", "node/peer.mjs"]);
}

#[test]
fn pypi_libraries_accept_the_signatures() {
    check_signatures_of(&["python3", "peer.py"]);
}
