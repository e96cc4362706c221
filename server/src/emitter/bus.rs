//! The bus: live subscriptions within the process.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures_util::Stream;
use linchpin_core::event::{EntityEvent, OutboxRow};
use parking_lot::Mutex;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::entity::EntityDesc;
use crate::{Error, Result};

/// The number of events that may wait for a slow subscription.
const CAPACITY: usize = 1024;

/// Live subscriptions to events while the app runs.
///
/// Events are handed over right after their commit, in this process, and are not stored for
/// subscriptions. Use a sink instead if no event may be missed: a subscription that is too slow
/// loses events, and gets [`Lagged`].
#[derive(Clone)]
pub struct EventBus(Arc<Shared>);

struct Shared {
    sender: Sender<EntityEvent>,
    /// The channel for events that code emits. It is separate, so that they never displace events
    /// of entities.
    emitted: Sender<AppEvent>,
    interest: Mutex<Interest>,
}

/// An event, or the number of events that were lost.
type Delivered<S> = std::result::Result<Arc<S>, u64>;

/// `None` after the app has stopped.
type Sender<S> = Mutex<Option<broadcast::Sender<Delivered<S>>>>;

/// An event that the app's own code emits: see [`EventBus::emit`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AppEvent {
    /// The name that it was emitted under.
    pub name: String,
    /// The payload of the event.
    pub payload: serde_json::Value,
}

/// The entities and names that have subscribers, for start-up.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    /// Storage names of entities.
    pub(crate) entities: BTreeSet<Cow<'static, str>>,
    /// Names of events.
    pub(crate) names: BTreeSet<String>,
    /// Whether the app already serves. From then on, no entity or name is added.
    sealed: bool,
}

impl Default for EventBus {
    fn default() -> Self {
        Self(Arc::new(Shared {
            sender: open(),
            emitted: open(),
            interest: Mutex::default(),
        }))
    }
}

impl fmt::Debug for EventBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventBus")
            .field(&*self.0.interest.lock())
            .finish()
    }
}

impl EventBus {
    /// Subscribes to the events of an entity. `select` converts them to `T`; events without a
    /// result are skipped.
    ///
    /// # Errors
    /// If the app already serves and does not record events of the entity, because nothing needed
    /// them at the start.
    pub(crate) fn subscribe_to_entity<T>(
        &self,
        entity: &'static EntityDesc,
        select: impl Fn(Arc<EntityEvent>) -> Option<T> + Send + 'static,
    ) -> Result<Subscription<T>> {
        let storage_name = Cow::Borrowed(entity.storage_name);
        let mut interest = self.0.interest.lock();
        if !interest.entities.contains(&storage_name) {
            if interest.sealed {
                return Err(no_subscriber(format_args!("the entity `{}`", entity.name)));
            }
            interest.entities.insert(storage_name);
        }
        subscribed(&self.0.sender, select)
    }

    /// Events of a name, such as `blog.posts.published`.
    ///
    /// # Errors
    /// If the app already serves and does not record this event, because nothing needed events of
    /// its entity at the start. Before the app serves, a subscription succeeds for any name; if no
    /// route has this event, start-up fails.
    pub fn subscribe_to(&self, name: &str) -> Result<Subscription<Arc<EntityEvent>>> {
        let mut interest = self.0.interest.lock();
        if !interest.names.contains(name) {
            if interest.sealed {
                return Err(no_subscriber(format_args!("the event `{name}`")));
            }
            interest.names.insert(name.to_owned());
        }
        let name = name.to_owned();
        subscribed(&self.0.sender, move |event: Arc<EntityEvent>| {
            (event.name == name).then_some(event)
        })
    }

    /// Sends an event to every [listener](Self::listen) of this name in this process, immediately.
    /// Nothing is stored. To keep an event, create a record: its creation is an event, too.
    ///
    /// ```
    /// # use linchpin::EventBus;
    /// # async fn example(bus: &EventBus) -> linchpin::Result<()> {
    /// let mut welcomes = bus.listen("welcome")?;
    /// bus.emit("welcome", &serde_json::json!({ "to": "ada" }))?;
    /// let welcome = welcomes.next().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the payload cannot be serialized to JSON, or the app has stopped.
    pub fn emit(&self, name: &str, payload: &impl serde::Serialize) -> Result<()> {
        let payload = serde_json::to_value(payload).map_err(|e| {
            Error::internal(format!(
                "the payload of `{name}` cannot be written as JSON: {e}"
            ))
        })?;
        let sender = self.0.emitted.lock();
        // An error means that there is no listener; this is fine.
        let _ = sender
            .as_ref()
            .ok_or_else(stopped)?
            .send(Ok(Arc::new(AppEvent {
                name: name.to_owned(),
                payload,
            })));
        Ok(())
    }

