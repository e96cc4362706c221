//! Rooms as the app's code uses them, and the interface that publishes their frames.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use linchpin::entity::{Entity, FieldType};
use linchpin::{BoxFuture, Cx, Error, Result, Value};

use super::{
    Channel, ChannelDesc, CollectionChannel, IntoId, InvalidRoom, Mark, RecordChannel, RoomName,
    VariantDesc,
};

/// Sends the frames that code publishes. The plugin implements it.
pub trait Publisher: Send + Sync + 'static {
    /// Publishes one frame. In a transaction, the frame is written to the outbox and sent after the
    /// commit.
    ///
    /// # Errors
    /// `unavailable` if the frame is published outside of a transaction and the engine cannot be
    /// reached.
    fn publish<'a>(&'a self, cx: &'a Cx, frame: Publication) -> BoxFuture<'a, Result<()>>;
}

/// A frame that code publishes.
#[derive(Debug)]
pub struct Publication {
    /// The channel.
    pub channel: &'static ChannelDesc,
    /// The variant, with its names on the wire.
    pub variant: &'static VariantDesc,
    /// The room. For a collection, the publisher takes the partition from the caller.
    pub room: RoomKey,
    /// Whether the frame is never stored.
    pub ephemeral: bool,
    /// The payload.
    pub payload: serde_json::Value,
}

/// One room of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RoomKey {
    /// The room of the record with this id.
    Record(String),
    /// The room of the collection.
    Collection,
}

impl RoomKey {
    /// Returns the name of the room.
    ///
    /// # Errors
    /// If the name is too long, or the id is empty.
    pub fn name(&self, channel: &ChannelDesc) -> Result<String, InvalidRoom> {
        RoomName {
            entity: channel.of.storage_name,
            id: match self {
                Self::Record(id) => Some(Cow::Borrowed(id)),
                Self::Collection => None,
            },
            channel: channel.name,
        }
        .text()
    }
}

/// Access to the rooms of an app.
#[derive(Clone)]
pub struct Rooms(Arc<dyn Publisher>);

impl std::fmt::Debug for Rooms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rooms")
    }
}

impl Rooms {
    /// Creates the access to rooms, which publish through `publisher`.
    pub fn new(publisher: Arc<dyn Publisher>) -> Self {
        Self(publisher)
    }

    /// Returns the room of a record.
    pub fn room<C: RecordChannel>(&self, id: impl IntoId<<C::Of as Entity>::Id>) -> Room<C> {
        Room::of(self.clone(), RoomKey::Record(text_of(id.into_id())))
    }

    /// Returns the room of a collection. Frames go to the partition of the caller.
    pub fn collection<C: CollectionChannel>(&self) -> Room<C> {
        Room::of(self.clone(), RoomKey::Collection)
    }
}

/// Returns the name of the room of a record.
///
/// # Errors
/// If the name would be longer than 512 bytes, or if the id is empty.
pub fn room_name<C: RecordChannel>(
    id: impl IntoId<<C::Of as Entity>::Id>,
) -> Result<String, InvalidRoom> {
    RoomKey::Record(text_of(id.into_id())).name(C::DESC)
}

/// Returns an id as text.
fn text_of(id: impl FieldType) -> String {
    match id.into_value() {
        Value::Text(text) => text,
        Value::Int(number) => number.to_string(),
        // A primary key is a text or an integer.
        other => format!("{other:?}"),
    }
}

/// A room of channel `C`. Only values of `C` can be published to it.
pub struct Room<C> {
    rooms: Rooms,
    key: RoomKey,
    channel: PhantomData<fn() -> C>,
}

impl<C> Clone for Room<C> {
    fn clone(&self) -> Self {
        Self {
            rooms: self.rooms.clone(),
            key: self.key.clone(),
            channel: PhantomData,
        }
    }
}

impl<C> std::fmt::Debug for Room<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Room").field(&self.key).finish()
    }
}

impl<C: Channel> Room<C> {
    /// Creates the room with this key.
    #[doc(hidden)]
    pub fn of(rooms: Rooms, key: RoomKey) -> Self {
        Self {
            rooms,
            key,
            channel: PhantomData,
        }
    }

    /// Returns the key of the room.
    pub fn key(&self) -> &RoomKey {
        &self.key
    }

    /// Returns the name of the room.
    ///
    /// # Errors
    /// If the name would be longer than 512 bytes, or if the id is empty.
    pub fn name(&self) -> Result<String, InvalidRoom> {
        self.key.name(C::DESC)
    }

    /// Publishes an event to all members of the room. Its variant must have the mark `#[publish]`.
    ///
    /// In a transaction the event is sent after the commit, and not at all after a rollback.
    ///
    /// # Errors
    /// `unavailable` if the event is published outside of a transaction and the engine cannot be
    /// reached; `internal` for a variant without the mark, or a payload without a JSON form.
    pub async fn publish(&self, cx: &Cx, event: C) -> Result<()> {
        let encoded = event.encode()?;
        let variant = &C::DESC.variants[encoded.variant];
        let Mark::Publish { ephemeral } = variant.mark else {
            return Err(Error::internal(format!(
                "code cannot publish `{}::{}`: its variant is not marked `#[publish]`",
                C::DESC.ident,
                variant.ident
            )));
        };
        let frame = Publication {
            channel: C::DESC,
            variant,
            room: self.key.clone(),
            ephemeral,
            payload: encoded.payload,
        };
        self.rooms.0.publish(cx, frame).await
    }
}
