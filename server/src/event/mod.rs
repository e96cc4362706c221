//! Events of committed changes, and their delivery.
//!
//! A statement that changes records has a `Recording`. The store fills it from the changed rows and
//! writes it to its outbox in the same transaction. The [relay](relay) reads the outbox. It
//! delivers events to sinks and to the [bus](EventBus), at least once and in commit order. An
//! entity without consumers records no events.

mod bus;
mod hub;
mod plan;
mod relay;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

pub use bus::{AppEvent, EventBus, Lagged, Subscription};
pub(crate) use hub::{Emitter, Hub};
pub(crate) use plan::{EXPIRED, names_by_route};
pub(crate) use relay::Consumer;

pub use linchpin_core::event::{ActorRef, EntityEvent, Entry};
pub(crate) use linchpin_core::event::{Name, Recording, RouteEvent};

use crate::entity::{Entity, FieldType};
use crate::resource::{Adapter, Adapters, BoxFuture};
use crate::{Result, Value};

/// A named consumer of the events of an app.
///
/// Events come in commit order and at least once. If `publish` fails, or the program ends before
/// the success was stored, the same events come again with the same ids. A failure never changes a
/// response and never delays another consumer.
pub trait EventSink: Send + Sync + 'static {
    /// Processes a batch of events in order. Success means that all of them are done.
    ///
    /// # Errors
    /// Any error; the same events are delivered again later.
    fn publish<'a>(&'a self, events: &'a [EntityEvent]) -> BoxFuture<'a, Result<()>>;

    /// Whether the sink needs the key of every changed record, for example to keep a copy of the
    /// records.
    ///
    /// If so, events about many records list their [keys](EntityEvent::keys), split into several
    /// events when there are more than 500. The sink also gets events about expired records that
    /// the application removed; other consumers do not see these events.
    fn needs_records(&self) -> bool {
        false
    }

    /// Whether this process delivers events to the sink. If not, another process does, and this one
    /// checks again several times a second.
    ///
    /// The events are recorded in both cases.
    fn is_served_here(&self) -> bool {
        true
    }
}

/// An event about `E`.
pub struct Event<E> {
    told: EntityEvent,
    /// The adapters of the app, for listeners.
    adapters: Option<Adapters>,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> Event<E> {
    /// Converts an event of this entity; `None` for an event of another entity.
    pub(crate) fn of(event: EntityEvent) -> Option<Self> {
        (event.entity == E::DESC.storage_name).then_some(Self {
            told: event,
            adapters: None,
            entity: PhantomData,
        })
    }

    /// The key of the record; `None` if the event is about many records.
    pub fn key(&self) -> Option<E::Id> {
        let text = self.told.record_id.as_ref()?;
        let value = match E::DESC.primary_field().kind {
            crate::entity::Kind::Integer => Value::Int(text.parse().ok()?),
            _ => Value::Text(text.clone()),
        };
        E::Id::from_value(value.as_ref()).ok()
    }

    /// Adds the adapters of the app, for a listener.
    pub(crate) fn reaching(self, adapters: Option<&Adapters>) -> Self {
        Self {
            adapters: adapters.cloned(),
            ..self
        }
    }

    /// Typed access to the adapters of the app, within a listener of
    /// [`App::on_event`](crate::App::on_event).
    ///
    /// # Errors
    /// `internal` for the event of a subscription: the code that subscribed has the [`Adapters`]
    /// already.
    pub fn adapters(&self) -> Result<&Adapters> {
        let text =
            "an event of a subscription has no adapters: use those whose `events()` it came from";
        self.adapters
            .as_ref()
            .ok_or_else(|| crate::Error::internal(text))
    }

    /// The adapter of `T`, within a listener of [`App::on_event`](crate::App::on_event).
    ///
    /// # Errors
    /// Like [`Event::adapters`]; `internal` if no package of the app lists `T`.
    ///
    /// ```
    /// use linchpin::prelude::*;
    ///
    /// #[entity(routes(auth = none))]
    /// #[derive(Clone, Debug)]
    /// pub struct Order {
    ///     #[field(primary, default = uuid)]
    ///     pub id: String,
    /// }
    ///
    /// /// A parcel for an order.
    /// #[entity(routes(disabled))]
    /// #[derive(Clone, Debug)]
    /// pub struct Parcel {
    ///     #[field(primary)]
    ///     pub id: String,
    /// }
    ///
    /// # fn with(app: App) -> App {
    /// app.on_event::<Order, _, _>("packing", |event| async move {
    ///     let (Some(id), "create") = (event.key(), event.route.as_ref()) else { return Ok(()) };
    ///     let parcels = event.adapter::<Parcel>()?;
    ///     let cx = Cx::system("packing");
    ///     // An event may come twice.
    ///     if parcels.get(&cx, &*id).await?.is_none() {
    ///         parcels.create(&cx, ParcelCreate { id }).await?;
    ///     }
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn adapter<T: Entity>(&self) -> Result<T::Adapter>
    where
        T::Adapter: From<Adapter<T>>,
    {
        self.adapters()?.get::<T>()
    }

    /// Returns the event without its type.
    pub fn into_inner(self) -> EntityEvent {
        self.told
    }
}

impl<E> Deref for Event<E> {
    type Target = EntityEvent;

    fn deref(&self) -> &EntityEvent {
        &self.told
    }
}

impl<E> Clone for Event<E> {
    fn clone(&self) -> Self {
        Self {
            told: self.told.clone(),
            adapters: self.adapters.clone(),
            entity: PhantomData,
        }
    }
}

impl<E> fmt::Debug for Event<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.told.fmt(f)
    }
}
