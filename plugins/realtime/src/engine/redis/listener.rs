//! Keeps the connections, and receives published messages.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use linchpin::Timestamp;
use redis::{PushInfo, PushKind, RedisResult, Value};
use tokio::sync::{mpsc, oneshot};

use super::link::Link;
use super::{Inner, REQUEST_TIMEOUT, State, compare, with_timeout};
use crate::engine::faults::{self, Fault};
use crate::engine::{EngineError, EventId, Frame, MAX_MESSAGE, Position, Result};

/// The delay before the next attempt to connect. It doubles up to [`MAX_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(50);
const MAX_RETRY: Duration = Duration::from_secs(2);
/// The maximum length of a published frame that is decoded. A longer one is read from its stream.
const MAX_PUBLISHED: usize = 4 << 20;
/// The maximum number of channels in a command.
const CHANNELS: usize = 500;

/// The commands of the engine to its listener.
pub(super) enum Command {
    Listen(String, oneshot::Sender<Result<()>>),
    Release(String),
}

/// Listens while the engine is open. Updates the engine's state when the connection changes.
pub(super) async fn run(inner: &Inner, mut commands: mpsc::UnboundedReceiver<Command>) {
    let mut retry = FIRST_RETRY;
    loop {
        match Listener::connect(inner).await {
            Ok((listener, link)) => {
                retry = FIRST_RETRY;
                set_state(inner, State::Connected(link));
                inner.feeds.request_all_comparisons();
                let reason = listener.listen(&mut commands).await;
                set_state(inner, State::Disconnected);
                tracing::warn!(reason, "the realtime engine has lost its connection");
            }
            Err(error) => {
                tracing::warn!(error = %error, "the realtime engine cannot connect");
            }
        }
        // The next connection listens to all open streams.
        while let Ok(command) = commands.try_recv() {
            if let Command::Listen(_, done) = command {
                let _ = done.send(Err(EngineError::unavailable(
                    "there is no connection to the Redis server",
                )));
            }
        }
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(MAX_RETRY);
    }
}

fn set_state(inner: &Inner, state: State) {
    inner.state.send_if_modified(|own| {
        let open = !matches!(own, State::Closed);
        if open {
            *own = state;
        }
        open
    });
}

/// Listens on a connection until it breaks. It passes on published messages even while other tasks
/// wait for the server.
struct Listener<'a> {
    inner: &'a Inner,
    link: Link,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    channels: HashSet<String>,
}

impl<'a> Listener<'a> {
    /// Opens two connections. One receives messages. The other one is for commands, so that many
    /// messages do not delay their answers.
    async fn connect(inner: &'a Inner) -> Result<(Self, Link)> {
        let (sender, pushes) = mpsc::unbounded_channel();
        let mut link = with_timeout(inner.address.connect(Some(sender))).await?;
        let commands = with_timeout(inner.address.connect(None)).await?;
        let open = inner.feeds.open();
        let mut channels = vec![inner.keys.all_nodes(), inner.keys.node(&inner.node)];
        channels.extend(open.iter().map(|stream| inner.keys.channel(stream.name())));
        for part in channels.chunks(CHANNELS) {
            with_timeout(subscribe(&mut link, "SSUBSCRIBE", part)).await?;
        }
        let listener = Self {
            inner,
            link,
            pushes,
            channels: channels.into_iter().collect(),
        };
        Ok((listener, commands))
    }

    /// Passes on messages until the connection breaks. Its three tasks run concurrently, each on a
    /// clone of the connection.
    async fn listen(self, commands: &mut mpsc::UnboundedReceiver<Command>) -> String {
        let Self {
            inner,
            link,
            pushes,
            channels,
        } = self;
        tokio::select! {
            reason = receive(inner, pushes) => reason,
            reason = apply_commands(inner, link.clone(), channels, commands) => reason,
            reason = check(inner, link) => reason,
        }
    }
}

/// Passes on published messages.
async fn receive(inner: &Inner, mut pushes: mpsc::UnboundedReceiver<PushInfo>) -> String {
    while let Some(push) = pushes.recv().await {
        // Stop in a cluster, too: messages from one of its nodes may have been missed.
        if push.kind == PushKind::Disconnection {
            break;
        }
        forward(inner, push);
    }
    "it was closed".to_owned()
}

/// Applies the commands of the engine when they arrive.
async fn apply_commands(
    inner: &Inner,
    mut link: Link,
    mut channels: HashSet<String>,
    commands: &mut mpsc::UnboundedReceiver<Command>,
) -> String {
    while let Some(first) = commands.recv().await {
        if let Err(error) = apply_waiting(inner, &mut link, &mut channels, first, commands).await {
            return error.to_string();
        }
    }
    "the engine is closed".to_owned()
}

