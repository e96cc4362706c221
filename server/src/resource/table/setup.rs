//! Parts of a table that start-up sets.

use std::collections::HashMap;
use std::sync::Arc;

use linchpin_core::operation::OpSpec;

use super::Table;
use crate::clock::Clock;
use crate::emitter::Emitter;
use crate::permission::Evaluator;
use crate::resource::Executor;
use crate::resource::audit::AuditLog;
use crate::resource::declared;
use crate::resource::extensions::Extensions;
use crate::resource::integrity::dependents;
use crate::{EntityEntry, Result};

impl Table {
    /// Adds the limits that operations of the entity declare for lists of items. Create and update
    /// check them, too.
    #[must_use]
    pub fn bounded(mut self, entry: &EntityEntry) -> Self {
        for bounds in entry.mounted().filter_map(|spec| spec.kind.bounds()) {
            self.validator.bound_items(bounds);
        }
        self
    }

    /// Connects the tables of an app. Only the first call has an effect.
    pub(in crate::resource) fn link(
        &self,
        tables: &Arc<HashMap<&'static str, Arc<Table>>>,
        provided: &Extensions,
    ) {
        self.dependents
            .get_or_init(|| dependents(self.desc, tables.values().map(|table| table.desc)));
        self.statements
            .backfill()
            .find_counters(self.desc, tables.values().map(|table| table.desc));
        // A table belongs to one app permanently.
        drop(self.siblings.set(Arc::downgrade(tables)));
        drop(self.provided.set(provided.clone()));
    }

    /// Sets the permission evaluator. Only the first call has an effect.
    pub(crate) fn evaluated_by(&self, evaluator: &Arc<dyn Evaluator>) {
        self.evaluator.get_or_init(|| Arc::clone(evaluator));
    }

    /// Sets the audit log, for changes by audited calls. Only the first call has an effect.
    pub(crate) fn audited_by(&self, log: &AuditLog) {
        self.statements.audited_by(log);
    }

    /// Sets the clock for calls from code without an instant. Only the first call has an effect.
    pub(crate) fn timed_by(&self, clock: &Clock) {
        self.clock.get_or_init(|| Arc::clone(clock));
    }

    /// Sets the emitter of events for changes.
    pub(crate) fn emit(&self, emitter: Arc<Emitter>) {
        self.statements.emit(emitter);
    }

    /// The planned form of an operation, if it is planned already.
    pub(crate) fn planned(&self, name: &str) -> Option<Arc<dyn Executor>> {
        self.operations.read().get(name).map(Arc::clone)
    }

    /// Declares an operation that is about to be planned.
    ///
    /// # Errors
    /// If the operation always writes a value that its field does not allow.
    pub(crate) fn declare(&self, spec: &'static OpSpec) -> Result<()> {
        self.statements.declare(spec);
        declared::written(self.desc, &self.validator, spec)
    }

    /// Stores the planned form of an operation.
    pub(crate) fn keep_planned(&self, name: &'static str, executor: &Arc<dyn Executor>) {
        self.operations.write().insert(name, Arc::clone(executor));
    }
}
