//! Permissions: the decision whether an actor may perform an action on a record.
//!
//! A policy contains actions; an [`Evaluator`] decides whether an actor may perform them. If it
//! abstains, the owner of a record still has access. The resulting conditions become part of the
//! statements of the call (`cx::CallConditions`), so that the decision and the change cannot
//! diverge.

use std::fmt;

use crate::{Actor, BoxFuture, Cx, Error, Result, Value};

/// The input of an evaluator, which decides whether this actor may perform this action on records
/// of this resource.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    /// The call, with its instant and its request id.
    pub cx: &'a Cx,
    /// The caller; anonymous if the route allows anonymous calls.
    pub actor: &'a Actor,
    /// The action that the policy names, for example `write`.
    pub action: &'a str,
    /// The entity whose route is called.
    pub entity: &'static str,
    /// `create`, `list`, `get`, `update`, `delete`, or the name of the operation or extra route.
    pub route: &'a str,
    /// The value of the field that the policy names as `resource`. `None` means every record of the
    /// entity: the policy has no `resource`, or the route works on many records and does not limit
    /// them to one resource.
    pub resource: Option<&'a Value>,
}

/// The input of [`Evaluator::rank`], which decides whether this actor ranks above the user that a
/// record is about.
#[derive(Clone, Copy, Debug)]
pub struct RankRequest<'a> {
    /// The permission that was granted to the actor.
    pub access: AccessRequest<'a>,
    /// The id of the user that the record is about: the value of the field that the policy names as
    /// `rank`.
    pub target: &'a str,
}

/// The decision of an evaluator.
#[derive(Debug)]
pub enum Decision {
    /// Allowed.
    Allow,
    /// Denied, even for the actor's own records.
    Deny,
    /// Denied, even for the actor's own records, with this error as the 403 response.
    DenyWith(Error),
    /// No decision: allowed only for the actor's own records.
    Abstain,
}

/// Decides permissions. A plugin installs an evaluator with
/// [`Registrar::set_evaluator`](crate::Registrar::set_evaluator); for a simple true or false use
/// [`Registrar::set_permissions`](crate::Registrar::set_permissions).
///
/// If a policy names several actions, all of them are evaluated: one `Deny` refuses, and one
/// `Allow` is enough. If all abstain, the owner of the record has access if the policy names an
/// `owner_field`. An error becomes a 503 response.
pub trait Evaluator: Send + Sync + 'static {
    /// Decides whether the actor may perform the action.
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>>;

    /// Compares the rank of the actor with the user that a record is about, if the policy names a
    /// `rank`. Called after an action was granted, but not for the owner of a record. `Deny` and
    /// `DenyWith` refuse; any other decision keeps the grant. The request names the first action
    /// that was granted. An error becomes a 503 response.
    ///
    /// The default is an error, so a missing implementation grants nothing.
    fn rank<'a>(&'a self, request: RankRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        let action = request.access.action.to_owned();
        Box::pin(async move {
            Err(Error::internal(format!(
                "the permission evaluator does not implement `rank`, which `{action}` needs"
            )))
        })
    }

    /// Whether the evaluator compares ranks. If not, a policy that names a `rank` is a start-up
    /// error.
    fn ranks(&self) -> bool {
        false
    }

    /// Whether the evaluator knows an action. A policy with an unknown action is a start-up error.
    fn knows(&self, action: &str) -> bool {
        let _ = action;
        true
    }
}

/// An evaluator with a function that returns true or false for an actor and an action. If the
/// function returns false, the owner of the record still has access.
pub(crate) struct YesNo<F>(pub(crate) F);

impl<F: Fn(&Actor, &str) -> bool + Send + Sync + 'static> Evaluator for YesNo<F> {
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        let decision = if (self.0)(request.actor, request.action) {
            Decision::Allow
        } else {
            Decision::Abstain
        };
        Box::pin(std::future::ready(Ok(decision)))
    }
}

impl fmt::Debug for dyn Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluator").finish_non_exhaustive()
    }
}
