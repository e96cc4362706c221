//! A search index in use: search, indexing, and rebuild.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use tokio::sync::Mutex;

use super::{Change, Document, Hit, SearchField, SearchIndex, SearchProvider, SearchQuery};
use crate::clock::Clock;
use crate::entity::{EntityDesc, SearchDesc};
use crate::resource::{BoxFuture, Table};
use crate::store::Rows;
use crate::{Code, Cx, Error, Result, Value};

/// The number of records read and indexed at a time.
pub(super) const CHUNK: usize = 500;

/// The reason of the application's own reads.
const REASON: &str = "keep a search index";

/// The index of an entity.
pub(crate) struct Index {
    spec: SearchIndex,
    desc: &'static SearchDesc,
    /// Positions of the owner fields: tenant and data scopes.
    owners: Vec<usize>,
    provider: Arc<dyn SearchProvider>,
    clock: Clock,
    /// Whether the index contains every record and can be searched.
    ready: AtomicBool,
    /// Whether this process maintains the index.
    here: AtomicBool,
    /// Held from reading records to the end of their indexing, so that a later read is indexed
    /// later.
    turn: Mutex<()>,
    /// Held during a rebuild.
    making: Mutex<()>,
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
    pub(super) fn new(
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
        let (turn, making) = (Mutex::new(()), Mutex::new(()));
        Self {
            spec,
            desc,
            owners,
            provider,
            clock,
            ready: AtomicBool::new(false),
            here: AtomicBool::new(true),
            turn,
            making,
        }
    }

    /// The description of the index for the provider.
    pub(super) fn spec(&self) -> &SearchIndex {
        &self.spec
    }

    pub(super) fn provider(&self) -> &Arc<dyn SearchProvider> {
        &self.provider
    }

    /// Marks the index as complete.
    pub(super) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Marks the index as incomplete; it is searched again after a rebuild.
    pub(super) fn set_unready(&self) {
        self.ready.store(false, Ordering::Release);
    }

    /// Sets whether this process maintains the index.
    pub(super) fn set_kept_here(&self, here: bool) {
        self.here.store(here, Ordering::Release);
    }

    pub(super) fn is_kept_here(&self) -> bool {
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
                "the search index of `{}` is still being made",
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

    /// Indexes records in their current state; records that are no longer visible are removed.
    pub(super) async fn refresh(&self, table: &Table, ids: &[String]) -> Result<()> {
        let _turn = self.turn.lock().await;
        let cx = Cx::system(REASON).at((self.clock)());
        let keys: Vec<Value> = ids.iter().filter_map(|id| table.parse_id(id)).collect();
        let found = table
            .among(&cx, "search", &keys, crate::filter::Filter::TRUE)
            .await?;
        let mut found: HashMap<String, Document> = self
            .documents(table, &found)
            .map(|document| (document.id.clone(), document))
            .collect();
        let change = |id: &String| {
            found
                .remove(id)
                .map_or_else(|| Change::Remove(id.clone()), Change::Put)
        };
        let changes = ids.iter().map(change).collect();
        guarded(|| self.provider.apply(&self.spec, changes)).await
    }

    /// Rebuilds the index from all records while records are written and searched; returns the
    /// number of records.
    ///
    /// # Errors
    /// If the store or the provider fails. Then the previous documents are still searched.
    pub(crate) async fn rebuild(&self, table: &Table) -> Result<u64> {
        if !self.is_kept_here() {
            let entity = self.spec.entity;
            return Err(Error::new(
                Code::Conflict,
                format!(
                    "another process keeps the search index of `{entity}`: stop it first, or have it call `Adapters::rebuild_search`"
                ),
            ));
        }
        let mut rebuild = self.start(table).await?;
        while rebuild.step().await? {}
        Ok(rebuild.indexed)
    }

    /// Starts a rebuild.
    pub(super) async fn start<'a>(&'a self, table: &'a Table) -> Result<Rebuild<'a>> {
        let making = self.making.lock().await;
        let turn = self.turn.lock().await;
        guarded(|| self.provider.begin(&self.spec)).await?;
        drop(turn);
        Ok(Rebuild {
            index: self,
            table,
            after: None,
            indexed: 0,
            _making: making,
        })
    }

    fn documents(&self, table: &Table, rows: &Rows) -> impl Iterator<Item = Document> {
        rows.records.iter().map(|record| Document {
            id: text(&record[table.desc.primary]),
            texts: self
                .desc
                .fields
                .iter()
                .map(|(field, _)| text(&record[*field]))
                .collect(),
            owners: self
                .owners
                .iter()
                .map(|field| owner(&record[*field]))
                .collect(),
        })
    }
}

/// A rebuild in progress, in chunks in the order of keys.
pub(super) struct Rebuild<'a> {
    index: &'a Index,
    table: &'a Table,
    /// The last key that was indexed.
    after: Option<Value>,
    indexed: u64,
    _making: tokio::sync::MutexGuard<'a, ()>,
}

impl Rebuild<'_> {
    /// Indexes the next records; returns whether there are more.
    pub(super) async fn step(&mut self) -> Result<bool> {
        let (index, table) = (self.index, self.table);
        let _turn = index.turn.lock().await;
        let cx = Cx::system(REASON).at((index.clock)());
        let rows = table
            .after_key(&cx, "search", self.after.take(), CHUNK as u32)
            .await?;
        if !rows.records.is_empty() {
            let puts = index.documents(table, &rows).map(Change::Put).collect();
            guarded(|| index.provider.apply(&index.spec, puts)).await?;
        }
        self.indexed += rows.records.len() as u64;
        if rows.records.len() < CHUNK {
            guarded(|| index.provider.finish(&index.spec)).await?;
            index.set_ready();
            tracing::info!(
                entity = index.spec.entity,
                records = self.indexed,
                "the search index was made"
            );
            return Ok(false);
        }
        self.after = rows
            .records
            .last()
            .map(|record| record[table.desc.primary].clone());
        Ok(true)
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

/// An owner value as text.
fn owner(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| text(value))
}

/// Calls a provider. A panic is a failure of the provider, even before there is a future.
pub(super) async fn guarded<'a, T>(call: impl FnOnce() -> BoxFuture<'a, Result<T>>) -> Result<T> {
    let attempt = AssertUnwindSafe(async { call().await });
    attempt
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(Error::internal("the search provider panicked")))
}

/// The cause of an error, for the log.
pub(super) fn cause(error: &Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
