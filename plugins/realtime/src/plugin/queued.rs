//! Frames that code publishes in a transaction. They are stored as records, so that they are
//! committed with the transaction.

use linchpin::prelude::*;
use linchpin::{EntityEvent, Error};

use crate::channel::{Declared, Mark};
use crate::engine::{Append, EventId, History, Stream};

/// A frame that is sent after the commit. The event of its creation carries the frame. The record
/// itself is never read.
#[entity(namespace = "realtime", ttl(expires_at), routes(disabled))]
#[derive(Clone, Debug)]
pub(crate) struct QueuedFrame {
    /// The id of the event.
    #[field(primary)]
    pub(crate) id: String,
    pub(crate) stream: String,
    /// The limits of the stream's history: the number of frames, and their age in milliseconds.
    pub(crate) history_size: i64,
    pub(crate) history_ttl: i64,
    /// The frame in the form that engines store.
    pub(crate) frame: String,
    pub(crate) expires_at: Option<Timestamp>,
}

pub(super) static QUEUED: Package =
    package!(name = "realtime-frames", entities = [entity(QueuedFrame)]);

/// The milliseconds after which a record is removed.
pub(super) const RECORD_TTL_MS: i64 = 60_000;

/// Whether code of the app may publish frames that are stored.
pub(super) fn is_needed(declared: &Declared) -> bool {
    let mut variants = declared
        .channels()
        .iter()
        .flat_map(|channel| channel.variants);
    variants.any(|variant| matches!(variant.mark, Mark::Publish { ephemeral: false }))
}

/// Returns the frame of the event of a record; `None` for other events, such as its removal.
pub(super) fn append_of(event: &EntityEvent) -> Result<Option<Append>> {
    if event.route != "create" {
        return Ok(None);
    }
    let missing = || Error::internal("a queued frame has no data");
    let record = event.after.as_ref().ok_or_else(missing)?;
    let text = |name: &str| record[name].as_str().ok_or_else(missing);
    let number = |name: &str| record[name].as_u64().ok_or_else(missing);
    let history = History {
        size: u32::try_from(number("historySize")?).map_err(Error::internal)?,
        ttl: std::time::Duration::from_millis(number("historyTtl")?),
    };
    let id = event.record_id.as_deref().and_then(EventId::new);
    Ok(Some(Append {
        stream: Stream::new(text("stream")?, history),
        event: id.ok_or_else(missing)?,
        frame: text("frame")?.to_owned().into(),
        fence: None,
    }))
}
