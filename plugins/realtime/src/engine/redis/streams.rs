//! Appends and reads frames.

use bytes::Bytes;
use linchpin::{BoxFuture, Timestamp};
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value, from_redis_value};

use super::link::Link;
use super::listener::Command;
use super::mend::{self, OwnKeys};
use super::{Inner, scripts, with_timeout};
use crate::engine::faults::{self, Fault};
use crate::engine::feed::{Entries, Source};
use crate::engine::{
    Append, EngineError, Epoch, EventId, Frame, MAX_READ, Position, Result, Stream,
};

/// The maximum number of commands that are sent at once.
const BATCH: usize = 200;

fn foreign(what: &str) -> EngineError {
    EngineError::failed(format!(
        "unexpected data in the keys of the realtime engine: {what}"
    ))
}

pub(super) fn position(epoch: &str, offset: &str) -> Result<Position> {
    Ok(Position {
        epoch: epoch.parse().map_err(|_| foreign("an invalid epoch"))?,
        offset: offset.parse().map_err(|_| foreign("an invalid offset"))?,
    })
}

pub(super) fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

/// Returns the command that appends a frame. With `by_hash` it names the function by its hash, and
/// the server should already have the function. Otherwise the command contains its source.
fn command(inner: &Inner, append: &Append, by_hash: bool) -> Cmd {
    let (stream, history) = (&append.stream, append.stream.history);
    let mut command = if by_hash {
        let mut command = redis::cmd("EVALSHA");
        command.arg(scripts::APPEND_SCRIPT.get_hash());
        command
    } else {
        let mut command = redis::cmd("EVAL");
        command.arg(&*scripts::APPEND_SOURCE);
        command
    };
    command
        .arg(4)
        .arg(&inner.keys.log(stream))
        .arg(inner.keys.channel(stream.name()))
        .arg(Epoch::random().as_str())
        .arg((inner.clock)().millis())
        .arg(millis(history.position_ttl()))
        .arg(history.kept_size())
        .arg(millis(history.kept_ttl()))
        .arg(append.event.as_str())
        .arg(&*append.frame);
    match &append.fence {
        Some(fence) => command.arg(&*fence.consumer).arg(fence.number),
        None => command.arg("").arg(""),
    };
    command
}

/// Reads the answer of the function that appends a frame.
fn appended((epoch, offset): (String, String)) -> Result<Position> {
    if epoch == "fenced" {
        return Err(EngineError::Fenced {
            seen: offset.parse().unwrap_or(u64::MAX),
        });
    }
    position(&epoch, &offset)
}

