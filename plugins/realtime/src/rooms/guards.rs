//! Guards decide whether a caller may see an event of a stream.

use std::collections::HashMap;
use std::sync::Arc;

use linchpin::entity::EntityDesc;
use linchpin::http::{RouteCaller, RouteRequest};
use linchpin::resource::{EventGuard, EventScope, EventTuple};
use linchpin::{Adapters, Code, Error, Result, Timestamp};

use super::carrier::Carrier;
use super::stored::About;
use crate::channel::RoomScope;

/// The guards of the entities whose events a stream carries. The first guard is that of the
/// channel's own entity, or of the first entity of an endpoint.
pub(super) struct Guards {
    carrier: Carrier,
    all: Vec<EntityGuard>,
}

/// The guard of one entity.
struct EntityGuard {
    entity: &'static EntityDesc,
    guard: EventGuard,
    /// The fields of gates that lead to the room's record.
    settled: Vec<&'static str>,
}

/// The values of a caller, one for each guard; `None` if the caller may read no record of the
/// guard's entity.
pub(super) type Tuples = Arc<[Option<EventTuple>]>;

/// The result of the check of an event for a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visibility {
    /// The subscriber gets the frame.
    Shown,
    /// The subscriber gets a notice that it may not see the record any more.
    Hidden,
    /// The subscriber gets nothing.
    Withheld,
}

impl Guards {
    /// Creates the guards of a channel or of an endpoint.
    ///
    /// # Errors
    /// `internal` if an entity is not mounted, or if its conditions cannot be evaluated in memory.
    pub(super) fn new(carrier: Carrier, adapters: &Adapters) -> Result<Self> {
        let mut entities: Vec<(&'static EntityDesc, Vec<&'static str>)> = Vec::new();
        for (entity, by) in carrier.entities() {
            let at = entities
                .iter()
                .position(|(other, _)| other.storage_name == entity.storage_name);
            let at = at.unwrap_or_else(|| {
                entities.push((entity, Vec::new()));
                entities.len() - 1
            });
            // The check of the subscription includes the record that this field leads to.
            if let (Some(by), Some(of)) = (by, carrier.record_of()) {
                let field = entity.fields[by].name;
                let leads = EventGuard::gates(entity)
                    .any(|gate| gate.field == field && gate.target.storage_name == of.storage_name);
                if leads && !entities[at].1.contains(&field) {
                    entities[at].1.push(field);
                }
            }
        }
        let scope = match carrier.scope() {
            RoomScope::Record => EventScope::Record,
            RoomScope::Collection => EventScope::Collection,
        };
        let guards = entities.into_iter().map(|(entity, settled)| {
            let table = adapters.table(entity.storage_name).ok_or_else(|| {
                Error::internal(format!("`{}` is not part of the app", entity.name))
            })?;
            let guard = EventGuard::new(table, scope, &settled)?;
            Ok(EntityGuard {
                entity,
                guard,
                settled,
            })
        });
        Ok(Self {
            carrier,
            all: guards.collect::<Result<_>>()?,
        })
    }

    fn find(&self, storage_name: &str) -> Option<usize> {
        self.all
            .iter()
            .position(|one| one.entity.storage_name == storage_name)
    }

    /// Whether an id has the spelling that names of streams use. A room with another spelling would
    /// never get a frame.
    pub(super) fn is_key(&self, id: &str) -> bool {
        self.all.first().is_some_and(|one| one.guard.is_key(id))
    }

