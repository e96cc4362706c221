//! The decisions of the permission evaluator, and the limits that follow from them.

use super::Permit;
use crate::cx::CallConditions;
use crate::filter::CtxPath;
use crate::operation::Subject;
use crate::permission::{AccessRequest, Decision, RankRequest};
use crate::{Cx, Error, Result, Value};

impl Permit {
    /// The call, limited to the permitted records of a resource, and of the user that they are
    /// about. With `pinned`, the resource itself becomes a condition too.
    pub(super) async fn limit(
        &self,
        cx: Cx,
        resource: Option<Value>,
        target: Option<Value>,
        pinned: bool,
    ) -> Result<Cx> {
        let granted = self.ask(&cx, resource.as_ref()).await?;
        let owned = match (granted, self.owner) {
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
        let of = self.resource().zip(resource).filter(|_| pinned);
        // The rank does not matter for the caller's own records.
        let about = self
            .rank
            .zip(target)
            .filter(|_| pinned && granted.is_some());
        if owned.is_none() && of.is_none() && about.is_none() {
            return Ok(cx);
        }
        Ok(cx.limited(CallConditions::new(
            self.entity,
            owned.into_iter().chain(of).chain(about),
            self.declared.hide,
        )))
    }

    /// Confirms a grant, unless the caller does not rank above the user that the record is about. A
    /// record may be about no user.
    async fn compare(
        &self,
        cx: &Cx,
        action: &str,
        resource: Option<&Value>,
        target: Option<&Value>,
    ) -> Result<()> {
        let (Some(actor), Some(Value::Text(target))) =
            (cx.get_actor(), target.filter(|_| self.rank.is_some()))
        else {
            return Ok(());
        };
        // Outside of the transaction, as in `ask`.
        let beside = cx.beside_transaction();
        let access = AccessRequest {
            cx: &beside,
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

    /// Whether a decision grants; an error if it refuses.
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
    async fn ask(&self, cx: &Cx, resource: Option<&Value>) -> Result<Option<&'static str>> {
        let Some(actor) = cx.get_actor() else {
            return Ok(Some(self.declared.requires));
        };
        let (entity, route) = (self.entity.name, self.route);
        // An evaluator may call with a context of its own, which would wait for the end of a
        // transaction that has begun. This is safe: the granted limits become conditions of the
        // statement.
        let cx = &cx.beside_transaction();
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

    /// Whether a grant covers the resource and the user that a call writes into a record: a caller
    /// who may change records there, about that user, may move a record there. Being the owner does
    /// not count, because the record is not there yet.
    pub(super) async fn may_move(
        &self,
        cx: &Cx,
        resource: Option<&Value>,
        target: Option<&Value>,
    ) -> Result<()> {
        let action = self
            .ask(cx, resource)
            .await?
            .ok_or_else(|| self.refused())?;
        self.compare(cx, action, resource, target).await
    }
}