/// Applies the waiting commands.
async fn apply_waiting(
    inner: &Inner,
    link: &mut Link,
    channels: &mut HashSet<String>,
    first: Command,
    commands: &mut mpsc::UnboundedReceiver<Command>,
) -> Result<()> {
    let (mut added, mut left, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = Some(first);
    while let Some(command) = next {
        match command {
            Command::Listen(stream, done) => {
                let channel = inner.keys.channel(&stream);
                if channels.insert(channel.clone()) {
                    added.push(channel);
                }
                waiting.push(done);
            }
            Command::Release(stream) => {
                let channel = inner.keys.channel(&stream);
                if !inner.feeds.is_open(&stream) && channels.remove(&channel) {
                    left.push(channel);
                }
            }
        }
        next = if added.len() + left.len() < CHANNELS {
            commands.try_recv().ok()
        } else {
            None
        };
    }
    // If the commands both leave and join a stream, the last one counts.
    left.retain(|channel| !channels.contains(channel));
    added.retain(|channel| channels.contains(channel));
    let outcome = async {
        with_timeout(subscribe(link, "SUNSUBSCRIBE", &left)).await?;
        with_timeout(subscribe(link, "SSUBSCRIBE", &added)).await
    };
    let outcome = outcome.await;
    for done in waiting {
        let answer = match &outcome {
            Ok(()) => Ok(()),
            Err(error) => Err(EngineError::unavailable(error.to_string())),
        };
        // The subscriber may have stopped waiting.
        let _ = done.send(answer);
    }
    outcome
}

/// Subscribes to channels, or leaves them. Each has its own command; all are sent at once.
async fn subscribe(link: &mut Link, command: &str, channels: &[String]) -> RedisResult<()> {
    if !link.can_pipeline() {
        for channel in channels {
            let mut one = redis::cmd(command);
            one.arg(channel);
            link.run::<Value>(&one).await?;
        }
        return Ok(());
    }
    if channels.is_empty() {
        return Ok(());
    }
    let mut pipeline = redis::pipe();
    for channel in channels {
        pipeline.cmd(command).arg(channel);
    }
    for answer in link.run_all(&pipeline).await? {
        answer?;
    }
    Ok(())
}

/// Checks the connection and compares streams with their tops, at an interval.
async fn check(inner: &Inner, mut link: Link) -> String {
    let mut compared = 0;
    loop {
        tokio::time::sleep(inner.check).await;
        if let Err(error) = with_timeout(link.ping()).await {
            return error.to_string();
        }
        // A comparison that takes longer is canceled. A later round compares the other streams.
        let _ = tokio::time::timeout(REQUEST_TIMEOUT, compare::compare_next(inner, &mut compared))
            .await;
    }
}

/// Passes on a published message. Its first byte is its kind: `f` for a frame, `m` for a message,
/// and `r` for a new epoch.
fn forward(inner: &Inner, push: PushInfo) {
    if push.kind != PushKind::SMessage {
        return;
    }
    let mut values = push.data.into_iter();
    let (Some(Value::BulkString(channel)), Some(Value::BulkString(message))) =
        (values.next(), values.next())
    else {
        return;
    };
    let Ok(channel) = String::from_utf8(channel) else {
        return;
    };
    let message = Bytes::from(message);
    let Some(kind) = message.first().copied() else {
        return;
    };
    let rest = message.slice(1..);
    let stream = inner.keys.stream(&channel);
    let feeds = &inner.feeds;
    match (kind, &stream) {
        (b'f', Some(stream)) => {
            let fault = if rest.len() > MAX_PUBLISHED {
                Fault::FrameTooLarge
            } else if let Some(frame) = frame(&rest) {
                feeds.frame(stream, &frame);
                return;
            } else {
                // A newer version may publish in another form.
                Fault::FrameUnreadable
            };
            faults::count(fault);
            feeds.request_comparison(stream);
        }
        // Another program may publish a longer message. Engines do not.
        (b'm', _) if rest.len() > MAX_MESSAGE => faults::count(Fault::MessageTooLarge),
        (b'm', Some(stream)) => feeds.message(stream, &rest),
        (_, Some(stream)) => feeds.request_comparison(stream),
        (b'm', None) => inner.controls.pass(rest),
        (_, None) => faults::count(Fault::MessageUnreadable),
    }
}

/// A published frame: epoch, offset, time and event, then a line feed and the frame.
fn frame(text: &Bytes) -> Option<Frame> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&text[..end]).ok()?;
    let mut words = head.split(' ');
    let (epoch, offset) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let at = words.next()?.parse().ok()?;
    Some(Frame {
        position: Position { epoch, offset },
        event: EventId::new(words.next()?)?,
        data: text.slice(end + 1..),
        at: Timestamp::from_millis(at),
    })
}
