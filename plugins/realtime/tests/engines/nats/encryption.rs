//! Tests of encrypted connections.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc;

use super::clusters::Cluster;
use super::*;
use crate::nats_server::with_settings;

/// The variable with the folder of the certificate.
const FOLDER: &str = "LINCHPIN_TEST_CERTIFICATE";

/// Writes a certificate for the loopback address, and the certificate of its own authority.
fn write_certificate(folder: &std::path::Path) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let signed = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]);
    let own = own.unwrap().signed_by(&key, &issuer).unwrap();
    for (name, text) in [
        ("own.pem", own.pem()),
        ("key.pem", key.serialize_pem()),
        ("authority.pem", signed.pem()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// The variable `SSL_CERT_FILE` applies to a whole process, so the test runs in a separate one.
#[test]
fn the_scheme_of_the_url_selects_encryption() {
    let folder = tempfile::tempdir().unwrap();
    write_certificate(folder.path());
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "nats::encryption::with_an_own_authority",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(FOLDER, folder.path())
        .env("SSL_CERT_FILE", folder.path().join("authority.pem"))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success() && out.contains("1 passed"),
        "{out}\n{err}"
    );
}

/// Starts a server without encryption. Returns its port, and the first bytes of each client.
fn plain_server() -> (u16, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(mut client) = client else { return };
            let info = json!({
                "server_id": "A", "server_name": "a", "version": "2.12.0", "proto": 1,
                "host": "127.0.0.1", "port": port, "headers": true, "max_payload": 1 << 20,
                "jetstream": true,
            });
            let _ = client.write_all(format!("INFO {info}\r\n").as_bytes());
            let mut bytes = vec![0; 4096];
            let length = client.read(&mut bytes).unwrap_or(0);
            bytes.truncate(length);
            if sender.send(bytes).is_err() {
                return;
            }
        }
    });
    (port, received)
}

/// This is not a separate test. The other test runs it in a process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "another test starts it"]
async fn with_an_own_authority() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let settings = format!(
        "tls {{ cert_file: '{folder}/own.pem', key_file: '{folder}/key.pem' }}\n\
         authorization {{ user: app, password: secret }}"
    );
    let url = |port: u16| format!("tls://app:secret@127.0.0.1:{port}");
    let start = async |url: String| {
        let clock = TestClock::default().clock();
        let engine = NatsEngine::new(&NatsEngineOptions::new(url), clock)?;
        engine.start().await.map(|()| engine)
    };
    let nats = with_settings(&format!("jetstream {{ store_dir: 'store' }}\n{settings}"));
    let engine = start(url(nats.port)).await.unwrap();
    let stream = Stream::new("tasks:1:live", History::default());
    engine.append(&[append(&stream, "1", None)]).await.unwrap();
    // The certificate is not valid for the name `localhost`.
    let wrong = start(url(nats.port).replace("127.0.0.1", "localhost")).await;
    assert!(wrong.is_err());
    // A server without encryption gets no credentials.
    let (plain, received) = plain_server();
    assert!(start(url(plain)).await.is_err());
    let sent = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    assert!(!sent(received.recv().unwrap()).contains("secret"));
    // The servers of the cluster announce the address of a server without encryption. That server
    // gets no credentials either.
    let settings = format!("{settings}\nclient_advertise: '127.0.0.1:{plain}'");
    let cluster = Cluster::start(&settings);
    let engine = cluster
        .node(&NatsEngineOptions::new(url(cluster.0[0].port)))
        .await;
    engine.append(&[append(&stream, "1", None)]).await.unwrap();
    for nats in &cluster.0 {
        nats.down();
    }
    let first = received.recv_timeout(Duration::from_mins(1)).unwrap();
    assert!(!sent(first).contains("secret"));
}
