//! Tests of a rolling restart: two nodes are restarted one after the other while records change.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use crate::cluster::Cluster;
use crate::nodes::commit;
use crate::socket::Socket;
use crate::test_app::{TestApp, room};

const CLIENTS: usize = 200;
/// The number of changes during each restart. The history of the room holds all of them, so no
/// client gets a reset.
const CHANGES: usize = 40;
/// The time between two changes, and between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(25);
/// The time over which a stopping node spreads the end of its connections.
const DRAIN: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_gets_each_change_once_and_in_order_with_postgres() {
    each_client_gets_each_change_once_and_in_order(Cluster::with_postgres()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_gets_each_change_once_and_in_order_with_redis() {
    each_client_gets_each_change_once_and_in_order(Cluster::with_redis()).await;
}

/// The current addresses of the nodes.
type Addresses = Arc<[Mutex<SocketAddr>; 2]>;

/// Runs a client that connects to the other node when its connection ends, and resumes after its
/// position. It returns the received texts up to `last`.
async fn follow(
    nodes: Addresses,
    mut at: usize,
    (token, room): (String, String),
    joined: mpsc::Sender<()>,
) -> Vec<String> {
    let bearer = format!("Bearer {token}");
    let (mut position, mut received) = (None::<(Json, u64)>, Vec::new());
    loop {
        let address = *nodes[at].lock();
        at = 1 - at;
        let Some(mut socket) = Socket::attempt(address, &[("authorization", &bearer)]).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let mut join = json!({ "action": "subscribe", "room": room });
        if let Some((epoch, offset)) = &position {
            join["since"] = json!({ "epoch": epoch, "offset": offset });
        }
        socket.send(join).await;
        loop {
            let frame = match socket.message().await {
                Ok(frame) => frame,
                Err(close) => {
                    let code = close.map(|close| u16::from(close.code));
                    assert_eq!(code, Some(1012), "the close code reports the restart");
                    break;
                }
            };
            let offset = frame["offset"].as_u64();
            match frame["event"].as_str().unwrap() {
                "subscribed" => {
                    if position.is_some() {
                        assert_eq!(frame["recovered"], true, "{frame}");
                    } else {
                        joined.send(()).await.unwrap();
                    }
                    position = Some((frame["epoch"].clone(), offset.unwrap()));
                }
                "announcement" => {
                    let (_, at) = position.as_mut().unwrap();
                    *at = offset.unwrap();
                    received.push(frame["payload"]["text"].as_str().unwrap().to_owned());
                    if frame["payload"]["text"] == "last" {
                        return received;
                    }
                }
                "connected" | "draining" | "presence_join" | "presence_leave" => {}
                _ => panic!("{frame}"),
            }
        }
    }
}

async fn each_client_gets_each_change_once_and_in_order(cluster: Cluster) {
    let start = async || cluster.node_with(DRAIN).await;
    let mut nodes: [Option<TestApp>; 2] = [Some(start().await), Some(start().await)];
    let address = |node: &Option<TestApp>| node.as_ref().unwrap().app.address();
    let addresses: Addresses = Arc::new([
        Mutex::new(address(&nodes[0])),
        Mutex::new(address(&nodes[1])),
    ]);
    let first = nodes[0].as_ref().unwrap();
    let ada = first.user("ada").await;
    let container = first.container(&ada, "public").await;
    let (joined, mut joins) = mpsc::channel(CLIENTS);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let who = (ada.token.clone(), room(&container));
            let client = follow(Arc::clone(&addresses), n % 2, who, joined.clone());
            tokio::spawn(client)
        })
        .collect();
    for _ in 0..CLIENTS {
        joins.recv().await.unwrap();
    }
    let mut sent = Vec::new();
    for at in 0..2 {
        let stopping = nodes[at].take().unwrap();
        let writing = nodes[1 - at].as_ref().unwrap();
        let restart = async {
            stopping.app.stop().await.unwrap();
            let node = start().await;
            *addresses[at].lock() = node.app.address();
            node
        };
        let write = async {
            for n in 0..CHANGES {
                let text = format!("{n} during restart {at}");
                commit(writing, &container, &text).await;
                sent.push(text);
                tokio::time::sleep(PAUSE).await;
            }
        };
        let (node, ()) = tokio::join!(restart, write);
        nodes[at] = Some(node);
    }
    commit(nodes[0].as_ref().unwrap(), &container, "last").await;
    sent.push("last".to_owned());
    for client in clients {
        assert_eq!(client.await.unwrap(), sent);
    }
}