    /// Listens to the events that code of the app [emits](Self::emit) under a name from now on. The
    /// subscription gets no events of entities: use [`subscribe`](Self::subscribe) or
    /// [`subscribe_to`](Self::subscribe_to) for them.
    ///
    /// # Errors
    /// If the app has stopped.
    pub fn listen(&self, name: &str) -> Result<Subscription<AppEvent, AppEvent>> {
        let name = name.to_owned();
        subscribed(&self.0.emitted, move |event: Arc<AppEvent>| {
            (event.name == name).then(|| Arc::unwrap_or_clone(event))
        })
    }

    /// Calls a function with the entities and names that have subscribers.
    pub(crate) fn interest<T>(&self, look: impl FnOnce(&Interest) -> T) -> T {
        look(&self.0.interest.lock())
    }

    /// From now on only these entities and names can be subscribed to.
    pub(crate) fn seal(&self, entities: BTreeSet<Cow<'static, str>>, names: BTreeSet<String>) {
        *self.0.interest.lock() = Interest {
            entities,
            names,
            sealed: true,
        };
    }

    /// Sends the events of a commit. Without subscribers it does nothing.
    pub(crate) fn send(&self, row: &OutboxRow) {
        let sender = self.0.sender.lock();
        let Some(sender) = sender.as_ref().filter(|sender| sender.receiver_count() > 0) else {
            return;
        };
        for entry in row.events.iter().filter(|entry| !entry.internal) {
            let event = &entry.event;
            // Subscribers get events without the keys and states of records.
            let event = event.without_records().within(EntityEvent::PAYLOAD);
            // An error means that the last subscriber has been dropped meanwhile; this is fine.
            let _ = sender.send(Ok(event));
        }
    }

    /// Notifies subscribers that events were lost.
    pub(crate) fn missed(&self, count: u64) {
        if let Some(sender) = &*self.0.sender.lock() {
            // An error means that there is no subscriber; this is fine.
            let _ = sender.send(Err(count));
        }
    }

    /// Ends all subscriptions.
    pub(crate) fn close(&self) {
        self.0.sender.lock().take();
        self.0.emitted.lock().take();
    }
}

fn open<S>() -> Sender<S> {
    Mutex::new(Some(broadcast::channel(CAPACITY).0))
}

fn stopped() -> Error {
    Error::unavailable("the app has stopped")
}

fn subscribed<T, S>(
    sender: &Sender<S>,
    select: impl Fn(Arc<S>) -> Option<T> + Send + 'static,
) -> Result<Subscription<T, S>> {
    let sender = sender.lock();
    Ok(Subscription {
        receiver: sender.as_ref().ok_or_else(stopped)?.subscribe(),
        select: Box::new(select),
    })
}

fn no_subscriber(what: fmt::Arguments<'_>) -> Error {
    Error::internal(format!(
        "there was no subscription to {what} when the app started, so its events are not recorded: subscribe in `after_adapters`, or add a sink"
    ))
}

/// A live subscription to the events in `S` that convert to `T`.
pub struct Subscription<T, S = EntityEvent> {
    receiver: broadcast::Receiver<Delivered<S>>,
    select: Box<dyn Fn(Arc<S>) -> Option<T> + Send>,
}

/// The subscription lost this number of events, because it was too slow, or because it is unknown
/// whether a transaction was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the subscription missed {0} events")]
pub struct Lagged(pub u64);

impl<T, S> fmt::Debug for Subscription<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl<T, S> Subscription<T, S> {
    /// Returns the next event; `None` after the app has stopped.
    pub async fn next(&mut self) -> Option<std::result::Result<T, Lagged>> {
        loop {
            match self.receiver.recv().await {
                Ok(Err(missed)) => return Some(Err(Lagged(missed))),
                Ok(Ok(event)) => {
                    if let Some(event) = (self.select)(event) {
                        return Some(Ok(event));
                    }
                }
                Err(RecvError::Lagged(missed)) => return Some(Err(Lagged(missed))),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Returns the events as a stream.
    pub fn into_stream(self) -> impl Stream<Item = std::result::Result<T, Lagged>> {
        futures_util::stream::unfold(self, async |mut subscription| {
            Some((subscription.next().await?, subscription))
        })
    }
}
