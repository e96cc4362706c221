//! Indexing of records, and the rebuild of an index.

use std::collections::HashMap;

use crate::resource::Table;
use crate::search::index::{Index, guarded, owner, text};
use crate::search::{Change, Document};
use crate::store::Rows;
use crate::{Code, Cx, Error, Result, Value};

/// The number of records read and indexed at a time.
pub(super) const CHUNK: usize = 500;

/// The system-call reason under which the application reads the records.
const REASON: &str = "keep a search index";

impl Index {
    /// Indexes records in their current state; records that are no longer visible are removed.
    pub(super) async fn refresh(&self, table: &Table, ids: &[String]) -> Result<()> {
        let _turn = self.order_lock.lock().await;
        let cx = Cx::system(REASON).at((self.clock)());
        let keys: Vec<Value> = ids.iter().filter_map(|id| table.parse_id(id)).collect();
        let found = table
            .find_by_keys(&cx, "search", &keys, crate::filter::Filter::TRUE)
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
                    "another process maintains the search index of `{entity}`: stop it first, or call `Adapters::rebuild_search` there"
                ),
            ));
        }
        let mut rebuild = self.start(table).await?;
        while rebuild.step().await? {}
        Ok(rebuild.indexed)
    }

    /// Starts a rebuild.
    pub(super) async fn start<'a>(&'a self, table: &'a Table) -> Result<Rebuild<'a>> {
        let rebuild_guard = self.rebuild_lock.lock().await;
        let turn = self.order_lock.lock().await;
        guarded(|| self.provider.begin(&self.spec)).await?;
        drop(turn);
        Ok(Rebuild {
            index: self,
            table,
            after: None,
            indexed: 0,
            _rebuild_guard: rebuild_guard,
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
    _rebuild_guard: tokio::sync::MutexGuard<'a, ()>,
}

impl Rebuild<'_> {
    /// Indexes the next records; returns whether there are more.
    pub(super) async fn step(&mut self) -> Result<bool> {
        let (index, table) = (self.index, self.table);
        let _turn = index.order_lock.lock().await;
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
                "the search index was built"
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
