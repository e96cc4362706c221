//! The events that endpoints can subscribe to.

use std::collections::{BTreeSet, HashMap, HashSet};

use linchpin::Entity;
use linchpin::Operation;
use linchpin::entity::{EntityDesc, FieldSet};
use linchpin::event::{Change, ChangeEvent, EntityEvent};
use linchpin::filter::{Filter, FilterSpec};
use linchpin::resource::EventState;

use crate::__private::is_untyped;

use crate::event_types::EventType;

/// The events of an app that customers may subscribe to. No other event leaves the app.
///
/// [`webhook_events!`](crate::webhook_events) is shorter, is checked when the app is compiled, and
/// also allows conditions.
///
/// ```
/// use linchpin::prelude::*;
/// use linchpin_webhooks::Catalogue;
///
/// #[entity]
/// #[derive(Clone, Debug)]
/// pub struct Order {
///     #[field(primary, default = uuid)]
///     pub id: String,
///     #[field(default = false)]
///     pub paid: bool,
/// }
///
/// #[operation(kind = "field_update", set(paid), partial)]
/// pub const PAY: Operation<Order>;
///
/// let catalogue = Catalogue::new().created::<Order>().operation(PAY);
/// let names: Vec<&str> = catalogue.names().collect();
/// assert_eq!(names, ["orders.created", "orders.pay"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    events: Vec<Listed>,
}

/// The events of one route.
#[derive(Clone, Debug)]
struct Listed {
    entity: &'static EntityDesc,
    routes: Vec<&'static str>,
    events: Vec<ChangeEvent>,
    /// Whether the route never changes records.
    only_reads: bool,
    word: &'static str,
    when: Option<Condition>,
}

/// A condition on the record of an event.
#[derive(Clone, Debug)]
struct Condition {
    filter: Filter,
    /// The fields that the condition reads.
    fields: FieldSet,
}

impl Catalogue {
    /// Creates a catalogue without events.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the event of the creation of records of `E`.
    #[must_use]
    pub fn created<E: Entity>(self) -> Self {
        self.__event(E::DESC, Change::Created)
    }

    /// Adds the event of updates of records of `E`.
    #[must_use]
    pub fn updated<E: Entity>(self) -> Self {
        self.__event(E::DESC, Change::Updated)
    }

    /// Adds the event of the deletion of records of `E`.
    #[must_use]
    pub fn deleted<E: Entity>(self) -> Self {
        self.__event(E::DESC, Change::Deleted)
    }

    /// Adds the events of an operation.
    #[must_use]
    pub fn operation<E: Entity>(self, operation: Operation<E>) -> Self {
        self.__event(E::DESC, Change::Operation(operation.spec()))
    }

    /// Adds an event, for the expansion of `webhook_events!`.
    #[doc(hidden)]
    #[must_use]
    pub fn __event(self, entity: &'static EntityDesc, change: Change) -> Self {
        self.add_event(entity, change, None)
    }

    /// Adds an event with a condition, for the expansion of `webhook_events!`.
    #[doc(hidden)]
    #[must_use]
    pub fn __event_when(
        self,
        entity: &'static EntityDesc,
        change: Change,
        when: &'static FilterSpec,
    ) -> Self {
        let condition = Condition {
            filter: Filter::from(when),
            fields: when.fields(),
        };
        self.add_event(entity, change, Some(condition))
    }

    fn add_event(
        mut self,
        entity: &'static EntityDesc,
        change: Change,
        when: Option<Condition>,
    ) -> Self {
        self.events.push(Listed {
            entity,
            routes: change.routes(),
            events: change.events(entity),
            only_reads: change.only_reads(),
            word: change.word(),
            when,
        });
        self
    }

