//! The reach of a call: its records, its actor, and its audit.

use std::sync::Arc;

use super::{Auditing, CallConditions, Cx, Scope};
use crate::entity::EntityDesc;
use crate::{Error, Result};

impl Cx {
    /// The same call, limited to some records of an entity.
    pub(crate) fn limited(self, only: CallConditions) -> Self {
        Self {
            only: Some(Arc::new(only)),
            ..self
        }
    }

    /// The same call without conditions on the records that it may touch.
    pub(crate) fn unlimited(&self) -> Self {
        Self {
            only: None,
            ..self.clone()
        }
    }

    /// The conditions on the records of an entity that the call may touch.
    pub(crate) fn only(&self, entity: &EntityDesc) -> Option<&Arc<CallConditions>> {
        self.only.as_ref().filter(|only| only.is_of(entity))
    }

    /// The same call with deleted records within reach.
    ///
    /// # Errors
    /// 403 on behalf of an actor.
    pub(crate) fn including_deleted(&self) -> Result<Self> {
        match self.scope {
            Scope::System(reason, _) => Ok(Self {
                scope: Scope::System(reason, true),
                ..self.clone()
            }),
            Scope::Actor(_) => Err(Error::forbidden()),
        }
    }

    /// The call for the effects of its changes: they reach the records of every tenant and scope.
    pub(crate) fn for_effects(&self) -> Self {
        Self {
            is_effect: true,
            operation: None,
            only: None,
            audit: None,
            ..self.clone()
        }
    }

    /// The same call, with the note that the transaction already holds the locks on the records
    /// whose counters the next statement changes. `ends_transaction` says that the transaction ends
    /// with that statement: if the statement fails, the transaction is rolled back.
    pub(crate) fn with_locks_held(&self, ends_transaction: bool) -> Self {
        Self {
            locks_held: Some(ends_transaction),
            ..self.clone()
        }
    }

    /// `Some` after [`Self::with_locks_held`], with its `ends_transaction`.
    pub(crate) fn locks_held(&self) -> Option<bool> {
        self.locks_held
    }

    /// The same call, marked as the head of a queue for a record: calls made with it wait in no
    /// other queue.
    pub(crate) fn at_queue_head(&self) -> Self {
        Self {
            at_queue_head: true,
            ..self.clone()
        }
    }

    /// Whether the call is at the head of a queue.
    pub(crate) fn is_at_queue_head(&self) -> bool {
        self.at_queue_head
    }

    /// The same call with an audit of its changes.
    pub(crate) fn audited(self, auditing: &Arc<Auditing>) -> Self {
        Self {
            audit: Some(Arc::clone(auditing)),
            ..self
        }
    }

    /// The same call without audit, and the audit that it had.
    pub(crate) fn without_audit(&self) -> Option<(Self, Arc<Auditing>)> {
        let auditing = self.audit.clone()?;
        Some((
            Self {
                audit: None,
                ..self.clone()
            },
            auditing,
        ))
    }

    /// The same call in the name of the application itself.
    pub(crate) fn into_system(self, reason: &'static str) -> Self {
        Self {
            scope: Scope::System(reason, false),
            ..self
        }
    }

    /// Whether the call is an effect of a change.
    pub(crate) fn is_effect(&self) -> bool {
        self.is_effect
    }

    /// Whether records of every tenant and scope are within reach.
    pub(crate) fn reaches_all(&self) -> bool {
        self.is_effect || self.system_reason().is_some()
    }

    /// Whether deleted records are within reach.
    pub(crate) fn reaches_deleted(&self) -> bool {
        matches!(self.scope, Scope::System(_, true))
    }

    /// The same call on behalf of an operation: its changes through other routes become events of
    /// that operation.
    pub(crate) fn for_operation(&self, name: &'static str) -> Self {
        Self {
            operation: Some(name),
            ..self.clone()
        }
    }

    /// The operation that makes this call, if the call runs statements of other routes.
    pub(crate) fn operation(&self) -> Option<&'static str> {
        self.operation
    }
}
