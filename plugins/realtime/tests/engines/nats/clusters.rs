//! Tests with clusters in which every server stores every message.

use std::collections::BTreeSet;

use super::*;
use crate::nats_server::with_settings;
use crate::ports::free_port;

/// Three servers.
pub(super) struct Cluster(pub(super) [Nats; 3]);

impl Cluster {
    /// Starts the servers. `settings` are further settings of each server.
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

    /// Starts a node after the servers have elected a leader.
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

    /// Returns the server that leads the stream of frames. After a start of a server it can take
    /// seconds until the servers have elected one.
    async fn leader(&self) -> &Nats {
        let until = Instant::now() + Duration::from_mins(1);
        loop {
            for server in &self.0 {
                let info = server.try_ask("INFO.linchpin_frames", json!({})).await;
                let leader = info.as_ref().and_then(|i| i["cluster"]["leader"].as_str());
                if let Some(nats) = self.0.iter().find(|nats| Some(&*nats.name()) == leader) {
                    return nats;
                }
            }
            assert!(Instant::now() < until, "no leader");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A server that is still copying a message refuses another message of the same room.
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
async fn the_loss_of_one_server_loses_and_duplicates_no_frame() {
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
