//! Records the events of statements, and passes them to the consumers of this process after the
//! commit.
//!
//! A statement that changes records has a `Recording`, which the store fills from the changed rows.
//! In the same transaction, the store writes the events of the commit as one row of its outbox.
//! After the commit, it hands the events over (`handover.rs`). An entity without consumers records
//! no events.

mod bus;
mod handover;
pub(crate) mod plan;

use std::sync::Arc;

use linchpin_core::event::{ActorRef, OutboxRow};
use linchpin_core::store::{Audience, Recording};
use parking_lot::RwLock;

pub use self::bus::{AppEvent, EventBus, Lagged, Subscription};
pub(crate) use self::handover::{Handover, LiveQueue};
pub(crate) use self::plan::EXPIRED;
use self::plan::Routes;
use crate::Cx;
use crate::entity::FieldSet;
use crate::store::{Assign, Committed, Plan, Rows};

/// Makes the statements of one entity record events.
pub(crate) struct Emitter {
    planned: RwLock<Planned>,
    handover: Arc<Handover>,
}

/// The events of an entity, for its present consumers.
struct Planned {
    routes: Routes,
    audience: Audience,
    /// The fields that conditions of consumers read.
    reads: FieldSet,
}

impl Emitter {
    /// An emitter that passes its events to `handover`. `reads` are the fields that conditions of
    /// consumers read.
    pub(crate) fn new(
        routes: Routes,
        audience: Audience,
        reads: FieldSet,
        handover: &Arc<Handover>,
    ) -> Arc<Self> {
        let planned = Planned {
            routes,
            audience,
            reads,
        };
        Arc::new(Self {
            planned: RwLock::new(planned),
            handover: Arc::clone(handover),
        })
    }

    /// Takes over the plan of a later emitter of the same entity.
    pub(crate) fn replace(&self, later: &Self) {
        std::mem::swap(&mut *self.planned.write(), &mut *later.planned.write());
    }

    /// The recording for a statement of a route.
    pub(crate) fn recording(&self, cx: &Cx, route: &str) -> Option<Box<Recording>> {
        let planned = self.planned.read();
        let known = |name: &&str| planned.routes.contains_key(name);
        let route = cx.operation().filter(known).or(Some(route).filter(known));
        planned.record(cx, route.unwrap_or(plan::ELSEWHERE))
    }

    /// The recording for the removal of expired records; `None` unless a consumer needs the key of
    /// every record.
    pub(crate) fn expiry(&self, cx: &Cx) -> Option<Box<Recording>> {
        self.planned.read().record(cx, plan::EXPIRED)
    }

    /// Whether the statement writes a field that a condition of a consumer reads. If so, the events
    /// of the statement need the records before the change.
    pub(crate) fn compares(&self, plan: &Plan) -> bool {
        let set: &[Assign] = match plan {
            Plan::Update { set, .. } | Plan::Upsert { set, .. } => set,
            _ => return false,
        };
        let reads = self.planned.read().reads;
        set.iter().any(|assign| reads.has(assign.field))
    }

    /// Returns a function that hands over the events of a statement on a store without an outbox;
    /// it is called after the commit. `None` if there are no events.
    pub(crate) fn unstored(&self, rows: &mut Rows) -> Option<Box<dyn FnOnce() + Send>> {
        let events = rows.entries();
        let handover = Arc::clone(&self.handover);
        if events.is_empty() {
            return None;
        }
        Some(Box::new(move || {
            handover.committed(vec![Arc::new(OutboxRow::new(0, events))]);
        }))
    }
}

impl Planned {
    fn record(&self, cx: &Cx, route: &str) -> Option<Box<Recording>> {
        let event = self.routes.get(route)?;
        if event.internal && !self.audience.listed {
            return None;
        }
        let by = match cx.get_actor() {
            Some(actor) => (
                ActorRef {
                    kind: actor.kind.as_str().to_owned(),
                    id: actor.id.clone(),
                },
                actor.tenant_id.clone(),
            ),
            None => (
                ActorRef {
                    kind: "system".to_owned(),
                    id: None,
                },
                None,
            ),
        };
        let (event, request) = (Arc::clone(event), cx.request_id());
        // Internal events contain the keys of records, but not their states.
        let audience = Audience {
            states: self.audience.states && !event.internal,
            ..self.audience
        };
        let recording = Recording::new(event, by, request, cx.now(), audience);
        Some(Box::new(recording))
    }
}
