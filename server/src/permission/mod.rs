//! Permissions: who may do what with which record.
//!
//! A policy names actions; an [`Evaluator`] says of an actor whether it may. What it leaves open,
//! the owner of a record may do all the same. The conditions that follow from this become part of
//! the statements of the call ([`Only`](crate::cx::Only)), so that what was allowed and what is done cannot come
//! apart.

mod judge;

use std::fmt;

pub(crate) use judge::{Moved, Permit, may_list};

use crate::resource::BoxFuture;
use crate::{Actor, Cx, Error, Result, Value};

/// What an evaluator is asked: may this actor do this, with records of this resource?
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    /// The call: its instant, its request.
    pub cx: &'a Cx,
    /// Who calls; anonymous where the route lets anybody in.
    pub actor: &'a Actor,
    /// The action that the policy names: `write`.
    pub action: &'a str,
    /// The entity whose route is called.
    pub entity: &'static str,
    /// `create`, `list`, `get`, `update`, `delete`, or the name of the operation or extra route.
    pub route: &'a str,
    /// The value of the field that the policy names as `resource`. `None` means every record of the
    /// entity: the policy names no resource, or the route works on many records and does not say of
    /// which resource.
    pub resource: Option<&'a Value>,
}

/// What the rank hook is asked: does this actor stand above that user, where the record is?
#[derive(Clone, Copy, Debug)]
pub struct RankRequest<'a> {
    /// What the actor has been granted.
    pub access: AccessRequest<'a>,
    /// The id of the user whom the record is about: the value of the field that the policy names as
    /// `rank`.
    pub target: &'a str,
}

/// The answer of an evaluator.
#[derive(Debug)]
pub enum Decision {
    /// It may.
    Allow,
    /// It may not, not even with what is its own.
    Deny,
    /// It may not, not even with what is its own, and this 403 says why.
    DenyWith(Error),
    /// Nothing speaks for it or against it: with what is its own it may.
    Abstain,
}

/// Judges permissions. A plugin installs one with
/// [`Registrar::set_evaluator`](crate::Registrar::set_evaluator); for a plain yes or no there is
/// [`Registrar::set_permissions`](crate::Registrar::set_permissions).
///
/// When a policy names several actions, all of them are asked: one `Deny` refuses, one `Allow`
/// suffices, and when it abstains from all, the owner of the record is let in where the policy
/// names an `owner_field`. An error is answered 503.
pub trait Evaluator: Send + Sync + 'static {
    /// Whether the actor may.
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>>;

    /// Compares the actor with the user whom a record is about, where the policy names a `rank`. It
    /// is asked once an action has been granted, and not for what the owner of a record may do;
    /// `Deny` and `DenyWith` refuse, anything else lets the grant stand. The request names the
    /// first action that was granted. An error is answered 503.
    ///
    /// The default is an error: a comparison that nobody makes is no permission.
    fn rank<'a>(&'a self, request: RankRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        let action = request.access.action.to_owned();
        Box::pin(async move {
            Err(Error::internal(format!(
                "the permission evaluator compares nobody, asked about `{action}`"
            )))
        })
    }

    /// Whether it compares users. When it does not, a policy that names a `rank` stops start-up.
    fn ranks(&self) -> bool {
        false
    }

    /// Whether it knows an action at all. One that a policy names and the evaluator does not know
    /// stops start-up.
    fn knows(&self, action: &str) -> bool {
        let _ = action;
        true
    }
}

/// An evaluator that says yes or no by actor and action: no leaves the owner in.
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
