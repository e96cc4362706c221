//! Values that start-up hooks store for handlers, one per type.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::{Error, Result};

/// The values of an app, by type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extensions(Arc<RwLock<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>);

impl Extensions {
    /// Stores a value. It replaces an earlier one of its type.
    pub(super) fn put<T: Send + Sync + 'static>(&self, value: T) {
        self.0.write().insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Returns the value of a type.
    ///
    /// # Errors
    /// `internal` if there is none.
    pub(super) fn get<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        let found = self.0.read().get(&TypeId::of::<T>()).cloned();
        found
            .and_then(|value| value.downcast().ok())
            .ok_or_else(|| {
                let wanted = type_name::<T>();
                Error::internal(format!(
                    "no plugin and no `after_adapters` hook has provided a `{wanted}`"
                ))
            })
    }
}
