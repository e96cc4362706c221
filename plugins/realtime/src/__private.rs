//! What expansions name. No promise to users: anything here may change in a patch release.

pub use linchpin;
pub use linchpin::__private::*;
pub use linchpin_core::operation::{OpSpec, Operation};

pub use crate::channel::asserts::{assert_gates, assert_name, assert_parameter, assert_runs};
pub use crate::channel::glue::{
    Body, answer, body, carried, encoded, items, member, members, not_published, payload,
};
pub use crate::channel::{
    Change, Channel, ChannelDesc, CollectionChannel, Encoded, Incoming, Mark, On, Payload,
    RecordChannel, Room, RoomKey, Rooms, Sse, SseDesc, SseEvent, SseSource, VariantDesc,
};
