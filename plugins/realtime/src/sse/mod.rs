//! Server-sent events: framing, positions, negotiation, and the stream of one response.

mod accept;
mod block;
mod request;
mod stream;

pub use accept::admits_event_stream;
pub use block::{RETRY_MS, UnplacedBlocks, close, draining, heartbeat, hidden, opening, reset};
pub use request::{MEDIA_TYPE, Opened, Resume, SseRequest, check, response_headers};
pub use stream::{EventStream, StreamSettings};
