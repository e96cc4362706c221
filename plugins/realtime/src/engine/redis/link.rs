//! Connections to a server or to a cluster.

use std::collections::HashSet;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, FromRedisValue, InfoDict, IntoConnectionInfo,
    ProtocolVersion, PushInfo, RedisResult, ScriptInvocation, Value, from_redis_value,
};
use tokio::sync::mpsc;

use super::{REQUEST_TIMEOUT, RedisEngineOptions, with_timeout};
use crate::engine::{EngineError, Result};

/// The addresses of the server or of nodes of a cluster.
pub(super) struct Address {
    infos: Vec<ConnectionInfo>,
    cluster: bool,
}

/// A connection that many callers share.
#[derive(Clone)]
pub(super) enum Link {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// The slots of a cluster, as ranges with the id of their master; empty for a single server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Slots(Vec<(u16, u16, String)>);

impl Slots {
    /// Returns one slot of each master. The list holds only `None` for a single server.
    pub(super) fn masters(&self) -> Vec<Option<u16>> {
        if self.0.is_empty() {
            return vec![None];
        }
        let mut seen = HashSet::new();
        let ranges = self.0.iter().filter(|(_, _, id)| seen.insert(id));
        ranges.map(|(start, ..)| Some(*start)).collect()
    }

    /// Reads the answer of `CLUSTER SLOTS`, which lists the bounds, master and replicas of each
    /// range.
    fn read(answer: Value) -> RedisResult<Self> {
        let mut ranges: Vec<(u16, u16, String)> = Vec::new();
        for range in from_redis_value::<Vec<Vec<Value>>>(answer)? {
            let mut range = range.into_iter();
            let mut next = || range.next().unwrap_or(Value::Nil);
            let (start, end) = (from_redis_value(next())?, from_redis_value(next())?);
            let id = from_redis_value::<Vec<Value>>(next())?.into_iter().nth(2);
            ranges.push((start, end, from_redis_value(id.unwrap_or(Value::Nil))?));
        }
        ranges.sort();
        Ok(Self(ranges))
    }
}

impl Address {
    pub(super) fn new(options: &RedisEngineOptions) -> Result<Self> {
        let infos: Vec<ConnectionInfo> = options
            .urls
            .iter()
            .map(|url| {
                let info = url
                    .as_str()
                    .into_connection_info()
                    .map_err(EngineError::failed)?;
                // RESP3 is needed: it delivers messages of channels between the answers of
                // commands.
                let settings = info.redis_settings().clone();
                Ok(info.set_redis_settings(settings.set_protocol(ProtocolVersion::RESP3)))
            })
            .collect::<Result<_>>()?;
        if infos.is_empty() || (!options.cluster && infos.len() > 1) {
            return Err(EngineError::failed(
                "`urls` must contain exactly one Redis URL, unless `cluster` is set: then it lists one or more nodes of the cluster",
            ));
        }
        Ok(Self {
            infos,
            cluster: options.cluster,
        })
    }

    /// Connects. Messages of channels are sent to `pushes`.
    pub(super) async fn connect(
        &self,
        pushes: Option<mpsc::UnboundedSender<PushInfo>>,
    ) -> RedisResult<Link> {
        if self.cluster {
            let mut builder = ClusterClient::builder(self.infos.clone())
                .use_protocol(ProtocolVersion::RESP3)
                .connection_timeout(REQUEST_TIMEOUT)
                .response_timeout(REQUEST_TIMEOUT);
            if let Some(pushes) = pushes {
                builder = builder.push_sender(pushes);
            }
            return Ok(Link::Cluster(
                builder.build()?.get_async_connection().await?,
            ));
        }
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(REQUEST_TIMEOUT))
            .set_response_timeout(Some(REQUEST_TIMEOUT));
        if let Some(pushes) = pushes {
            config = config.set_push_sender(pushes);
        }
        let client = Client::open(self.infos[0].clone())?;
        let connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        Ok(Link::Single(connection))
    }
}

impl Link {
    /// Whether several commands can be sent at once, even if their keys are in different slots.
    pub(super) fn can_pipeline(&self) -> bool {
        matches!(self, Self::Single(_))
    }

    pub(super) async fn run<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> RedisResult<T> {
        match self {
            Self::Single(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(connection).await,
        }
    }

    pub(super) async fn invoke<T: FromRedisValue>(
        &mut self,
        script: &ScriptInvocation<'_>,
    ) -> RedisResult<T> {
        match self {
            Self::Single(connection) => script.invoke_async(connection).await,
            Self::Cluster(connection) => script.invoke_async(connection).await,
        }
    }

    /// Sends commands at once. Call it only if [`can_pipeline`](Self::can_pipeline) returns true.
    pub(super) async fn run_all(
        &mut self,
        pipeline: &redis::Pipeline,
    ) -> RedisResult<Vec<RedisResult<redis::Value>>> {
        let count = pipeline.len();
        let values = match self {
            Self::Single(connection) => connection.req_packed_commands(pipeline, 0, count).await?,
            Self::Cluster(connection) => connection.req_packed_commands(pipeline, 0, count).await?,
        };
        Ok(values
            .into_iter()
            .map(redis::Value::extract_error)
            .collect())
    }

    /// Reads the current slots of the cluster.
    pub(super) async fn slots(&mut self) -> RedisResult<Slots> {
        let Self::Cluster(connection) = self else {
            return Ok(Slots::default());
        };
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let any = RoutingInfo::SingleNode(SingleNodeRoutingInfo::RandomPrimary);
        Slots::read(connection.route_command(command, any).await?)
    }

    /// Returns some keys of hashes that a pattern matches, and the cursor for the next ones.
    /// `master` is a slot of the master to search.
    pub(super) async fn scan(
        &mut self,
        master: Option<u16>,
        cursor: &str,
        pattern: &str,
    ) -> RedisResult<(String, Vec<String>)> {
        let mut command = redis::cmd("SCAN");
        command.arg(cursor).arg("MATCH").arg(pattern);
        command.arg("COUNT").arg(1000).arg("TYPE").arg("hash");
        match (self, master) {
            (Self::Cluster(connection), Some(slot)) => {
                let route = Route::new(slot, SlotAddr::Master);
                let node = RoutingInfo::SingleNode(SingleNodeRoutingInfo::SpecificNode(route));
                Ok(from_redis_value(
                    connection.route_command(command, node).await?,
                )?)
            }
            (link, _) => link.run(&command).await,
        }
    }

    pub(super) async fn ping(&mut self) -> RedisResult<()> {
        self.run::<String>(&redis::cmd("PING")).await.map(drop)
    }

    /// Refuses a server without sharded channels.
    pub(super) async fn check_version(&mut self) -> Result<()> {
        // A cluster without sharded channels refuses the first subscription.
        let Self::Single(connection) = self else {
            return Ok(());
        };
        let mut command = redis::cmd("INFO");
        command.arg("server");
        let info: InfoDict = with_timeout(command.query_async(connection)).await?;
        let version: String = info.get("redis_version").unwrap_or_default();
        let major = version
            .split('.')
            .next()
            .and_then(|n| n.parse::<u32>().ok());
        match major {
            Some(major) if major < 7 => Err(EngineError::failed(format!(
                "the server is Redis {version}, and the engine needs 7 or newer"
            ))),
            _ => Ok(()),
        }
    }
}
