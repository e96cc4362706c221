//! The capabilities of the store, and the provider that opens it for an app.

use std::sync::Arc;

use linchpin_core::Result;
use linchpin_core::store::{CustomStore, DatabaseUrl, Store, StoreKind, StoreProvider};
use linchpin_vocabulary::store::MEMORY;

use super::Memory;

/// The capabilities of the store.
pub static KIND: StoreKind = StoreKind::new(MEMORY.name, &["memory"], "memory:")
    .granting(MEMORY.grants)
    .alone()
    .volatile();

/// Opens an empty store for each app with the URL `memory:`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryProvider;

impl StoreProvider for MemoryProvider {
    fn kind(&self) -> &'static StoreKind {
        &KIND
    }

    fn check(&self, url: &DatabaseUrl) -> Result<(), String> {
        if url.rest().is_empty() {
            Ok(())
        } else {
            Err("must be exactly `memory:`".to_owned())
        }
    }

    fn open(&self, _: &DatabaseUrl) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(Memory::new()))
    }
}

/// The memory store as a type parameter, as in `CustomCall<Entity, OnMemory>`.
#[derive(Debug)]
pub enum OnMemory {}

impl CustomStore for OnMemory {
    const NAME: &'static str = MEMORY.name;
    /// The memory store has no native handle.
    type Native = std::convert::Infallible;
}
