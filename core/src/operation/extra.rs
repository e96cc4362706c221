//! Extra routes: functions of the app below the path of an entity, as data.

use crate::Attachment;
use crate::entity::SourceLine;
use crate::policy::PolicyDesc;

use super::RouteSpec;

/// An extra route that `#[route]` declares.
#[derive(Debug, Clone, Copy)]
pub struct ExtraRouteSpec {
    /// The name of the function.
    pub name: &'static str,
    /// The method and the path below the entity.
    pub route: RouteSpec,
    /// Its part of the policy, which is merged over `routes.defaults`.
    pub policy: PolicyDesc,
    /// The function, in the form that the server calls.
    pub handler: Attachment,
    /// A function of the server that describes the input and the output. It reads them from the
    /// types of the function, so the description may be incomplete.
    pub contents: Attachment,
    /// The doc comment.
    pub doc: &'static str,
    /// The source location of the declaration.
    pub at: SourceLine,
}
