//! A search index in use.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use tokio::sync::Mutex;

use super::{Hit, SearchField, SearchIndex, SearchProvider, SearchQuery};
use crate::clock::Clock;
use crate::entity::{EntityDesc, SearchDesc};
use crate::{BoxFuture, Error, Result, Value};

/// The index of an entity.
pub(crate) struct Index {
    pub(crate) spec: SearchIndex,
    pub(crate) desc: &'static SearchDesc,
    /// Positions of the owner fields: tenant and data scopes.
    pub(crate) owners: Vec<usize>,
    pub(crate) provider: Arc<dyn SearchProvider>,
    pub(crate) clock: Clock,
    /// Whether the index contains every record and can be searched.
    ready: AtomicBool,
    /// Whether this process maintains the index.
    here: AtomicBool,
    /// Held from reading records to the end of their indexing, so that a later read is indexed
    /// later.
    pub(crate) order_lock: Mutex<()>,
    /// Held during a rebuild.
    pub(crate) rebuild_lock: Mutex<()>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index")
            .field("name", &self.spec.name)
            .field("provider", &self.desc.provider)
            .finish_non_exhaustive()
    }
}

/// The search of an operation.
pub(crate) struct Find<'a> {
    pub(crate) text: &'a str,
    /// Positions of fields of the entity.
    pub(crate) fields: &'a [usize],
    /// The owner values that the caller sees: positions of fields of the entity, and values.
    pub(crate) owners: &'a [(usize, Value)],
}

impl Index {
    pub(crate) fn new(
        entity: &'static EntityDesc,
        desc: &'static SearchDesc,
        provider: Arc<dyn SearchProvider>,
        clock: Clock,
    ) -> Self {
        let owners: Vec<usize> = entity
            .tenant
            .map(|t| t.field)
            .into_iter()
            .chain(entity.scope.iter().map(|s| s.field))
            .collect();
        let wire = |field: &usize| entity.fields[*field].wire;
        let spec = SearchIndex {
            name: entity.storage_name,
            entity: entity.name,
            fields: desc
                .fields
                .iter()
                .map(|(field, weight)| SearchField {
                    name: wire(field),
                    weight: *weight,
                })
                .collect(),
            owners: owners.iter().map(wire).collect(),
        };
        let (order_lock, rebuild_lock) = (Mutex::new(()), Mutex::new(()));
        Self {
            spec,
            desc,
            owners,
            provider,
            clock,
            ready: AtomicBool::new(false),
            here: AtomicBool::new(true),
            order_lock,
            rebuild_lock,
        }
    }

    /// The description of the index for the provider.
    pub(crate) fn spec(&self) -> &SearchIndex {
        &self.spec
    }

    pub(crate) fn provider(&self) -> &Arc<dyn SearchProvider> {
        &self.provider
    }

    /// Marks the index as complete.
    pub(crate) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Marks the index as incomplete; it is searched again after a rebuild.
    pub(crate) fn set_unready(&self) {
        self.ready.store(false, Ordering::Release);
    }

    /// Sets whether this process maintains the index.
    pub(crate) fn set_kept_here(&self, here: bool) {
        self.here.store(here, Ordering::Release);
    }

    /// Whether this process maintains the index.
    pub(crate) fn is_kept_here(&self) -> bool {
        self.here.load(Ordering::Acquire)
    }

    /// The best hits that follow a given hit.
    ///
    /// # Errors
    /// `unavailable` for any failure of the provider.
    pub(crate) async fn hits(
        &self,
        find: &Find<'_>,
        after: Option<&Hit>,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        if !self.ready.load(Ordering::Acquire) {
            return Err(Error::unavailable(format!(
                "the search index of `{}` is being built",
                self.spec.entity
            )));
        }
        let place = |field: &usize| self.desc.fields.iter().position(|(of, _)| of == field);
        let fields: Vec<usize> = find.fields.iter().filter_map(place).collect();
        let owner = |(field, value): &(usize, Value)| {
            Some((self.owners.iter().position(|of| of == field)?, owner(value)))
        };
        let owners: Vec<_> = find.owners.iter().filter_map(owner).collect();
        let query = SearchQuery {
            text: find.text,
            fields: &fields,
            owners: &owners,
            after,
            limit,
        };
        let patience = self.provider.patience();
        let answered = tokio::time::timeout(
            patience,
            guarded(|| self.provider.query(&self.spec, &query)),
        )
        .await;
        let hits = answered
            .unwrap_or_else(|_| Err(Error::unavailable(format!("no answer within {patience:?}"))));
        hits.map_err(|error| {
            let cause = cause(&error);
            Error::unavailable(format!("search provider `{}`: {cause}", self.desc.provider))
        })
    }
}

pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

/// An owner value as text.
pub(crate) fn owner(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| text(value))
}

/// Calls a provider. A panic is a failure of the provider, even if it occurs before the method
/// returns its future.
pub(crate) async fn guarded<'a, T>(call: impl FnOnce() -> BoxFuture<'a, Result<T>>) -> Result<T> {
    let attempt = AssertUnwindSafe(async { call().await });
    attempt
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(Error::internal("the search provider panicked")))
}

/// The cause of an error, for the log.
pub(crate) fn cause(error: &Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