    /// Returns the name of the read route whose policy decides about events.
    pub(super) fn route(&self) -> &'static str {
        match self.carrier.scope() {
            RoomScope::Record => "get",
            RoomScope::Collection => "list",
        }
    }

    /// Returns the values of a caller, and the partition of a collection that the caller sees. `id`
    /// is the id of the room's record. `request` adds the data of the caller's connection.
    ///
    /// # Errors
    /// `unavailable` if the policy cannot be checked now. The error of the policy of the channel's
    /// own entity if it refuses the caller.
    pub(super) async fn tuples(
        &self,
        caller: &RouteCaller,
        id: Option<&str>,
        request: impl Fn(&'static EntityDesc, &'static str) -> RouteRequest,
    ) -> Result<(Tuples, Vec<Option<String>>)> {
        let mut tuples = Vec::with_capacity(self.all.len());
        let mut owners = Vec::new();
        for (at, one) in self.all.iter().enumerate() {
            let (entity, guard) = (one.entity, &one.guard);
            let admitted = caller.admit(request(entity, self.route())).await;
            let tuple = match admitted {
                Ok(cx) => {
                    if at == 0 && self.carrier.scope() == RoomScope::Collection {
                        owners = guard.owners_of_caller(&cx)?;
                    }
                    // A gate may require more than read access to the room's record.
                    let mut passes_gates = true;
                    for field in &one.settled {
                        passes_gates &= guard.settles(&cx, field, id.unwrap_or_default()).await?;
                    }
                    if passes_gates {
                        guard.tuple(&cx)
                    } else {
                        Err(Error::not_found())
                    }
                }
                Err(error) => Err(error),
            };
            tuples.push(match tuple {
                Ok(tuple) => Some(tuple),
                Err(error) if at == 0 || is_temporary(&error) => return Err(error),
                Err(_) => None,
            });
        }
        Ok((tuples.into(), owners))
    }

    /// Prepares the check of an event. Returns `None` if no caller may see its record.
    pub(super) fn subject(&self, about: &About) -> Option<Subject> {
        let at = self.find(&about.entity)?;
        let guard = &self.all[at].guard;
        Some(Subject {
            at,
            left: about.left,
            state: guard.state(&about.state)?,
            before: match &about.before {
                Some(before) => Some(guard.state(before)?),
                None => None,
            },
        })
    }

    /// Checks whether a caller may see an event.
    pub(super) fn visibility_of(
        &self,
        subject: &Subject,
        tuples: &Tuples,
        now: Timestamp,
    ) -> Visibility {
        let Some(Some(tuple)) = tuples.get(subject.at) else {
            return Visibility::Withheld;
        };
        let guard = &self.all[subject.at].guard;
        if !subject.left && guard.admits(tuple, &subject.state, now) {
            return Visibility::Shown;
        }
        match &subject.before {
            Some(before) if guard.admits(tuple, before, now) => Visibility::Hidden,
            _ => Visibility::Withheld,
        }
    }
}

/// The record of an event, ready to be checked.
pub(super) struct Subject {
    /// The index of the guard.
    pub(super) at: usize,
    /// Whether the record belongs to another room now.
    left: bool,
    state: linchpin::resource::EventState,
    before: Option<linchpin::resource::EventState>,
}

/// The results of the checks of one event: one for each distinct tuple.
#[derive(Default)]
pub(super) struct VisibilityCache {
    all: HashMap<EventTuple, Visibility>,
    /// The last result, with all values of its member. Most members share the same values.
    last: Option<(Tuples, Visibility)>,
}

impl VisibilityCache {
    /// Returns the result for a member, from the cache or by a new check.
    pub(super) fn of(
        &mut self,
        guards: &Guards,
        subject: &Subject,
        tuples: &Tuples,
        now: impl FnOnce() -> Timestamp,
    ) -> Visibility {
        if let Some((last, visibility)) = &self.last
            && Arc::ptr_eq(last, tuples)
        {
            return *visibility;
        }
        let Some(Some(tuple)) = tuples.get(subject.at) else {
            return Visibility::Withheld;
        };
        let visibility = match self.all.get(tuple) {
            Some(visibility) => *visibility,
            None => {
                let visibility = guards.visibility_of(subject, tuples, now());
                self.all.insert(tuple.clone(), visibility);
                visibility
            }
        };
        self.last = Some((Arc::clone(tuples), visibility));
        visibility
    }
}

/// Whether a check failed for a reason other than the caller's rights.
fn is_temporary(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::Unavailable | Code::Timeout | Code::Internal | Code::SchemaPending
    )
}
