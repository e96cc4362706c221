//! Tests with three nodes that share one `PostgreSQL` database, with the engines `postgres`,
//! `redis` and `nats`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linchpin::Cx;
use linchpin::testing::Client;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use crate::cluster::Cluster;
use crate::socket::Socket;
use crate::test_app::{ContainerLive, TestApp, User, room};

/// Runs cases with an engine.
macro_rules! cases {
    ($engine:ident: $($case:ident),* $(,)?) => {
        mod $engine {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::cluster::Cluster::$engine()).await;
            })*
        }
    };
}

/// Runs each case with the engines that most apps use.
macro_rules! cases_of_all {
    ($($case:ident),* $(,)?) => {
        cases!(with_postgres: $($case),*);
        cases!(with_redis: $($case),*);
    };
}

cases_of_all! {
    all_nodes_get_frames_in_the_same_order,
    presence_spans_nodes,
    a_restart_loses_no_frame,
    a_page_extends_a_connection_of_another_node,
    the_end_of_a_session_reaches_other_nodes,
    an_emptied_engine_starts_new_streams,
    a_stop_under_load_loses_and_repeats_no_event,
    another_node_replaces_a_lost_node,
}

// With NATS, only these cases run. The conformance suite of engines covers the behaviour that the
// other cases test.
#[cfg(feature = "nats")]
cases! {
    with_nats:
    all_nodes_get_frames_in_the_same_order,
    an_emptied_engine_starts_new_streams,
    a_stop_under_load_loses_and_repeats_no_event,
    another_node_replaces_a_lost_node,
}

/// Returns a user with a client of this node.
fn user_on(node: &TestApp, user: &User) -> User {
    node.user_with_token(&user.id, user.token.clone())
}

/// Publishes within a transaction, so that the outbox delivers the frame like a committed change.
pub async fn commit(node: &TestApp, container: &str, text: &str) {
    let rooms = node.rooms();
    Cx::system("a test")
        .transaction(async |cx| {
            let text = text.to_owned();
            rooms
                .room::<ContainerLive>(container)
                .publish(cx, ContainerLive::Announcement { text })
                .await
        })
        .await
        .unwrap();
}

