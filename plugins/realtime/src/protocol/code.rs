//! Error codes that only frames have.
//!
//! A frame fails with the same [`Error`](linchpin::Error) as a request. `malformed_json`,
//! `rate_limited`, `timeout`, `internal`, `unavailable`, `unauthorized`, `forbidden`, `not_found`
//! and the codes of operations are those of HTTP. The HTTP statuses of the codes below are never
//! sent.

use linchpin::Code;

/// The frame is JSON but not a frame of the protocol; the details list the paths.
pub const INVALID_FRAME: Code = Code::Other(400, "invalid_frame");
/// `action` or `type` has a name that the protocol does not know.
pub const UNKNOWN_ACTION: Code = Code::Other(400, "unknown_action");
/// No channel of the room accepts this event from clients.
pub const UNKNOWN_EVENT: Code = Code::Other(404, "unknown_event");
/// The text is not a valid room name.
pub const INVALID_ROOM: Code = Code::Other(400, "invalid_room");
/// The event requires that the client has joined its room.
pub const NOT_SUBSCRIBED: Code = Code::Other(409, "not_subscribed");
/// The connection has reached its limit of rooms.
pub const TOO_MANY_ROOMS: Code = Code::Other(409, "too_many_rooms");
