//! The decisions of the permission evaluator, and the limits that follow from them.

use super::Permit;
use crate::cx::CallConditions;
use crate::filter::CtxPath;
use crate::operation::Subject;
use crate::permission::{AccessRequest, Decision, RankRequest};
use crate::{Cx, Error, Result, Value};

/// The values of the record that become conditions of a call, in addition to the owner.
pub(super) enum RecordConditions {
    /// No value: the call is not about one record whose values are known.
    None,
    /// The resource, and the user whom the record describes, if it describes one.
    ResourceAndTarget(Option<Value>),
}

impl Permit {
    /// Evaluates the permission for a resource, and returns the call with conditions for its
    /// records. A record must belong to the caller if only ownership permits the call. It must also
    /// have the values of `conditions`.
    pub(super) async fn limit(
        &self,
        cx: Cx,
        resource: Option<Value>,
        conditions: RecordConditions,
    ) -> Result<Cx> {
        let (target, limits_values) = match conditions {
            RecordConditions::None => (None, false),
            RecordConditions::ResourceAndTarget(target) => (target, true),
        };
        let granted = self.decide(&cx, resource.as_ref()).await?;
        let owner_condition = match (granted, self.owner) {
            (Some(action), _) => {
                self.compare(&cx, action, resource.as_ref(), target.as_ref())
                    .await?;
                None
            }
            (None, Some(owner)) if self.subject != Subject::Foreign => {
                match cx.value(CtxPath::ActorId) {
                    Value::Null => return Err(self.refused()),
                    id => Some((owner, id)),
                }
            }
            (None, _) => return Err(self.refused()),
        };
        // A resource in the path already limits the records.
        let resource_condition = self.resource().zip(resource).filter(|_| limits_values);
        // The rank does not matter for the caller's own records.
        let rank_condition = self
            .target
            .zip(target)
            .filter(|_| limits_values && granted.is_some());
        if owner_condition.is_none() && resource_condition.is_none() && rank_condition.is_none() {
            return Ok(cx);
        }
        Ok(cx.limited(CallConditions::new(
            self.entity,
            owner_condition
                .into_iter()
                .chain(resource_condition)
                .chain(rank_condition),
            self.declared.hide,
        )))
    }

    /// Compares ranks: confirms a grant if the caller ranks above the user that the record is
    /// about, or if the record is about no user.
    async fn compare(
        &self,
        cx: &Cx,
        action: &str,
        resource: Option<&Value>,
        target: Option<&Value>,
    ) -> Result<()> {
        let (Some(actor), Some(Value::Text(target))) =
            (cx.get_actor(), target.filter(|_| self.target.is_some()))
        else {
            return Ok(());
        };
        // The evaluator runs outside of the transaction, as in `decide`.
        let outside = cx.outside_transaction();
        let access = AccessRequest {
            cx: &outside,
            actor,
            action,
            entity: self.entity.name,
            route: self.route,
            resource,
        };
        let decision = self.evaluator.rank(RankRequest { access, target }).await;
        self.granted(decision.map_err(Error::unavailable)?)
            .map(drop)
    }

    /// Whether a decision grants the permission; an error if it refuses the call.
    fn granted(&self, decision: Decision) -> Result<bool> {
        match decision {
            Decision::Allow => Ok(true),
            Decision::Abstain => Ok(false),
            Decision::DenyWith(reason) if !self.declared.hide && reason.code().status() == 403 => {
                Err(reason)
            }
            Decision::Deny | Decision::DenyWith(_) => Err(self.refused()),
        }
    }

    /// The first action that the evaluator allows; `None` if it abstains from all.
    async fn decide(&self, cx: &Cx, resource: Option<&Value>) -> Result<Option<&'static str>> {
        let Some(actor) = cx.get_actor() else {
            return Ok(Some(self.declared.requires));
        };
        let (entity, route) = (self.entity.name, self.route);
        // An evaluator may make calls with a separate context, which would wait for the end of a
        // transaction that has begun. So it runs outside of the transaction. This is safe: the
        // granted limits become conditions of the statement.
        let cx = &cx.outside_transaction();
        let mut allowed = None;
        for action in std::iter::once(&self.declared.requires).chain(self.declared.or) {
            let decision = self
                .evaluator
                .decide(AccessRequest {
                    cx,
                    actor,
                    action,
                    entity,
                    route,
                    resource,
                })
                .await;
            if self.granted(decision.map_err(Error::unavailable)?)? {
                allowed = allowed.or(Some(*action));
            }
        }
        Ok(allowed)
    }

    /// Checks that a grant covers the resource and the user that a call writes into a record: the
    /// caller must be allowed to change records of that resource and about that user. Ownership
    /// does not count, because the record does not belong to that resource yet.
    pub(super) async fn may_move(
        &self,
        cx: &Cx,
        resource: Option<&Value>,
        target: Option<&Value>,
    ) -> Result<()> {
        let action = self
            .decide(cx, resource)
            .await?
            .ok_or_else(|| self.refused())?;
        self.compare(cx, action, resource, target).await
    }
}
