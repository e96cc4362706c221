//! An app with several nodes, which share one `PostgreSQL` database and one engine.

use std::time::Duration;

#[cfg(feature = "nats")]
use linchpin_realtime::engine::NatsEngineOptions;
use linchpin_realtime::engine::{PostgresEngineOptions, RedisEngineOptions};
use linchpin_realtime::{EngineChoice, Realtime};

#[cfg(feature = "nats")]
use crate::nats_server::Nats;
use crate::postgres_server as postgres;
use crate::redis_server::{Redis, single};
use crate::test_app::TestApp;

/// The plugin of an app with several processes.
fn for_processes(plugin: Realtime, engine: EngineChoice) -> Realtime {
    plugin
        .engine(engine)
        .configure(|config| config.cluster = true)
}

/// The database and the engine of an app.
pub struct Cluster {
    database: String,
    server: Server,
}

/// The server of the engine.
enum Server {
    Database,
    Redis(Redis),
    #[cfg(feature = "nats")]
    Nats(Nats),
}

impl Cluster {
    fn on(server: Server) -> Self {
        Self {
            database: postgres::fresh_database(),
            server,
        }
    }

    pub fn with_postgres() -> Self {
        Self::on(Server::Database)
    }

    pub fn with_redis() -> Self {
        Self::on(Server::Redis(single()))
    }

    #[cfg(feature = "nats")]
    pub fn with_nats() -> Self {
        Self::on(Server::Nats(crate::nats_server::single()))
    }

    fn engine(&self) -> EngineChoice {
        match &self.server {
            Server::Database => EngineChoice::Postgres(PostgresEngineOptions::new(&self.database)),
            Server::Redis(redis) => {
                let url = format!("redis://127.0.0.1:{}", redis.port);
                EngineChoice::Redis(RedisEngineOptions::new(url))
            }
            #[cfg(feature = "nats")]
            Server::Nats(nats) => {
                let url = format!("nats://127.0.0.1:{}", nats.port);
                EngineChoice::Nats(NatsEngineOptions::new(url))
            }
        }
    }

    pub async fn node(&self) -> TestApp {
        self.node_with(Duration::ZERO).await
    }

    /// Starts a node that spreads the close of its connections over `drain` when it stops.
    pub async fn node_with(&self, drain: Duration) -> TestApp {
        let engine = self.engine();
        let plugin = |plugin: Realtime| {
            for_processes(plugin, engine).configure(|config| {
                config.drain = drain;
                config.recheck = Duration::from_secs(1);
                config.limits.handshakes_per_minute = 10_000;
                config.limits.connections_per_user = 1_000;
            })
        };
        TestApp::on(&self.database, plugin, |auth| auth).await
    }

    pub async fn three(&self) -> [TestApp; 3] {
        [self.node().await, self.node().await, self.node().await]
    }

    /// Deletes all data of the engine.
    pub fn empty(&self) {
        match &self.server {
            Server::Redis(redis) => drop(redis.cli(&["FLUSHALL"])),
            #[cfg(feature = "nats")]
            Server::Nats(nats) => nats.delete_streams(),
            Server::Database => postgres::execute(
                &self.database,
                "TRUNCATE linchpin_realtime_streams, linchpin_realtime_frames, \
                 linchpin_realtime_fences, linchpin_realtime_presence, \
                 linchpin_realtime_messages RESTART IDENTITY",
            )
            .expect("truncated"),
        }
    }
}