    /// The names of the events, in the order of their declaration.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.unique().map(|(_, event)| event.name.as_str())
    }

    /// The events in the order of their declaration, each name once: several routes can have events
    /// with the same name.
    fn unique(&self) -> impl Iterator<Item = (&'static EntityDesc, &ChangeEvent)> {
        let mut seen = HashSet::new();
        let all = self.events.iter();
        all.flat_map(|listed| listed.events.iter().map(|event| (listed.entity, event)))
            .filter(move |(_, event)| seen.insert(event.name.as_str()))
    }

    /// The events with their schemas: the declared ones, and those of the plugin itself.
    pub(crate) fn event_types(&self) -> Vec<EventType> {
        let declared = self.unique();
        declared
            .map(|(entity, event)| EventType::of(entity, event))
            .chain(EventType::built_in())
            .collect()
    }

    /// Checks the catalogue. Reports operations that change nothing, entities that no package of
    /// the app lists, and names with two schemas.
    pub(crate) fn problems(&self, is_listed: impl Fn(&EntityDesc) -> bool) -> Vec<String> {
        let mistake = |listed: &Listed| {
            let (entity, word) = (listed.entity.name, listed.word);
            if listed.only_reads {
                return Some(format!(
                    "`{word}` of `{entity}` never changes records, so it has no event: remove it from the webhook events"
                ));
            }
            (!is_listed(listed.entity)).then(|| {
                format!(
                    "`{entity}` is in no package of this app: list it in one, or remove its events"
                )
            })
        };
        let mut problems: Vec<String> = self.events.iter().filter_map(mistake).collect();
        problems.extend(self.ambiguous());
        problems.extend(self.events.iter().flat_map(Listed::problems));
        problems
    }

    /// Event names that are used for different data.
    fn ambiguous(&self) -> BTreeSet<String> {
        let mut known: HashMap<&str, (&str, &ChangeEvent)> = HashMap::new();
        let mut problems = BTreeSet::new();
        for listed in &self.events {
            let entity = listed.entity.storage_name;
            for event in &listed.events {
                let first = *known.entry(&event.name).or_insert((entity, event));
                let same = (first.1.payload, first.1.counts) == (event.payload, event.counts);
                if first.0 != entity || !same {
                    problems.insert(format!(
                        "`{}` is the name of two events with different data: give one of them \
                         another name, `event(name = \"..\")`",
                        event.name
                    ));
                }
            }
        }
        problems
    }

    /// Whether the catalogue has events of an entity.
    pub(crate) fn has_events_of(&self, entity: &EntityDesc) -> bool {
        let mut entities = self.events.iter().map(|listed| listed.entity);
        entities.any(|known| known.storage_name == entity.storage_name)
    }

    /// The fields of an entity that conditions read.
    pub(crate) fn condition_fields(&self, entity: &EntityDesc) -> FieldSet {
        let listed = self.events.iter();
        listed
            .filter(|listed| listed.entity.storage_name == entity.storage_name)
            .filter_map(|listed| listed.when.as_ref())
            .fold(FieldSet::NONE, |all, when| all.or(when.fields))
    }

    /// Whether an event may be sent: it is listed, and its record satisfies the condition.
    pub(crate) fn offers(&self, event: &EntityEvent) -> bool {
        self.events.iter().any(|listed| {
            listed.entity.storage_name == event.entity
                && listed.routes.contains(&&*event.route)
                && listed.satisfies_condition(event)
        })
    }

    /// Whether an entry of an endpoint's `events` matches an event of the catalogue, or one of the
    /// built-in names.
    pub(crate) fn has(&self, entry: &str) -> bool {
        let built_in = BUILT_IN.iter().copied();
        self.names()
            .chain(built_in)
            .any(|name| matches(entry, name))
    }
}

impl Listed {
    /// Reports events without a schema, and conditions on events without a record.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for event in &self.events {
            let mut fields = self.entity.fields.iter();
            if let Some(field) = fields.find(|field| event.shows(field) && is_untyped(field)) {
                problems.push(format!(
                    "event `{}` has no schema: `json` field `{}` needs a type",
                    event.name, field.name
                ));
            }
            if event.counts && self.when.is_some() {
                problems.push(format!(
                    "event `{}` is about several records, so `when` cannot check one: declare `{}` \
                     with `event(expose = \"records\")`",
                    event.name, self.word
                ));
            }
        }
        problems
    }

    /// Whether the record of an event satisfies the condition: the record after the change, or the
    /// removed one. An event without a record does not.
    fn satisfies_condition(&self, event: &EntityEvent) -> bool {
        let Some(when) = &self.when else { return true };
        let record = event.after.as_ref().or(event.before.as_ref());
        let Some(record) = record.and_then(|record| record.as_object()) else {
            return false;
        };
        EventState::read(self.entity, when.fields, record)
            .is_some_and(|state| state.satisfies(&when.filter))
    }
}

/// The events that the plugin itself sends.
pub(crate) const DISABLED: &str = "webhooks.endpoint.disabled";
pub(crate) const DEAD: &str = "webhooks.delivery.dead";
pub(crate) const TEST: &str = "webhook.test";
const BUILT_IN: [&str; 3] = [TEST, DISABLED, DEAD];

/// Whether an entry of an endpoint's `events` matches an event name. An entry is a name, `*`, or a
/// pattern such as `orders.*`.
pub(crate) fn matches(entry: &str, name: &str) -> bool {
    match entry.strip_suffix('*') {
        Some("") => true,
        Some(prefix) if prefix.ends_with('.') && !prefix.contains('*') => {
            name.len() > prefix.len() && name.starts_with(prefix)
        }
        Some(_) => false,
        None => entry == name,
    }
}

/// Whether an entry of `events` matches an event name.
pub(crate) fn wants(events: &[String], name: &str) -> bool {
    events.iter().any(|entry| matches(entry, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_segments() {
        for (entry, name, expected) in [
            ("*", "tasks.created", true),
            ("tasks.*", "tasks.created", true),
            ("tasks.*", "tasks.items.created", true),
            ("tasks.*", "tasks.", false),
            ("tasks.*", "tasksx.created", false),
            ("tasks*", "tasks.created", false),
            ("ta*.created", "tasks.created", false),
            ("*.*", "tasks.created", false),
            ("tasks.created", "tasks.created", true),
            ("tasks.created", "tasks.created2", false),
            ("", "tasks.created", false),
        ] {
            assert_eq!(matches(entry, name), expected, "{entry} {name}");
        }
    }
}
