//! The body of a plugin route that reads it itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use parking_lot::Mutex;

use super::{RouteBody, RouteInput};
use crate::entity::EntityDesc;
use crate::http::body::{self, BodyMemory};
use crate::{Error, Result};

/// A body of any media type. The function of the route reads it itself, byte for byte as the client
/// sent it. Checks that need no body run before the function does. Use it for signatures over the
/// raw bytes.
///
/// If the function does not read the body, the server discards it.
///
/// ```
/// use linchpin::http::{AnswerDesc, PluginCall, RawBody, Reply, Route};
/// use linchpin::Result;
///
/// static COUNT: Route<RawBody> = Route::post("count_bytes", "count")
///     .of("counter")
///     .doc("Counts the bytes of a file.")
///     .public()
///     .max_body(10 << 20)
///     .answers(&[AnswerDesc::of::<i64>(200, "The number of bytes.")]);
///
/// async fn count(_: PluginCall, body: RawBody) -> Result<Reply> {
///     Reply::json(200, &body.read().await?.len())
/// }
/// let route = COUNT.bind("/counter", count);
/// ```
pub struct RawBody {
    /// Shared with the server, which discards a body that was not read.
    pub(in crate::http) body: Arc<Mutex<Body>>,
    /// The maximum length, in bytes.
    pub(in crate::http) max: u64,
    /// The time limit for receiving the whole body.
    pub(in crate::http) limit: Duration,
    pub(in crate::http) body_memory: BodyMemory,
}

impl fmt::Debug for RawBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawBody")
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

impl RawBody {
    /// Reads the whole body, within the limits of the route's policy.
    ///
    /// # Errors
    /// `body_too_large`; `malformed_json` if the client stopped sending; `timeout` if it sends too
    /// slowly; `unavailable` if the bodies of other requests leave no memory for it.
    pub async fn read(self) -> Result<Bytes> {
        let body = std::mem::take(&mut *self.body.lock());
        body::read(body, self.max, self.limit, &self.body_memory).await
    }
}

impl RouteInput for RawBody {
    const BODY: Option<&'static EntityDesc> = None;
    const RAW: bool = true;

    fn read(body: RouteBody) -> Result<Self> {
        match body {
            RouteBody::Raw(raw) => Ok(raw),
            RouteBody::None | RouteBody::Json(_) => {
                Err(Error::internal("the route got no unread body"))
            }
        }
    }
}