async fn all_nodes_get_frames_in_the_same_order(cluster: Cluster) {
    const EACH: usize = 60;
    let nodes = cluster.three().await;
    let ada = nodes[0].user("ada").await;
    let container = nodes[0].container(&ada, "public").await;
    let mut sockets = Vec::new();
    for node in &nodes {
        sockets.push(node.member(&user_on(node, &ada), &room(&container)).await);
    }
    let write = async |node: &TestApp| {
        for number in 0..EACH {
            if number % 3 == 0 {
                node.draft(&user_on(node, &ada), &container).await;
            } else {
                commit(node, &container, &number.to_string()).await;
            }
        }
    };
    tokio::join!(write(&nodes[0]), write(&nodes[1]), write(&nodes[2]));
    let mut seen: Vec<Vec<(String, u64)>> = Vec::new();
    for socket in &mut sockets {
        let mut frames = Vec::new();
        while frames.len() < 3 * EACH {
            let frame = socket.next().await;
            if let (Some(id), Some(offset)) = (frame["id"].as_str(), frame["offset"].as_u64()) {
                frames.push((id.to_owned(), offset));
            }
        }
        seen.push(frames);
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    let offsets: Vec<u64> = seen[0].iter().map(|(_, offset)| *offset).collect();
    assert_eq!(offsets, (1..=3 * EACH as u64).collect::<Vec<_>>());
}

async fn presence_spans_nodes(cluster: Cluster) {
    let [one, two, _three] = cluster.three().await;
    let (ada, bob) = (one.user("ada").await, one.user("bob").await);
    let room = room(&one.container(&ada, "public").await);
    let mut ada_socket = one.member(&ada, &room).await;
    let mut bob_socket = two.connect(&user_on(&two, &bob)).await;
    let present = bob_socket.join(&room).await["presence"].clone();
    let mut users: Vec<&str> = present["users"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["userId"].as_str())
        .collect();
    users.sort_unstable();
    let mut both = [ada.id.as_str(), bob.id.as_str()];
    both.sort_unstable();
    assert_eq!(users, both);
    assert_eq!(
        ada_socket.until("presence_join").await["userId"],
        json!(bob.id)
    );
    drop(bob_socket);
    assert_eq!(
        ada_socket.until("presence_leave").await["userId"],
        json!(bob.id)
    );
}

async fn a_restart_loses_no_frame(cluster: Cluster) {
    let node = cluster.node().await;
    let ada = node.user("ada").await;
    let container = node.container(&ada, "public").await;
    let mut socket = node.connect(&ada).await;
    let joined = socket.join(&room(&container)).await;
    commit(&node, &container, "seen").await;
    assert_eq!(socket.until("announcement").await["offset"], 1);
    let (stopped, closed) = tokio::join!(node.app.stop(), socket.closed());
    stopped.unwrap();
    assert_eq!(closed, (1012, "restart".to_owned()));
    let node = cluster.node().await;
    for text in ["missed", "also missed"] {
        commit(&node, &container, text).await;
    }
    let mut witness = node.member(&user_on(&node, &ada), &room(&container)).await;
    commit(&node, &container, "live").await;
    while witness.until("announcement").await["payload"]["text"] != "live" {}
    let mut socket = node.connect(&user_on(&node, &ada)).await;
    let since = json!({ "epoch": joined["epoch"], "offset": 1 });
    let frame = json!({ "action": "subscribe", "room": room(&container), "since": since });
    socket.send(frame).await;
    let answer = socket.until("subscribed").await;
    assert_eq!(
        (&answer["recovered"], &answer["replayed"]),
        (&json!(true), &json!(3))
    );
    for (offset, text) in [(2, "missed"), (3, "also missed"), (4, "live")] {
        let frame = socket.until("announcement").await;
        assert_eq!(
            (&frame["offset"], &frame["payload"]["text"]),
            (&json!(offset), &json!(text))
        );
    }
}

async fn a_page_extends_a_connection_of_another_node(cluster: Cluster) {
    let [one, two, _three] = cluster.three().await;
    let (ada, bob) = (one.user("ada").await, one.user("bob").await);
    let bearer = format!("Bearer {}", ada.token);
    let mut socket = Socket::open(one.app.address(), &[("authorization", &bearer)]).await;
    let id = socket.next().await["id"].as_str().unwrap().to_owned();
    let refresh = async |user: &User, id: &str| {
        let page = Client::new(&two.app).bearer(&user.token).unwrap();
        page.post("/__ws/refresh", json!({ "connectionId": id }))
            .await
            .unwrap()
            .status()
    };
    assert_eq!(
        refresh(&bob, &id).await,
        404,
        "a connection of another session"
    );
    assert_eq!(refresh(&ada, &id).await, 204);
    assert_eq!(socket.until("auth:authenticated").await["refreshed"], true);
    let gone = format!("{}{}", "A".repeat(16), &id[16..]);
    assert_eq!(
        refresh(&ada, &gone).await,
        404,
        "a node that does not exist"
    );
}

async fn the_end_of_a_session_reaches_other_nodes(cluster: Cluster) {
    let [one, two, _three] = cluster.three().await;
    let ada = one.user("ada").await;
    let mut here = one.connect(&ada).await;
    let mut there = two.connect(&user_on(&two, &ada)).await;
    one.auth.revoke_sessions(&ada.id).await.unwrap();
    for socket in [&mut here, &mut there] {
        assert_eq!(socket.closed().await, (4401, "session_ended".to_owned()));
    }
}

async fn an_emptied_engine_starts_new_streams(cluster: Cluster) {
    let nodes = cluster.three().await;
    let ada = nodes[0].user("ada").await;
    let container = nodes[0].container(&ada, "public").await;
    let mut sockets = Vec::new();
    for node in &nodes {
        let mut socket = node.connect(&user_on(node, &ada)).await;
        let epoch = socket.join(&room(&container)).await["epoch"].clone();
        sockets.push((socket, epoch));
    }
    commit(&nodes[0], &container, "before").await;
    for (socket, _) in &mut sockets {
        socket.until("announcement").await;
    }
    cluster.empty();
    for (number, node) in nodes.iter().enumerate() {
        commit(node, &container, &number.to_string()).await;
    }
    let mut epochs = Vec::new();
    for (socket, old) in &mut sockets {
        let (mut resets, mut last) = (0, 0);
        loop {
            let frame = socket.next().await;
            match frame["event"].as_str().unwrap() {
                "reset" => {
                    resets += 1;
                    assert_eq!(frame["room"], room(&container));
                    assert_ne!(&frame["epoch"], old);
                    epochs.push(frame["epoch"].clone());
                    last = frame["offset"].as_u64().unwrap();
                }
                "announcement" => {
                    assert_eq!(
                        resets, 1,
                        "a frame of the new epoch follows the reset: {frame}"
                    );
                    let offset = frame["offset"].as_u64().unwrap();
                    assert!(offset > last, "{offset} after {last}");
                    last = offset;
                    if frame["payload"]["text"] == "2" {
                        break;
                    }
                }
                _ => {}
            }
        }
        assert_eq!(resets, 1);
    }
    assert!(epochs.iter().all(|epoch| *epoch == epochs[0]), "{epochs:?}");
}

/// Runs a client that counts the announcements that it gets. After the server closes the connection
/// because of a restart, the client connects to the other node. It ends after the announcement
/// `last`.
async fn reconnecting_client(
    mut node: std::net::SocketAddr,
    other: std::net::SocketAddr,
    (token, room): (String, String),
    joined: mpsc::Sender<()>,
) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    let mut position: Option<(Json, u64)> = None;
    let bearer = format!("Bearer {token}");
    loop {
        let mut socket = Socket::open(node, &[("authorization", &bearer)]).await;
        let mut join = json!({ "action": "subscribe", "room": room });
        if let Some((epoch, offset)) = &position {
            join["since"] = json!({ "epoch": epoch, "offset": offset });
        }
        socket.send(join).await;
        let answer = socket.until("subscribed").await;
        if position.is_none() {
            joined.send(()).await.unwrap();
        } else {
            assert_eq!(answer["recovered"], true, "{answer}");
        }
        let epoch = answer["epoch"].clone();
        let mut offset = answer["offset"].as_u64().unwrap();
        let mut draining = false;
        loop {
            match socket.message().await {
                Ok(frame) if frame["event"] == "draining" => draining = true,
                Ok(frame) if frame["event"] == "announcement" => {
                    offset = frame["offset"].as_u64().unwrap();
                    let text = frame["payload"]["text"].as_str().unwrap().to_owned();
                    let done = text == "last";
                    *counts.entry(text).or_default() += 1;
                    if done {
                        return counts;
                    }
                }
                Ok(_) => {}
                Err(close) => {
                    let code = close.map(|close| u16::from(close.code));
                    assert_eq!((draining, code), (true, Some(1012)));
                    break;
                }
            }
        }
        position = Some((epoch, offset));
        node = other;
    }
}

