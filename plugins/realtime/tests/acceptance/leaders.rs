//! Tests with three nodes that share one `PostgreSQL` database and the engine `postgres`. The node
//! that leads the consumer of events is killed, or is paused until its lease has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::sync::Notify;

use crate::outages::{self, Process};
use crate::postgres_server as postgres;
use crate::socket::Socket;
use crate::test_app::{TestApp, User, room};

/// The number of threads that each node creates.
const EACH: usize = 15;

/// The process of the leader, and two further nodes. Each of the two nodes has one member of the
/// same room.
struct Cluster {
    database: String,
    leader: Process,
    nodes: [TestApp; 2],
    members: [Socket; 2],
    ada: User,
    container: String,
    epoch: Json,
}

impl Cluster {
    async fn start() -> Self {
        let database = postgres::fresh_database();
        // The first node leads the consumer of events.
        let leader = Process::start(&database, None).await;
        let fence = wait_for_leader(&database, None).await;
        let nodes = [
            outages::node(&database, None).await,
            outages::node(&database, None).await,
        ];
        let ada = nodes[0].user("ada").await;
        let container = nodes[0].container(&ada, "public").await;
        let mut one = nodes[0].connect(&ada).await;
        let epoch = one.join(&room(&container)).await["epoch"].clone();
        let here = nodes[1].user_with_token(&ada.id, ada.token.clone());
        let two = nodes[1].member(&here, &room(&container)).await;
        assert_eq!(
            wait_for_leader(&database, None).await,
            fence,
            "another node leads"
        );
        Self {
            database,
            leader,
            nodes,
            members: [one, two],
            ada,
            container,
            epoch,
        }
    }

    /// Creates and publishes threads on every node. `fault` runs while the leader writes.
    async fn write(&self, fault: impl Future<Output = ()>) {
        let threads = &AtomicUsize::new(0);
        let half = &Notify::new();
        let write_through = async |address: String| {
            for _ in 0..EACH {
                if threads.fetch_add(1, Ordering::Relaxed) == EACH {
                    half.notify_one();
                }
                let draft = outages::draft(&address, &self.ada, &self.container).await;
                let Some(draft) = draft else { return };
                let path = format!("/threads/{draft}/publish");
                let published = outages::post(&address, &self.ada, &path, "").await;
                let Some((status, body)) = published else {
                    return;
                };
                assert_eq!(status, "200", "{body}");
            }
        };
        let [one, two] = &self.nodes;
        tokio::join!(
            write_through(self.leader.address.clone()),
            write_through(one.app.address().to_string()),
            write_through(two.app.address().to_string()),
            async {
                half.notified().await;
                fault.await;
            }
        );
    }

    /// Asserts that all members get each committed event once and in the same order, and that a
    /// member that joins later gets the same events from the history.
    async fn check(mut self) {
        let read = |id: String, status: String| (id, status);
        let sql = "SELECT id, status FROM threads";
        let committed = postgres::rows(&self.database, sql, read);
        let mut expected = BTreeSet::new();
        for (id, status) in committed {
            if status == "published" {
                expected.insert((id.clone(), "threads.publish".to_owned()));
            }
            expected.insert((id, "threads.created".to_owned()));
        }
        assert!(
            expected.len() >= 4 * EACH,
            "two nodes have written all their threads"
        );
        let mut late_member = self.nodes[0].connect(&self.ada).await;
        let since = json!({ "epoch": self.epoch, "offset": 0 });
        let room = room(&self.container);
        let join = json!({ "action": "subscribe", "room": room, "since": since });
        let mut orders = Vec::new();
        for member in &mut self.members {
            orders.push(thread_events(member, expected.len()).await);
        }
        late_member.send(join).await;
        orders.push(thread_events(&mut late_member, expected.len()).await);
        assert_eq!(orders[0], orders[1]);
        assert_eq!(orders[0], orders[2]);
        let offsets: Vec<u64> = orders[0].iter().map(|(offset, ..)| *offset).collect();
        let numbers: Vec<u64> = (1..=expected.len() as u64).collect();
        assert_eq!(offsets, numbers);
        let mut created = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (offset, event, id) in orders.swap_remove(0) {
            match event.as_str() {
                "threads.created" => drop(created.insert(id.clone(), offset)),
                _ => assert!(
                    created.contains_key(&id),
                    "{id} is created before it is published"
                ),
            }
            assert!(seen.insert((id, event)), "a second frame of an event");
        }
        assert_eq!(seen, expected);
        for member in self.members.iter_mut().chain([&mut late_member]) {
            let more = member.pending().await;
            assert!(
                more.iter().all(|frame| frame["offset"].is_null()),
                "{more:?}"
            );
        }
    }
}

/// Returns the next thread events of a member: offset, event and id.
async fn thread_events(member: &mut Socket, count: usize) -> Vec<(u64, String, String)> {
    let mut frames = Vec::new();
    while frames.len() < count {
        let frame = member.next().await;
        let event = frame["event"].as_str().unwrap();
        assert!(!["reset", "unsubscribed"].contains(&event), "{frame}");
        if let (Some(offset), Some(id)) =
            (frame["offset"].as_u64(), frame["payload"]["id"].as_str())
        {
            frames.push((offset, event.to_owned(), id.to_owned()));
        }
    }
    frames
}

/// Waits until a node leads with a fence other than `before`. Returns the new fence.
async fn wait_for_leader(database: &str, before: Option<&str>) -> String {
    let sql = "SELECT fence, leader FROM linchpin_consumers WHERE name = 'realtime'";
    loop {
        let row = postgres::rows(database, sql, |fence, leader| (fence, leader)).pop();
        match row {
            Some((fence, leader)) if !leader.is_empty() && before != Some(&fence) => return fence,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_loses_and_repeats_no_event() {
    let mut cluster = Cluster::start().await;
    let before = wait_for_leader(&cluster.database, None).await;
    let process = cluster.leader.child.id().unwrap().to_string();
    let database = cluster.database.clone();
    let fault = async {
        signal("KILL", &process);
        wait_for_leader(&database, Some(&before)).await;
    };
    cluster.write(fault).await;
    assert!(!cluster.leader.child.wait().await.unwrap().success());
    cluster.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_paused_beyond_its_lease_loses_and_repeats_no_event() {
    let cluster = Cluster::start().await;
    let before = wait_for_leader(&cluster.database, None).await;
    let process = cluster.leader.child.id().unwrap().to_string();
    let fault = async {
        signal("STOP", &process);
        // End the lease of the paused leader now. When it continues, its own clock still shows a
        // valid lease, which is the worst case.
        let sql = "UPDATE linchpin_consumers SET until = now() - interval '1 second'";
        postgres::execute(&cluster.database, sql).unwrap();
        wait_for_leader(&cluster.database, Some(&before)).await;
        // The new leader delivers events while the old one is paused.
        outages::draft(
            &cluster.nodes[0].app.address().to_string(),
            &cluster.ada,
            &cluster.container,
        )
        .await
        .unwrap();
        signal("CONT", &process);
    };
    cluster.write(fault).await;
    assert_ne!(wait_for_leader(&cluster.database, None).await, before);
    cluster.check().await;
}

/// Sends a signal to a process that this test has started.
fn signal(name: &str, process: &str) {
    let sent = Command::new("kill").args(["-s", name, process]).status();
    assert!(sent.unwrap().success());
}