/// Whether the server does not have the function. A restart of the server removes all functions.
fn is_forgotten(value: &RedisResult<Value>) -> bool {
    let error = value.as_ref().err();
    error.is_some_and(|e| e.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
}

/// Appends frames in their order, each with a separate command. A cluster needs this.
async fn one_by_one(
    inner: &Inner,
    link: &mut Link,
    part: &[Append],
) -> Result<Vec<RedisResult<Value>>> {
    let mut values = Vec::with_capacity(part.len());
    for append in part {
        let by_hash = command(inner, append, true);
        let mut value = with_timeout(async { Ok(link.run(&by_hash).await) }).await?;
        // Retry this frame before the next one, which may be of the same stream.
        if is_forgotten(&value) {
            let with_source = command(inner, append, false);
            value = with_timeout(async { Ok(link.run(&with_source).await) }).await?;
        }
        values.push(value);
    }
    Ok(values)
}

/// Appends frames in their order with one pipeline. It works only with a single server.
async fn at_once(
    inner: &Inner,
    link: &mut Link,
    part: &[Append],
) -> Result<Vec<RedisResult<Value>>> {
    let pipeline = |is_loaded: bool| {
        let mut pipeline = redis::pipe();
        for (at, append) in part.iter().enumerate() {
            // The first of several commands contains the function's source. Otherwise another
            // process could load the function between two commands. The first one would then fail
            // and the second one succeed, in the wrong order.
            let by_hash = is_loaded && (at > 0 || part.len() == 1);
            pipeline.add_command(command(inner, append, by_hash));
        }
        pipeline
    };
    let values = with_timeout(link.run_all(&pipeline(true))).await?;
    // A frame that was appended is not appended again, because its event id is known.
    if values.iter().any(is_forgotten) {
        return with_timeout(link.run_all(&pipeline(false))).await;
    }
    Ok(values)
}

async fn send(inner: &Inner, link: &mut Link, part: &[Append]) -> Result<Vec<RedisResult<Value>>> {
    if link.can_pipeline() {
        at_once(inner, link, part).await
    } else {
        one_by_one(inner, link, part).await
    }
}

/// Removes keys of streams that another program has overwritten. Returns whether any frame was
/// refused because of them.
async fn mend_all(
    inner: &Inner,
    link: &mut Link,
    part: &[Append],
    values: &[RedisResult<Value>],
) -> Result<bool> {
    let mut mended: Vec<&str> = Vec::new();
    for (append, value) in part.iter().zip(values) {
        let stream = &append.stream;
        if let Err(cause) = value
            && mend::is_damage(cause)
            && !mended.contains(&stream.name())
        {
            mended.push(stream.name());
            let keys = OwnKeys::Log(inner.keys.log(stream));
            mend::remove_foreign(link, &keys, cause).await?;
        }
    }
    Ok(!mended.is_empty())
}

pub(super) async fn append(inner: &Inner, batch: &[Append]) -> Result<Vec<Position>> {
    let mut link = inner.link().await?;
    let mut positions = Vec::with_capacity(batch.len());
    for part in batch.chunks(BATCH) {
        let mut values = send(inner, &mut link, part).await?;
        if mend_all(inner, &mut link, part, &values).await? {
            // A frame that was appended is not appended again, because its event id is known.
            values = send(inner, &mut link, part).await?;
        }
        for value in values {
            let value = value.and_then(|value| Ok(from_redis_value(value)?));
            positions.push(appended(value.map_err(super::error)?)?);
        }
    }
    Ok(positions)
}

/// The answer of the functions that read: epoch, offset, last event, the frames with their ids and
/// fields, and the number of entries of another form.
type Read = (String, String, String, Vec<(String, Vec<Vec<u8>>)>, u64);

/// Returns the frame of an entry, or `None` if this version of the app cannot read it.
fn frame(epoch: Epoch, id: &str, fields: Vec<Vec<u8>>) -> Option<Frame> {
    let offset = id.strip_suffix("-0")?.parse().ok()?;
    let [_, event, _, at, _, data] = <[Vec<u8>; 6]>::try_from(fields).ok()?;
    let at = std::str::from_utf8(&at).ok()?.parse().ok()?;
    Some(Frame {
        position: Position { epoch, offset },
        event: EventId::new(std::str::from_utf8(&event).ok()?)?,
        at: Timestamp::from_millis(at),
        data: Bytes::from(data),
    })
}

/// Reports entries that were skipped.
fn report_foreign(stream: &Stream, count: u64) {
    if count > 0 {
        let stream = stream.name();
        tracing::error!(stream, count, "a stream has entries that cannot be read");
        faults::count_many(Fault::EntryUnreadable, count);
    }
}

impl Inner {
    async fn read(&self, stream: &Stream, after: u64, max: usize) -> Result<Entries> {
        let now = (self.clock)();
        let keys = OwnKeys::Log(self.keys.log(stream));
        let (epoch, offset, last, found, mut foreign): Read = self
            .invoke(&scripts::READ_SCRIPT, &keys, |call| {
                call.arg(Epoch::random().as_str())
                    .arg(now.millis())
                    .arg(millis(stream.history.position_ttl()))
                    .arg(after)
                    .arg(max.min(1 << 20))
                    .arg(MAX_READ);
            })
            .await?;
        let top = position(&epoch, &offset)?;
        let since = now.millis() - millis(stream.history.kept_ttl());
        let mut frames = Vec::with_capacity(found.len());
        for (id, fields) in found {
            match frame(top.epoch, &id, fields) {
                Some(frame) if frame.at.millis() <= since => {}
                Some(frame) => frames.push(frame),
                None => foreign += 1,
            }
        }
        report_foreign(stream, foreign);
        Ok(Entries {
            top,
            last: EventId::new(&last),
            frames,
        })
    }

    async fn replace(&self, stream: &Stream, lost: Epoch) -> Result<Position> {
        let keys = OwnKeys::Log(self.keys.log(stream));
        let (epoch, offset, ..): Read = self
            .invoke(&scripts::REPLACE_SCRIPT, &keys, |call| {
                call.key(self.keys.channel(stream.name()))
                    .arg(lost.as_str())
                    .arg(Epoch::random().as_str())
                    .arg((self.clock)().millis())
                    .arg(millis(stream.history.position_ttl()));
            })
            .await?;
        position(&epoch, &offset)
    }
}

impl Source for Inner {
    fn listen<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            // If there is no connection, the next one listens to all open streams.
            self.link().await?;
            let (done, listening) = tokio::sync::oneshot::channel();
            let command = Command::Listen(stream.name().to_owned(), done);
            let closed = || EngineError::unavailable("the engine is closed");
            self.commands.send(command).map_err(|_| closed())?;
            match tokio::time::timeout(super::REQUEST_TIMEOUT, listening).await {
                // The connection has ended. The next one listens to all open streams.
                Ok(outcome) => outcome.map_err(|_| {
                    EngineError::unavailable("there is no connection to the Redis server")
                })?,
                Err(_) => Err(EngineError::unavailable("the server does not answer")),
            }
        })
    }

    fn released(&self, stream: &Stream) {
        // After the engine is closed, no task receives the command.
        let _ = self
            .commands
            .send(Command::Release(stream.name().to_owned()));
    }

    fn entries<'a>(
        &'a self,
        stream: &'a Stream,
        after: u64,
        max: usize,
    ) -> BoxFuture<'a, Result<Entries>> {
        Box::pin(self.read(stream, after, max))
    }

    fn replace_epoch<'a>(
        &'a self,
        stream: &'a Stream,
        lost: Epoch,
    ) -> BoxFuture<'a, Result<Position>> {
        Box::pin(self.replace(stream, lost))
    }
}
