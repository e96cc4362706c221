//! Plugin routes. They are described as data, so that they share the policy, the validation of
//! input and the API document with the routes of entities.

mod call;
mod desc;
mod input;
mod plan;
mod raw;
mod upgrade;

pub(crate) use call::UnreadLimit;
pub use call::{PluginCall, Reply};
pub(crate) use desc::PluginHandler;
pub use desc::{AnswerDesc, PluginRoute, Route, RouteDesc, Transport};
pub use input::{Nothing, Partial, RouteBody, RouteInput};
pub(super) use plan::PluginRoutePlan;
pub use raw::RawBody;
pub use upgrade::{Socket, Upgrade};
pub(crate) use upgrade::{SocketSlot, SocketTask, UPGRADE_REQUIRED};
