//! Clusters of servers, each of which stores each message.

use std::collections::BTreeSet;

use super::*;
use crate::nats_server::{free_port, with_settings};

/// Three servers.
pub(super) struct Cluster(pub(super) [Nats; 3]);

impl Cluster {
    /// `settings` are further settings of each server.
    pub(super) fn start(settings: &str) -> Self {
        let ports: [u16; 3] = std::array::from_fn(|_| free_port());
        let routes = ports.map(|port| format!("nats://127.0.0.1:{port}"));
        let routes = routes.join(", ");
        Self(ports.map(|port| {
            with_settings(&format!(
                "jetstream {{ store_dir: 'store' }}\n\
                 cluster {{ name: 'c', listen: '127.0.0.1:{port}', routes: [{routes}] }}\n\
                 {settings}"
            ))
        }))
    }

    /// A node, once the servers have chosen a leader.
    pub(super) async fn node(&self, options: &NatsEngineOptions) -> NatsEngine {
        let until = Instant::now() + Duration::from_mins(1);
        loop {
            let engine = NatsEngine::new(options, TestClock::default().clock()).unwrap();
            let Err(error) = engine.start().await else {
                return engine;
            };
            engine.close().await;
            assert!(Instant::now() < until, "{error:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn replicated(&self) -> NatsEngine {
        let servers = self.0.iter();
        let options = NatsEngineOptions {
            urls: servers
                .map(|nats| format!("nats://127.0.0.1:{}", nats.port))
                .collect(),
            replicas: 3,
            ..NatsEngineOptions::new("")
        };
        self.node(&options).await
    }

    /// The server that decides about the messages of frames.
    async fn leader(&self) -> &Nats {
        let info = self.0[0].ask("INFO.linchpin_frames", json!({})).await;
        let leader = info["cluster"]["leader"].as_str().unwrap();
        self.0.iter().find(|nats| nats.name() == leader).unwrap()
    }
}

/// A server that still copies a message refuses another one of the same room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_append_to_a_replicated_stream_at_once_wait_for_each_other() {
    let cluster = Cluster::start("");
    let (a, b) = (cluster.replicated().await, cluster.replicated().await);
    let stream = Stream::new("tasks:1:live", History::default());
    let mut live = a.subscribe(&stream).await.unwrap();
    let (one, engines) = (&stream, [&a, &a, &b, &b]);
    let calls = engines
        .into_iter()
        .enumerate()
        .map(|(at, engine)| async move {
            for n in 0..20 {
                let name = format!("{at}-{n}");
                engine.append(&[append(one, &name, None)]).await.unwrap();
                let arrived = engine.presence_enter(one, &[&name]).await.unwrap();
                assert_eq!(arrived, [name]);
            }
        });
    futures_util::future::join_all(calls).await;
    let mut events = BTreeSet::new();
    for offset in 1..=80 {
        match next(&mut live).await {
            Delivery::Frame(frame) => {
                assert_eq!(frame.position.offset, offset);
                events.insert(frame.event.as_str().to_owned());
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(events.len(), 80);
    assert_eq!(a.presence(&stream, 9).await.unwrap().count, 80);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_server_of_a_cluster_loses_and_doubles_no_frame() {
    let cluster = Cluster::start("");
    let (a, b) = (cluster.replicated().await, cluster.replicated().await);
    let stream = Stream::new("tasks:1:live", History::default());
    let mut live = b.subscribe(&stream).await.unwrap();
    let mut offset = 0;
    for round in 0..3 {
        let leader = cluster.leader().await;
        let appends = async {
            for n in 0..20 {
                until_back(&a, &stream, &format!("{round}-{n}")).await;
            }
        };
        let end = async {
            tokio::task::block_in_place(|| leader.down());
        };
        tokio::join!(appends, end);
        for n in 0..20 {
            offset += 1;
            match next(&mut live).await {
                Delivery::Frame(frame) => assert_eq!(
                    (frame.position.offset, frame.event.as_str()),
                    (offset, &*format!("{round}-{n}"))
                ),
                other => panic!("{other:?}"),
            }
        }
        tokio::task::block_in_place(|| leader.up());
    }
}
