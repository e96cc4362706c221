//! Delivery of the events of committed changes.
//!
//! Statements record events, and the store hands them over after the commit (`emitter`). The relay
//! (`relay.rs`) delivers them to sinks, at least once and in commit order per record.
//! [Live](EventSink::is_live) sinks and the [bus](EventBus) get events without the outbox. An entity
//! without consumers records no events.

mod delivery;
mod hub;
mod leases;
mod meter;
mod pending;
mod relay;
mod sink;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

pub(crate) use hub::Hub;
pub(crate) use relay::{Consumer, Health};
pub use sink::{Batch, EventSink, Missed};

pub use linchpin_core::event::{
    ActorRef, Change, ChangeEvent, EntityEvent, Entry, OutboxRow, Payload, RecordRef, StoredText,
    guard_fields,
};

pub use crate::emitter::{AppEvent, EventBus, Lagged, Subscription};

use crate::entity::{Entity, FieldType};
use crate::resource::{Adapter, Adapters};
use crate::{Result, Value};

/// An event about `E`.
pub struct Event<E> {
    event: Arc<EntityEvent>,
    /// The adapters of the app, for listeners.
    adapters: Option<Adapters>,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> Event<E> {
    /// Converts an event of this entity; `None` for an event of another entity.
    pub(crate) fn of(event: Arc<EntityEvent>) -> Option<Self> {
        (event.entity == E::DESC.storage_name).then_some(Self {
            event,
            adapters: None,
            entity: PhantomData,
        })
    }

    /// The key of the record; `None` if the event is about many records.
    pub fn key(&self) -> Option<E::Id> {
        let text = self.event.record_id.as_ref()?;
        let value = match E::DESC.primary_field().kind {
            crate::entity::Kind::Integer => Value::Int(text.parse().ok()?),
            _ => Value::Text(text.clone()),
        };
        E::Id::from_value(value.as_ref()).ok()
    }

    /// The event with the adapters of the app, for a listener.
    pub(crate) fn with_adapters(self, adapters: Option<&Adapters>) -> Self {
        Self {
            adapters: adapters.cloned(),
            ..self
        }
    }

    /// Typed access to the adapters of the app, within a listener of
    /// [`App::on_event`](crate::App::on_event).
    ///
    /// # Errors
    /// `internal` for the event of a subscription; use the [`Adapters`] of the code that
    /// subscribed.
    pub fn adapters(&self) -> Result<&Adapters> {
        let text = "an event of a subscription has no adapters: use the `Adapters` on which you called `events()`";
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

    /// Returns the event without its entity type.
    pub fn into_inner(self) -> EntityEvent {
        Arc::unwrap_or_clone(self.event)
    }
}

impl EventBus {
    /// Subscribes to the events about `E`.
    ///
    /// # Errors
    /// If the app already serves and does not record events of `E`, because nothing needed them at
    /// the start.
    pub fn subscribe<E: Entity>(&self) -> Result<Subscription<Event<E>>> {
        self.subscribe_to_entity(E::DESC, Event::of)
    }
}

impl<E> Deref for Event<E> {
    type Target = EntityEvent;

    fn deref(&self) -> &EntityEvent {
        &self.event
    }
}

impl<E> Clone for Event<E> {
    fn clone(&self) -> Self {
        Self {
            event: Arc::clone(&self.event),
            adapters: self.adapters.clone(),
            entity: PhantomData,
        }
    }
}

impl<E> fmt::Debug for Event<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.event.fmt(f)
    }
}
