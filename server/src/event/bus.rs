//! The bus: live subscriptions within the process.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures_util::Stream;
use parking_lot::Mutex;
use tokio::sync::broadcast::{self, error::RecvError};

use super::{EntityEvent, Event};
use crate::entity::Entity;
use crate::{Error, Result};

/// Events that a subscription may lie behind.
const ROOM: usize = 1024;

/// Where events can be listened to while the app runs.
///
/// A subscription that is made before the app serves (`after_adapters`, `setup_post`) also sees
/// what was committed before a crash and not delivered then. It is no substitute for a sink where
/// nothing may be missed: whoever is too slow loses events, and is told so.
#[derive(Clone)]
pub struct EventBus(Arc<Shared>);

struct Shared {
    sender: Sender<EntityEvent>,
    /// For what code emits: however much that is, no event of an entity is passed over for it.
    emitted: Sender<AppEvent>,
    interest: Mutex<Interest>,
}

/// Empty once the app has stopped.
type Sender<S> = Mutex<Option<broadcast::Sender<Arc<S>>>>;

/// What the app's own code tells its other parts: see [`EventBus::emit`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AppEvent {
    /// As it was emitted.
    pub name: String,
    /// What goes with it.
    pub payload: serde_json::Value,
}

/// Who listens, as far as start-up has to know.
#[derive(Debug, Default)]
pub(super) struct Interest {
    /// Storage names.
    pub(super) entities: BTreeSet<Cow<'static, str>>,
    /// Names of events.
    pub(super) names: BTreeSet<String>,
    /// From then on nothing is added.
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
    /// Events about `E`.
    ///
    /// # Errors
    /// Once the app serves, when nobody listened to `E` at start-up: then none are recorded.
    pub fn subscribe<E: Entity>(&self) -> Result<Subscription<Event<E>>> {
        let entity = Cow::Borrowed(E::DESC.storage_name);
        let mut interest = self.0.interest.lock();
        if !interest.entities.contains(&entity) {
            if interest.sealed {
                return Err(unheard(format_args!("the entity `{}`", E::DESC.name)));
            }
            interest.entities.insert(entity);
        }
        subscribed(&self.0.sender, Event::of)
    }

    /// Events of a name, such as `blog.posts.published`.
    ///
    /// # Errors
    /// Once the app serves, when no entity with such an event was listened to at start-up. Before,
    /// a name that no route has is an error of start-up.
    pub fn subscribe_to(&self, name: &str) -> Result<Subscription<EntityEvent>> {
        let mut interest = self.0.interest.lock();
        if !interest.names.contains(name) {
            if interest.sealed {
                return Err(unheard(format_args!("the event `{name}`")));
            }
            interest.names.insert(name.to_owned());
        }
        let name = name.to_owned();
        subscribed(&self.0.sender, move |event: EntityEvent| {
            (event.name == name).then_some(event)
        })
    }

    /// Tells whoever [listens](Self::listen) to this name, within this process and at once. Nothing
    /// is stored: what must not be lost is a record, whose creation is an event of its own.
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
    /// When the payload has no form in JSON; once the app has stopped.
    pub fn emit(&self, name: &str, payload: &impl serde::Serialize) -> Result<()> {
        let payload = serde_json::to_value(payload)
            .map_err(|e| Error::internal(format!("the payload of `{name}` is no JSON: {e}")))?;
        let sender = self.0.emitted.lock();
        // Nobody listening is no fault.
        let _ = sender
            .as_ref()
            .ok_or_else(stopped)?
            .send(Arc::new(AppEvent {
                name: name.to_owned(),
                payload,
            }));
        Ok(())
    }

    /// What code of the app [emits](Self::emit) under a name from now on. Events of entities are
    /// none of these: for those there are [`subscribe`](Self::subscribe) and
    /// [`subscribe_to`](Self::subscribe_to).
    ///
    /// # Errors
    /// Once the app has stopped.
    pub fn listen(&self, name: &str) -> Result<Subscription<AppEvent, AppEvent>> {
        let name = name.to_owned();
        subscribed(&self.0.emitted, move |event: AppEvent| {
            (event.name == name).then_some(event)
        })
    }

    pub(super) fn interest<T>(&self, look: impl FnOnce(&Interest) -> T) -> T {
        look(&self.0.interest.lock())
    }

    /// From now on these entities and names can be listened to, and no others.
    pub(super) fn seal(&self, entities: BTreeSet<Cow<'static, str>>, names: BTreeSet<String>) {
        *self.0.interest.lock() = Interest {
            entities,
            names,
            sealed: true,
        };
    }

    pub(super) fn send(&self, event: EntityEvent) {
        if let Some(sender) = &*self.0.sender.lock() {
            // Nobody listening is no fault.
            let _ = sender.send(Arc::new(event));
        }
    }

    /// Ends all subscriptions.
    pub(super) fn close(&self) {
        self.0.sender.lock().take();
        self.0.emitted.lock().take();
    }
}

fn open<S: Clone>() -> Sender<S> {
    Mutex::new(Some(broadcast::channel(ROOM).0))
}

fn stopped() -> Error {
    Error::unavailable("the app has stopped")
}

fn subscribed<T, S>(
    sender: &Sender<S>,
    select: impl Fn(S) -> Option<T> + Send + 'static,
) -> Result<Subscription<T, S>> {
    let sender = sender.lock();
    Ok(Subscription {
        receiver: sender.as_ref().ok_or_else(stopped)?.subscribe(),
        select: Box::new(select),
    })
}

fn unheard(what: fmt::Arguments<'_>) -> Error {
    Error::internal(format!(
        "nobody listened to {what} when the app started, so its events are not recorded: subscribe in `after_adapters`, or add a sink"
    ))
}

/// A live subscription to those of the events `S` that are a `T`.
pub struct Subscription<T, S = EntityEvent> {
    receiver: broadcast::Receiver<Arc<S>>,
    select: Box<dyn Fn(S) -> Option<T> + Send>,
}

/// A subscription was too slow: this many events of the app were passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the subscription was too slow and missed {0} events")]
pub struct Lagged(pub u64);

impl<T, S> fmt::Debug for Subscription<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl<T, S: Clone> Subscription<T, S> {
    /// The next event; `None` once the app has stopped.
    pub async fn next(&mut self) -> Option<std::result::Result<T, Lagged>> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => {
                    let event = Arc::try_unwrap(event).unwrap_or_else(|shared| (*shared).clone());
                    if let Some(event) = (self.select)(event) {
                        return Some(Ok(event));
                    }
                }
                Err(RecvError::Lagged(missed)) => return Some(Err(Lagged(missed))),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// The events as a stream.
    pub fn into_stream(self) -> impl Stream<Item = std::result::Result<T, Lagged>> {
        futures_util::stream::unfold(self, async |mut subscription| {
            Some((subscription.next().await?, subscription))
        })
    }
}
