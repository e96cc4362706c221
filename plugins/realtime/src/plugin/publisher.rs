//! Sends the frames that code publishes.

use std::sync::Arc;

use linchpin::{Adapters, BoxFuture, Code, Cx, Error, Result, Timestamp, Uuid};
use serde_json::value::RawValue;

use super::node::{Node, NodeSlot};
use super::plan::{Plan, append};
use super::queued::{QueuedFrame, QueuedFrameCreate, RECORD_TTL_MS};
use crate::channel::{Publication, Publisher, RoomKey};
use crate::engine::Stream;
use crate::rooms::{EphemeralMessage, StoredFrame, stream_name};

/// The publisher of an app.
pub(super) struct NodePublisher {
    pub(super) node: NodeSlot,
    pub(super) adapters: Adapters,
    pub(super) plan: Arc<Plan>,
    /// The channels, in the order of the declarations.
    pub(super) channels: Vec<&'static crate::channel::ChannelDesc>,
}

impl NodePublisher {
    /// Returns the stream of the room.
    fn stream(&self, cx: &Cx, frame: &Publication) -> Result<Stream> {
        let room = frame.room.name(frame.channel).map_err(Error::internal)?;
        let unknown = || {
            Error::internal(format!(
                "channel `{}` is not part of the app: add it with `.channel::<{}>()`",
                frame.channel.ident, frame.channel.ident
            ))
        };
        let mut channels = self.channels.iter();
        let at = channels.position(|one| std::ptr::eq(*one, frame.channel));
        let at = at.ok_or_else(unknown)?;
        let owners = match frame.room {
            RoomKey::Record(_) => Vec::new(),
            RoomKey::Collection => {
                let guard = self.plan.collection(at);
                guard.ok_or_else(unknown)?.owners_of_caller(cx)?
            }
        };
        let name = stream_name(&room, &owners);
        Ok(Stream::new(name, frame.channel.history.of_stream()))
    }

    async fn send(&self, cx: &Cx, frame: Publication) -> Result<()> {
        let unavailable = || Error::unavailable("rooms are not set up");
        let node = self.node.get().ok_or_else(unavailable)?;
        let stream = self.stream(cx, &frame)?;
        let payload = frame.payload.to_string();
        let most = node.limits.outbound_bytes;
        if payload.len() > most {
            let text = format!("a published payload must have at most {most} bytes");
            return Err(Error::new(Code::BodyTooLarge, text));
        }
        if frame.ephemeral {
            return send_ephemeral(node, cx, &stream, &frame, &payload).await;
        }
        let id = Uuid::new_v7().to_string();
        let stored = StoredFrame {
            event: frame.variant.name.to_owned(),
            aliases: frame
                .variant
                .alias
                .iter()
                .map(|&name| name.to_owned())
                .collect(),
            payload: RawValue::from_string(payload).map_err(Error::internal)?,
            truncated: false,
            id: id.clone(),
            at: cx.now().to_string(),
            about: None,
        };
        if !cx.is_in_transaction() {
            node.engine
                .append(&[append(stream, &id, stored.encode()?)?])
                .await?;
            return Ok(());
        }
        let queued = QueuedFrameCreate {
            id,
            stream: stream.name().to_owned(),
            history_size: i64::from(stream.history.size),
            history_ttl: i64::try_from(stream.history.ttl.as_millis()).unwrap_or(i64::MAX),
            frame: serde_json::to_string(&stored).map_err(Error::internal)?,
            expires_at: Some(Timestamp::from_millis(
                cx.now().millis().saturating_add(RECORD_TTL_MS),
            )),
        };
        self.adapters
            .get::<QueuedFrame>()?
            .create(cx, queued)
            .await?;
        Ok(())
    }
}

/// Passes an ephemeral frame to the members of a room.
async fn send_ephemeral(
    node: &Arc<Node>,
    cx: &Cx,
    stream: &Stream,
    frame: &Publication,
    payload: &str,
) -> Result<()> {
    let names = std::iter::once(&frame.variant.name).chain(frame.variant.alias);
    let mut messages = Vec::with_capacity(1);
    for name in names {
        let message = EphemeralMessage::Frame {
            event: (*name).to_owned(),
            payload: RawValue::from_string(payload.to_owned()).map_err(Error::internal)?,
            from: None,
            except: None,
        };
        messages.push(message.encode()?);
    }
    let (engine, stream) = (Arc::clone(&node.engine), stream.clone());
    let send = async move {
        for message in messages {
            engine.send(&stream, message).await?;
        }
        Ok(())
    };
    if !cx.is_in_transaction() {
        return send.await;
    }
    let runtime = tokio::runtime::Handle::current();
    cx.after_commit(move || {
        runtime.spawn(async move {
            let sent: Result<()> = send.await;
            if let Err(error) = sent {
                tracing::debug!(%error, "an ephemeral frame is not sent");
            }
        });
    });
    Ok(())
}

impl Publisher for NodePublisher {
    fn publish<'a>(&'a self, cx: &'a Cx, frame: Publication) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.send(cx, frame))
    }
}
