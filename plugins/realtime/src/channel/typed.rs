//! Traits that `#[channel]` implements.

use linchpin::Result;
use linchpin::entity::Entity;

use super::ChannelDesc;

/// A channel: an enum of the events that one kind of room can carry. `#[channel]` implements this
/// trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a channel",
    label = "not a channel",
    note = "put #[channel(of = .., name = \"..\")] on the enum"
)]
pub trait Channel: Sized + Send + Sync + 'static {
    /// The entity that the rooms belong to.
    type Of: Entity;
    /// The declaration.
    const DESC: &'static ChannelDesc;

    /// Returns the position of the variant and its payload.
    ///
    /// # Errors
    /// `internal` if the payload has no JSON form, or if no code publishes the variant.
    #[doc(hidden)]
    fn encode(&self) -> Result<Encoded>;
}

/// An encoded variant, ready to be published.
#[doc(hidden)]
#[derive(Debug)]
pub struct Encoded {
    /// The position in [`ChannelDesc::variants`].
    pub variant: usize,
    /// The payload.
    pub payload: serde_json::Value,
}

/// A channel with one room per record.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has one room for the collection, not one per record",
    label = "has one room for all records",
    note = "`rooms.collection::<{Self}>()`"
)]
pub trait RecordChannel: Channel {}

/// A channel with one room for all records of the entity.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has one room per record, not one for the collection",
    label = "has a room per record",
    note = "`rooms.room::<{Self}>(&id)`"
)]
pub trait CollectionChannel: Channel {}

/// The id of a record, or a reference to it.
pub trait IntoId<I> {
    /// Returns the id.
    fn into_id(self) -> I;
}

impl<I> IntoId<I> for I {
    fn into_id(self) -> I {
        self
    }
}

impl<I: Clone> IntoId<I> for &I {
    fn into_id(self) -> I {
        self.clone()
    }
}

impl IntoId<String> for &str {
    fn into_id(self) -> String {
        self.to_owned()
    }
}
