//! Names: a request is sent only if all addresses of the name are allowed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use linchpin_safe_client::{Answers, Failure, Phase, Refusal, Resolve, SafeClient, Settings};

use crate::server::Server;
use crate::{post, settings};

const EMPTY: &str = "HTTP/1.1 204 No\r\n\r\n";

/// Returns the answers in order; the last one is repeated for all further queries.
struct Script {
    answers: Vec<Vec<IpAddr>>,
    queries: AtomicUsize,
}

impl Resolve for Script {
    fn resolve<'a>(&'a self, host: &'a str) -> Answers<'a> {
        assert_eq!(host, "hooks.example");
        let at = self.queries.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers.get(at).or(self.answers.last());
        let answer = answer.cloned().unwrap_or_default();
        Box::pin(async move { Ok(answer) })
    }
}

fn resolving(answers: &[&[&str]], settings: Settings) -> (SafeClient, Arc<Script>) {
    let read = |all: &&[&str]| all.iter().map(|text| text.parse().unwrap()).collect();
    let script = Arc::new(Script {
        answers: answers.iter().map(read).collect(),
        queries: AtomicUsize::new(0),
    });
    let settings = Settings {
        resolver: Arc::<Script>::clone(&script),
        ..settings
    };
    (SafeClient::new(settings).unwrap(), script)
}

fn at(address: SocketAddr) -> String {
    format!("http://hooks.example:{}/", address.port())
}

#[tokio::test]
async fn one_refused_address_refuses_the_request() {
    let server = Server::answering(EMPTY).await;
    let strict = || Settings {
        allow: Vec::new(),
        ..settings()
    };
    for answers in [
        &["127.0.0.1"][..],
        &["93.184.216.34", "127.0.0.1"],
        &["2606:4700::1111", "::1"],
        &["::ffff:127.0.0.1"],
        &["169.254.169.254"],
        &["10.0.0.5", "93.184.216.34"],
    ] {
        let (client, _) = resolving(&[answers], strict());
        let failure = client.send(post(at(server.address))).await.unwrap_err();
        assert!(
            matches!(failure, Failure::Refused(Refusal::Address)),
            "{failure}"
        );
        // The message does not contain the address.
        assert!(
            !failure.to_string().contains(|c: char| c.is_ascii_digit()),
            "{failure}"
        );
        let failure = client.check(&at(server.address)).await.unwrap_err();
        assert!(
            matches!(failure, Failure::Refused(Refusal::Address)),
            "{failure}"
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_host_name_is_resolved_and_checked_at_every_attempt() {
    let server = Server::answering(EMPTY).await;
    // The first address is allowed, the second is not.
    let only_one = Settings {
        allow: vec!["127.0.0.1/32".parse().unwrap()],
        ..settings()
    };
    let (client, script) = resolving(&[&["127.0.0.1"], &["127.0.0.2"]], only_one);
    client.send(post(at(server.address))).await.unwrap();
    // One query per attempt, so the checked address is the one that is used.
    assert_eq!(script.queries.load(Ordering::SeqCst), 1);
    let failure = client.send(post(at(server.address))).await.unwrap_err();
    assert!(
        matches!(failure, Failure::Refused(Refusal::Address)),
        "{failure}"
    );
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn the_next_address_is_tried_if_one_accepts_nothing() {
    let server = Server::answering(EMPTY).await;
    // No server listens on the same port of the first address.
    let (client, _) = resolving(&[&["127.0.0.9", "127.0.0.1"]], settings());
    client.send(post(at(server.address))).await.unwrap();
    assert_eq!(server.connections(), 1);
    let (client, _) = resolving(&[&["127.0.0.9"]], settings());
    let failure = client.send(post(at(server.address))).await.unwrap_err();
    assert!(matches!(failure, Failure::Unreachable), "{failure}");
}

#[tokio::test]
async fn requests_to_the_app_itself_are_refused() {
    let server = Server::answering(EMPTY).await;
    let port = server.address.port();
    let own = |own: &str| Settings {
        own: Arc::new(OnceLock::from(
            format!("{own}:{port}").parse::<SocketAddr>().unwrap(),
        )),
        ..settings()
    };
    for address in ["127.0.0.1", "0.0.0.0"] {
        let client = SafeClient::new(own(address)).unwrap();
        let failure = client.send(post(server.url())).await.unwrap_err();
        assert!(
            matches!(failure, Failure::Refused(Refusal::Address)),
            "{failure}"
        );
    }
    assert_eq!(server.connections(), 0);
    // Another port of the same machine is not the app.
    let other = SocketAddr::from(([127, 0, 0, 1], port ^ 1));
    let client = SafeClient::new(Settings {
        own: Arc::new(OnceLock::from(other)),
        ..settings()
    })
    .unwrap();
    client.send(post(server.url())).await.unwrap();
}

struct Broken;

impl Resolve for Broken {
    fn resolve<'a>(&'a self, host: &'a str) -> Answers<'a> {
        Box::pin(async move {
            match host {
                "slow.example" => std::future::pending().await,
                "empty.example" => Ok(Vec::new()),
                _ => Err(io::Error::other("no such name at 10.0.0.53")),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_server_that_fails_is_an_error() {
    let client = SafeClient::new(Settings {
        resolver: Arc::new(Broken),
        ..settings()
    })
    .unwrap();
    for host in ["empty.example", "none.example"] {
        let failure = client
            .send(post(format!("http://{host}/")))
            .await
            .unwrap_err();
        assert!(matches!(failure, Failure::Unresolved), "{failure}");
        assert!(!failure.to_string().contains("10.0"), "{failure}");
    }
    let failure = client.send(post("http://slow.example/")).await.unwrap_err();
    let limit = Duration::from_secs(5);
    assert!(
        matches!(failure, Failure::Timeout(time, Phase::Resolve) if time == limit),
        "{failure}"
    );
}
