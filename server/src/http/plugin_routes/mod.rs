//! Routes of plugins: described as data, so that they share the policy, the reading of input and
//! the document with the routes of entities.

mod call;
mod desc;
mod plan;

pub use call::{PluginCall, Reply};
pub(crate) use desc::PluginHandler;
pub use desc::{AnswerDesc, Nothing, Partial, PluginRoute, Route, RouteDesc, RouteInput};
pub(super) use plan::PluginRoutePlan;
