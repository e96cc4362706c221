//! Extra routes: functions of the user below an entity, as data.

use crate::Attachment;
use crate::entity::SourceLine;
use crate::policy::PolicyDesc;

use super::RouteSpec;

/// An extra route as declared with `#[route]`.
#[derive(Debug, Clone, Copy)]
pub struct ExtraRouteSpec {
    /// The function's name.
    pub name: &'static str,
    /// Method and path below the entity.
    pub route: RouteSpec,
    /// Its part of the policy, merged over `routes.defaults`.
    pub policy: PolicyDesc,
    /// The function, as the server calls it.
    pub handler: Attachment,
    /// What it takes and returns, as far as its types tell: a function of the server's.
    pub contents: Attachment,
    /// The doc comment.
    pub doc: &'static str,
    /// Where it is declared.
    pub at: SourceLine,
}