async fn a_stop_under_load_loses_and_repeats_no_event(cluster: Cluster) {
    const CLIENTS: usize = 30;
    let stopping = cluster.node_with(Duration::from_secs(1)).await;
    let (writing, other) = (cluster.node().await, cluster.node().await);
    let ada = writing.user("ada").await;
    let container = writing.container(&ada, "public").await;
    let (joined, mut joins) = mpsc::channel(CLIENTS);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let joined = joined.clone();
            let (from, to) = (stopping.app.address(), other.app.address());
            let who = (ada.token.clone(), room(&container));
            tokio::spawn(async move { reconnecting_client(from, to, who, joined).await })
        })
        .collect();
    let mut witness = other
        .member(&user_on(&other, &ada), &room(&container))
        .await;
    for _ in 0..CLIENTS {
        joins.recv().await.unwrap();
    }
    let stopped = Arc::new(AtomicBool::new(false));
    let mut sent = Vec::new();
    let ((), ()) = tokio::join!(
        async {
            commit(&writing, &container, "first").await;
            witness.until("announcement").await;
            stopping.app.stop().await.unwrap();
            stopped.store(true, Ordering::Release);
        },
        async {
            while !stopped.load(Ordering::Acquire) {
                let text = format!("{}", sent.len());
                commit(&writing, &container, &text).await;
                sent.push(text);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    );
    commit(&writing, &container, "last").await;
    sent.extend(["first".to_owned(), "last".to_owned()]);
    sent.sort_unstable();
    for client in clients {
        let counts = client.await.unwrap();
        let got: Vec<String> = counts.keys().cloned().collect();
        assert!(
            counts.values().all(|count| *count == 1),
            "each announcement arrives once: {counts:?}"
        );
        assert_eq!(got, sent);
    }
}

async fn another_node_replaces_a_lost_node(cluster: Cluster) {
    // The first node leads the consumer of events.
    let first = cluster.node().await;
    let second = cluster.node().await;
    let ada = first.user("ada").await;
    let container = first.container(&ada, "public").await;
    let mut socket = second
        .member(&user_on(&second, &ada), &room(&container))
        .await;
    commit(&first, &container, "one").await;
    assert_eq!(socket.until("announcement").await["offset"], 1);
    // The node ends without a graceful shutdown.
    drop(first);
    commit(&second, &container, "two").await;
    let frame = socket.until("announcement").await;
    assert_eq!(
        (&frame["payload"]["text"], &frame["offset"]),
        (&json!("two"), &json!(2))
    );
}
