//! The input of the chooser of a transition.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::entity::{Entity, Field, FieldType};
use crate::resource::{Adapter, Borrowed, BoxFuture, Table};
use crate::{Cx, Error, Result, Value};

/// The input of a chooser, without the type of its entity.
#[doc(hidden)]
pub struct Erased {
    table: Arc<Table>,
    cx: Cx,
    record: Box<[Value]>,
}

impl fmt::Debug for Erased {
    // The record may contain private fields.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Erased")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl Erased {
    pub(super) fn new(table: Arc<Table>, cx: Cx, record: Box<[Value]>) -> Self {
        Self { table, cx, record }
    }
}

/// Calls a function that chooses the value of a field. rustc checks the signature of the function
/// here.
#[doc(hidden)]
pub fn choose<F, T>(
    call: Erased,
    by: fn(ChooserCall<F::Entity>) -> T,
) -> BoxFuture<'static, Result<Value>>
where
    F: Field,
    F::Entity: Entity,
    T: Future<Output = Result<<F::Ty as FieldType>::Inner>> + Send + 'static,
{
    let Erased { table, cx, record } = call;
    let record = match F::Entity::read(&Borrowed(&record)) {
        Ok(record) => record,
        Err(error) => return Box::pin(std::future::ready(Err(Error::internal(error)))),
    };
    let chosen = by(ChooserCall { table, cx, record });
    Box::pin(async move { Ok(chosen.await?.into_value()) })
}

/// A call of the chooser of a transition of `E`: the record before the change, and access to other
/// records.
///
/// The chooser runs in the transaction of the write. The record is locked until the chosen value is
/// written. Reads through [`adapter`](Self::adapter) with [`cx`](Self::cx) belong to the
/// transaction. The chooser must return quickly: meanwhile other calls wait for the record, and on
/// an embedded store for the whole file.
#[derive(Debug)]
pub struct ChooserCall<E> {
    table: Arc<Table>,
    cx: Cx,
    record: E,
}

impl<E: Entity> ChooserCall<E> {
    /// The context of the call, within the transaction.
    pub fn cx(&self) -> &Cx {
        &self.cx
    }

    /// The record before the change.
    pub fn record(&self) -> &E {
        &self.record
    }

    /// Returns the adapter of an entity of the app. Within the transaction, the entity must be in
    /// the same store.
    ///
    /// # Errors
    /// `internal` when no package of the app lists the entity.
    pub fn adapter<T: Entity>(&self) -> Result<T::Adapter>
    where
        T::Adapter: From<Adapter<T>>,
    {
        Ok(Adapter::new(self.table.sibling(T::DESC)?).into())
    }

    /// Returns a value that a start-up hook has stored: see
    /// [`Adapters::provide`](crate::Adapters::provide).
    ///
    /// # Errors
    /// `internal` when no hook has provided a `T`.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        self.table.provided()
    }
}
