//! Compares subscriptions with the tops of their streams. This detects a server that has lost data
//! but not its connections.

use futures_util::stream::{self, StreamExt};
use redis::{RedisResult, Value, from_redis_value};

use super::{Inner, streams, with_timeout};
use crate::engine::feed::Source;
use crate::engine::{EventId, Result, Stream};

/// The maximum number of streams that one call of [`compare_next`] compares.
const MAX_COMPARED: usize = 500;
/// The maximum number of positions of a cluster that are read at once.
const AT_ONCE: usize = 16;
/// The age in milliseconds at which the life of a position is extended.
pub(super) const RENEWAL_AGE: i64 = 3_600_000;

/// Epoch, offset, last event and time of expiry, as the server stores them.
type Stored = (
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
);

/// Compares the next streams. `compared` is the number of streams that this round has compared.
///
/// The positions are read with one request; in a cluster, with one request for each stream. If the
/// subscriptions of a stream have reached its position, no further read is needed.
pub(super) async fn compare_next(inner: &Inner, compared: &mut usize) {
    let mut open = inner.feeds.open();
    open.sort_by(|a, b| a.name().cmp(b.name()));
    if *compared >= open.len() {
        *compared = 0;
    }
    let part: Vec<Stream> = open
        .into_iter()
        .skip(*compared)
        .take(MAX_COMPARED)
        .collect();
    *compared += MAX_COMPARED;
    let Ok(positions) = positions(inner, &part).await else {
        return;
    };
    for (stream, stored) in part.iter().zip(positions) {
        if stored.is_ok_and(|stored| is_as_expected(inner, stream, stored)) {
            continue;
        }
        let Ok(entries) = inner.entries(stream, u64::MAX, 0).await else {
            return;
        };
        let last = entries.last.as_ref();
        inner.feeds.compare(stream.name(), entries.top, last);
    }
}

/// Reads the stored positions of streams.
async fn positions(inner: &Inner, part: &[Stream]) -> Result<Vec<RedisResult<Value>>> {
    let mut link = inner.link().await?;
    if part.is_empty() {
        return Ok(Vec::new());
    }
    let mut commands = Vec::with_capacity(part.len());
    for stream in part {
        let [position, ..] = inner.keys.log(stream);
        let mut command = redis::cmd("HMGET");
        command
            .arg(position)
            .arg(&["epoch", "offset", "last", "expires"]);
        commands.push(command);
    }
    if link.can_pipeline() {
        let mut pipeline = redis::pipe();
        for command in commands {
            pipeline.add_command(command);
        }
        return with_timeout(link.run_all(&pipeline)).await;
    }
    let read = |command: redis::Cmd| {
        let mut link = link.clone();
        async move { link.run::<Value>(&command).await }
    };
    let read = stream::iter(commands).map(read);
    Ok(read.buffered(AT_ONCE).collect().await)
}

/// Whether all subscriptions of a stream have reached its stored position, and it needs no renewal.
fn is_as_expected(inner: &Inner, stream: &Stream, stored: Value) -> bool {
    let Ok((Some(epoch), Some(offset), last, Some(expires))) = from_redis_value::<Stored>(stored)
    else {
        return false;
    };
    let Ok(top) = streams::position(&epoch, &offset) else {
        return false;
    };
    let life = streams::millis(stream.history.position_ttl());
    let needs_no_renewal = expires
        .parse::<i64>()
        .is_ok_and(|expires| expires >= (inner.clock)().millis() + life - RENEWAL_AGE);
    let last = last.as_deref().and_then(EventId::new);
    needs_no_renewal && inner.feeds.agree(stream.name(), top, last.as_ref())
}
