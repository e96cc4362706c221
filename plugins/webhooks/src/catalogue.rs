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
/// [`webhook_events!`](crate::webhook_events) writes it shorter, checks it when the app is compiled,
/// and has conditions.
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
    /// Whether no call of the route changes records.
    only_reads: bool,
    word: &'static str,
    when: Option<Condition>,
}

/// A condition on the record of an event.
#[derive(Clone, Debug)]
struct Condition {
    filter: Filter,
    /// The fields that it reads.
    fields: FieldSet,
}

impl Catalogue {
    /// A catalogue without events.
    pub fn new() -> Self {
        Self::default()
    }

    /// Offers the creation of records of `E`.
    #[must_use]
    pub fn created<E: Entity>(self) -> Self {
        self.__event(E::DESC, Change::Created)
    }

    /// Offers updates of records of `E`.
    #[must_use]
    pub fn updated<E: Entity>(self) -> Self {
        self.__event(E::DESC, Change::Updated)
    }

    /// Offers the deletion of records of `E`.
    #[must_use]
    pub fn deleted<E: Entity>(self) -> Self {
        self.__event(E::DESC, Change::Deleted)
    }

    /// Offers the events of an operation.
    #[must_use]
    pub fn operation<E: Entity>(self, operation: Operation<E>) -> Self {
        self.__event(E::DESC, Change::Operation(operation.spec()))
    }

    /// An event, as `webhook_events!` lists it.
    #[doc(hidden)]
    #[must_use]
    pub fn __event(self, entity: &'static EntityDesc, change: Change) -> Self {
        self.with(entity, change, None)
    }

    /// An event with a condition, as `webhook_events!` lists it.
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
        self.with(entity, change, Some(condition))
    }

    fn with(
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

    /// The events in the order of their declaration. Several routes can have events of one name.
    fn unique(&self) -> impl Iterator<Item = (&'static EntityDesc, &ChangeEvent)> {
        let mut seen = HashSet::new();
        let all = self.events.iter();
        all.flat_map(|listed| listed.events.iter().map(|event| (listed.entity, event)))
            .filter(move |(_, event)| seen.insert(event.name.as_str()))
    }

    /// The events with their schemas: the declared ones, and those that the package itself sends.
    pub(crate) fn event_types(&self) -> Vec<EventType> {
        let declared = self.unique();
        declared
            .map(|(entity, event)| EventType::of(entity, event))
            .chain(EventType::built_in())
            .collect()
    }

    /// The mistakes: operations that change nothing, entities that no package of the app lists, and
    /// names with two schemas.
    pub(crate) fn mistakes(&self, is_listed: impl Fn(&EntityDesc) -> bool) -> Vec<String> {
        let mistake = |listed: &Listed| {
            let (entity, word) = (listed.entity.name, listed.word);
            if listed.only_reads {
                return Some(format!(
                    "`{word}` of `{entity}` changes no record, so it has no event: remove it"
                ));
            }
            (!is_listed(listed.entity)).then(|| {
                format!(
                    "`{entity}` is in no package of this app: list it in one, or remove its events"
                )
            })
        };
        let mut mistakes: Vec<String> = self.events.iter().filter_map(mistake).collect();
        mistakes.extend(self.ambiguous());
        mistakes.extend(self.events.iter().flat_map(Listed::flaws));
        mistakes
    }

    /// Names that several routes give to events with different data.
    fn ambiguous(&self) -> BTreeSet<String> {
        let mut known: HashMap<&str, (&str, &ChangeEvent)> = HashMap::new();
        let mut mistakes = BTreeSet::new();
        for listed in &self.events {
            let entity = listed.entity.storage_name;
            for event in &listed.events {
                let first = *known.entry(&event.name).or_insert((entity, event));
                let same = (first.1.payload, first.1.counts) == (event.payload, event.counts);
                if first.0 != entity || !same {
                    mistakes.insert(format!(
                        "`{}` is the name of two events with different data: give one of them \
                         another name, `event(name = \"..\")`",
                        event.name
                    ));
                }
            }
        }
        mistakes
    }

    /// Whether the catalogue has events of an entity.
    pub(crate) fn takes(&self, entity: &EntityDesc) -> bool {
        let mut entities = self.events.iter().map(|listed| listed.entity);
        entities.any(|known| known.storage_name == entity.storage_name)
    }

    /// The fields of an entity that conditions read.
    pub(crate) fn reads(&self, entity: &EntityDesc) -> FieldSet {
        let listed = self.events.iter();
        listed
            .filter(|listed| listed.entity.storage_name == entity.storage_name)
            .filter_map(|listed| listed.when.as_ref())
            .fold(FieldSet::NONE, |all, when| all.or(when.fields))
    }

    /// Whether an event is offered: it is listed, and its record satisfies the condition.
    pub(crate) fn offers(&self, event: &EntityEvent) -> bool {
        self.events.iter().any(|listed| {
            listed.entity.storage_name == event.entity
                && listed.routes.contains(&&*event.route)
                && listed.holds(event)
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
    /// Events without a schema, and conditions that have no record to judge.
    fn flaws(&self) -> Vec<String> {
        let mut flaws = Vec::new();
        for event in &self.events {
            let mut fields = self.entity.fields.iter();
            if let Some(field) = fields.find(|field| event.shows(field) && is_untyped(field)) {
                flaws.push(format!(
                    "event `{}` has no schema: `json` field `{}` needs a type",
                    event.name, field.name
                ));
            }
            if event.counts && self.when.is_some() {
                flaws.push(format!(
                    "event `{}` is about many records, so `when` has none to check: give `{}` \
                     `event(expose = \"records\")`",
                    event.name, self.word
                ));
            }
        }
        flaws
    }

    /// Whether the record of an event satisfies the condition: the record after the change, or the
    /// removed one. An event without a record does not.
    fn holds(&self, event: &EntityEvent) -> bool {
        let Some(when) = &self.when else { return true };
        let record = event.after.as_ref().or(event.before.as_ref());
        let Some(record) = record.and_then(|record| record.as_object()) else {
            return false;
        };
        EventState::read(self.entity, when.fields, record)
            .is_some_and(|state| state.satisfies(&when.filter))
    }
}

/// Events that the package itself sends.
pub(crate) const DISABLED: &str = "webhooks.endpoint.disabled";
pub(crate) const DEAD: &str = "webhooks.delivery.dead";
pub(crate) const TEST: &str = "webhook.test";
const BUILT_IN: [&str; 3] = [TEST, DISABLED, DEAD];

/// Whether an entry of an endpoint's `events` is a name, or a pattern of one: `*` alone, or as the
/// last segment after a dot.
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

/// The entries of `events` that match an event, for many endpoints.
pub(crate) fn wants(events: &[String], name: &str) -> bool {
    events.iter().any(|entry| matches(entry, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_ends_with_a_whole_segment() {
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
