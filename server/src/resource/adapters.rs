//! The adapters of an app, and values that its handlers share.

use std::collections::HashMap;
use std::sync::Arc;

use super::extensions::Extensions;
use super::{Adapter, Table};
use crate::clock::Clock;
use crate::emitter::EventBus;
use crate::entity::Entity;
use crate::{Error, Result, Timestamp};

/// Typed access to every adapter of an app.
#[derive(Clone, Default)]
pub struct Adapters {
    tables: Arc<HashMap<&'static str, Arc<Table>>>,
    events: EventBus,
    provided: Extensions,
    /// The app's clock; `None` for the system clock.
    clock: Option<Clock>,
}

impl std::fmt::Debug for Adapters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.tables.values()).finish()
    }
}

impl Adapters {
    /// Creates adapters for mounted tables.
    #[doc(hidden)]
    pub fn new(tables: impl IntoIterator<Item = Arc<Table>>) -> Self {
        // Storage names are unique within an app: start-up checks that.
        let tables: Arc<HashMap<_, Arc<Table>>> = Arc::new(
            tables
                .into_iter()
                .map(|t| (t.desc.storage_name, t))
                .collect(),
        );
        let provided = Extensions::default();
        for table in tables.values() {
            table.link(&tables, &provided);
        }
        Self {
            tables,
            events: EventBus::default(),
            provided,
            clock: None,
        }
    }

    /// Adds the event bus of the app.
    pub(crate) fn with_events(self, events: EventBus) -> Self {
        Self { events, ..self }
    }

    /// Adds the clock of the app, for calls without a fixed instant.
    pub(crate) fn timed_by(self, clock: &Clock) -> Self {
        self.tables.values().for_each(|table| table.timed_by(clock));
        Self {
            clock: Some(Arc::clone(clock)),
            ..self
        }
    }

    /// The current time by the clock of the app: [`App::clock`](crate::App::clock), or the system
    /// clock.
    pub fn now(&self) -> Timestamp {
        self.clock
            .as_ref()
            .map_or_else(Timestamp::system_now, |clock| clock())
    }

    /// Whether changes of any entity record events.
    pub(crate) fn emits(&self) -> bool {
        self.tables.values().any(|table| table.emits())
    }

    /// The event bus, for subscriptions.
    pub fn events(&self) -> &EventBus {
        &self.events
    }

    /// Stores a value, by its type, for handlers of custom operations and routes of this app: for
    /// example, values that an `after_adapters` hook has created. A second value of the same type
    /// replaces the first one.
    pub fn provide<T: Send + Sync + 'static>(&self, value: T) {
        self.provided.put(value);
    }

    /// Returns a value stored by [`Adapters::provide`].
    ///
    /// # Errors
    /// `internal` if there is no `T`.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        self.provided.get()
    }

    /// Returns the adapter of `E`.
    ///
    /// # Errors
    /// If no package of the app lists `E`.
    pub fn get<E: Entity>(&self) -> Result<E::Adapter>
    where
        E::Adapter: From<Adapter<E>>,
    {
        match self.table(E::DESC.storage_name) {
            Some(table) => Ok(Adapter::new(Arc::clone(table)).into()),
            None => Err(Error::internal(format!(
                "entity `{}` is in no package of this app",
                E::DESC.name
            ))),
        }
    }

    /// Rebuilds the search index of `E` from all records; returns their number. During the rebuild,
    /// records can be written and searched. An index normally follows changes without a rebuild;
    /// call this after an index was lost, or restored from an old copy.
    ///
    /// # Errors
    /// If `E` has no search provider; `conflict` while another process maintains the index; if the
    /// store or the provider fails.
    pub async fn rebuild_search<E: Entity>(&self) -> Result<u64> {
        self.rebuild_index(E::DESC.storage_name).await
    }

    /// Rebuilds the search index of an entity.
    pub(crate) async fn rebuild_index(&self, storage_name: &str) -> Result<u64> {
        let table = self.table(storage_name);
        match table.and_then(|table| Some((table, table.search_index()?))) {
            Some((table, index)) => index.rebuild(table).await,
            None => Err(Error::internal(format!(
                "`{storage_name}` has no search index in this app"
            ))),
        }
    }

    /// Every table.
    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.values().map(Arc::clone).collect()
    }

    /// The table with a storage name.
    #[doc(hidden)]
    pub fn table(&self, storage_name: &str) -> Option<&Arc<Table>> {
        self.tables.get(storage_name)
    }
}
