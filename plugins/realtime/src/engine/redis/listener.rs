//! Keeps the connections, and hears what is published.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use linchpin::Timestamp;
use redis::{PushInfo, PushKind, RedisResult, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior};

use super::link::Link;
use super::{Inner, PATIENCE, State, within};
use crate::engine::feed::Source;
use crate::engine::{EngineError, EventId, Frame, Position, Result};

/// The time before the next attempt to connect, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How often the connection is tried, and some of the streams are compared with their tops.
const CHECK: Duration = Duration::from_secs(5);
/// The maximum number of streams that are compared at once.
const COMPARED: usize = 500;
/// The maximum number of channels in a command.
const CHANNELS: usize = 500;

/// What the engine wants of its listener.
pub(super) enum Command {
    Listen(String, oneshot::Sender<Result<()>>),
    Release(String),
}

/// Listens, for as long as the engine is open. The state follows the connection.
pub(super) async fn run(inner: &Inner, mut commands: mpsc::UnboundedReceiver<Command>) {
    let mut retry = RETRY.0;
    loop {
        match Listener::connect(inner).await {
            Ok((mut listener, link)) => {
                retry = RETRY.0;
                set(inner, State::Connected(link));
                inner.feeds.doubt_all();
                let reason = listener.listen(&mut commands).await;
                set(inner, State::Apart);
                tracing::warn!(reason, "the realtime engine has lost its connection");
            }
            Err(error) => {
                tracing::warn!(error = %error, "the realtime engine cannot connect");
            }
        }
        // The next connection listens to all open streams.
        while let Ok(command) = commands.try_recv() {
            if let Command::Listen(_, done) = command {
                let _ = done.send(Err(EngineError::unavailable("the server is not connected")));
            }
        }
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(RETRY.1);
    }
}

fn set(inner: &Inner, state: State) {
    inner.state.send_if_modified(|own| {
        let open = !matches!(own, State::Closed);
        if open {
            *own = state;
        }
        open
    });
}

struct Listener<'a> {
    inner: &'a Inner,
    link: Link,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    channels: HashSet<String>,
    /// How many streams of this round have been compared.
    compared: usize,
}

impl<'a> Listener<'a> {
    /// Two connections: one that hears, and one for commands, whose answers do not wait after a
    /// flood of messages.
    async fn connect(inner: &'a Inner) -> Result<(Self, Link)> {
        let (sender, pushes) = mpsc::unbounded_channel();
        let link = within(inner.address.connect(Some(sender))).await?;
        let commands = within(inner.address.connect(None)).await?;
        let mut listener = Self {
            inner,
            link,
            pushes,
            channels: HashSet::new(),
            compared: 0,
        };
        let open = inner.feeds.open();
        let mut channels = vec![inner.keys.all_nodes(), inner.keys.node(&inner.node)];
        channels.extend(open.iter().map(|stream| inner.keys.channel(stream.name())));
        for part in channels.chunks(CHANNELS) {
            within(listener.subscribe("SSUBSCRIBE", part)).await?;
        }
        listener.channels = channels.into_iter().collect();
        Ok((listener, commands))
    }

    /// Subscribes to channels, or leaves them: each with a command of its own, sent at once.
    async fn subscribe(&mut self, command: &str, channels: &[String]) -> RedisResult<()> {
        if !self.link.pipelines() {
            for channel in channels {
                let mut one = redis::cmd(command);
                one.arg(channel);
                self.link.run::<Value>(&one).await?;
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
        for answer in self.link.run_all(&pipeline).await? {
            answer?;
        }
        Ok(())
    }

    /// Passes on messages until the connection breaks.
    async fn listen(&mut self, commands: &mut mpsc::UnboundedReceiver<Command>) -> String {
        let mut check = tokio::time::interval_at(Instant::now() + CHECK, CHECK);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                push = self.pushes.recv() => match push {
                    // In a cluster too: the streams of one of its nodes may have been missed.
                    Some(push) if push.kind == PushKind::Disconnection => {
                        return "it was closed".to_owned();
                    }
                    Some(push) => self.pass(push),
                    None => return "it was closed".to_owned(),
                },
                command = commands.recv() => {
                    let Some(first) = command else {
                        return "the engine is closed".to_owned();
                    };
                    if let Err(error) = self.obey(first, commands).await {
                        return error.to_string();
                    }
                },
                _ = check.tick() => {
                    if let Err(error) = within(self.link.ping()).await {
                        return error.to_string();
                    }
                    self.compare().await;
                },
            }
        }
    }

    /// Executes the commands that wait.
    async fn obey(
        &mut self,
        first: Command,
        commands: &mut mpsc::UnboundedReceiver<Command>,
    ) -> Result<()> {
        let (mut added, mut left, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(command) = next {
            match command {
                Command::Listen(stream, done) => {
                    let channel = self.inner.keys.channel(&stream);
                    if self.channels.insert(channel.clone()) {
                        added.push(channel);
                    }
                    waiting.push(done);
                }
                Command::Release(stream) => {
                    let channel = self.inner.keys.channel(&stream);
                    if !self.inner.feeds.is_open(&stream) && self.channels.remove(&channel) {
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
        // A stream that was both left and joined within these commands: the last one counts.
        left.retain(|channel| !self.channels.contains(channel));
        added.retain(|channel| self.channels.contains(channel));
        let outcome = async {
            within(self.subscribe("SUNSUBSCRIBE", &left)).await?;
            within(self.subscribe("SSUBSCRIBE", &added)).await
        };
        let outcome = outcome.await;
        for done in waiting {
            let told = match &outcome {
                Ok(()) => Ok(()),
                Err(error) => Err(EngineError::unavailable(error.to_string())),
            };
            // The subscriber may have stopped waiting.
            let _ = done.send(told);
        }
        outcome
    }

    /// Compares some of the streams with their tops: a node that has lost data without losing its
    /// connections is noticed.
    async fn compare(&mut self) {
        let mut open = self.inner.feeds.open();
        open.sort_by(|a, b| a.name().cmp(b.name()));
        if self.compared >= open.len() {
            self.compared = 0;
        }
        let part = open.iter().skip(self.compared).take(COMPARED);
        let work = async {
            for stream in part {
                let Ok(entries) = self.inner.entries(stream, u64::MAX, 0).await else {
                    return;
                };
                let last = entries.last.as_ref();
                self.inner.feeds.compare(stream.name(), entries.top, last);
            }
        };
        // Messages wait meanwhile.
        let _ = tokio::time::timeout(PATIENCE, work).await;
        self.compared += COMPARED;
    }

    fn pass(&self, push: PushInfo) {
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
        let Some(stream) = self.inner.keys.stream(&channel) else {
            self.inner.controls.pass(rest);
            return;
        };
        let feeds = &self.inner.feeds;
        match kind {
            b'f' => match frame(&rest) {
                Some(frame) => feeds.frame(&stream, &frame),
                // A newer version publishes in another form.
                None => feeds.doubt(&stream),
            },
            b'm' => feeds.message(&stream, &rest),
            _ => feeds.doubt(&stream),
        }
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
