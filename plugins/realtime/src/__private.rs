//! Items that macro expansions refer to. They are not part of the public API: anything here may
//! change in a patch release.

pub use linchpin;
pub use linchpin::__private::*;
pub use linchpin_core::operation::{OpSpec, Operation};

pub use crate::channel::asserts::{assert_gates, assert_name, assert_parameter, assert_runs};
pub use crate::channel::macro_support::{
    Body, answer, body, encode_members, encode_value, items, member, not_published, payload,
    projection_payload,
};
pub use crate::channel::{
    Change, Channel, ChannelDesc, CollectionChannel, Encoded, Incoming, Mark, On, Payload,
    RecordChannel, Room, RoomKey, Rooms, Sse, SseDesc, SseEvent, SseSource, VariantDesc,
};
