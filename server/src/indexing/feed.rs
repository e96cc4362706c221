//! The consumer that feeds an index: for every change, it indexes the current state of the record.

use std::collections::HashSet;
use std::sync::Arc;

use super::index::CHUNK;
use crate::Result;
use crate::event::{Batch, EventSink};
use crate::resource::{BoxFuture, Table};
use crate::search::Index;

/// Feeds the index of one entity.
pub(super) struct Feed {
    pub(super) index: Arc<Index>,
    pub(super) table: Arc<Table>,
}

impl EventSink for Feed {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut seen = HashSet::new();
            let affected = batch
                .iter()
                .flat_map(|event| event.affected())
                .filter(|id| seen.insert(*id));
            let ids: Vec<String> = affected.map(str::to_owned).collect();
            for ids in ids.chunks(CHUNK) {
                self.index.refresh(&self.table, ids).await?;
            }
            Ok(())
        })
    }

    fn needs_records(&self) -> bool {
        true
    }

    fn is_served_here(&self) -> bool {
        self.index.is_kept_here()
    }
}
