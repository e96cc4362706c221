//! The audit log: entries can be added and read, but not changed.

use std::sync::Arc;
use std::time::Duration;

use super::{AuditEntry, AuditEntryListQuery};
use crate::entity::{Entity, EntityDesc, Page};
use crate::resource::{Adapter, CursorKey, Prepared, Table};
use crate::store::{Plan, Rows, Store};
use crate::{Cx, Result, Timestamp, Uuid, Value};

/// The audit log of an app, in its store. Get it with `adapters.provided::<AuditLog>()`; it exists
/// if a route has an `audit` in its policy or the app [enables it](crate::App::audit_log).
#[derive(Clone)]
pub struct AuditLog(Arc<Log>);

struct Log {
    table: Arc<Table>,
    adapter: Adapter<AuditEntry>,
    insert: Prepared,
    /// The retention in milliseconds.
    keep: Option<i64>,
}

/// The contents of a new entry.
#[derive(Clone, Debug, Default)]
pub struct AuditNote {
    /// The action, for example `lock` or `login`.
    pub action: String,
    /// The type of the target, for example `Post`.
    pub target_type: String,
    /// The id of the target.
    pub target_id: String,
    /// The resource that the target belongs to.
    pub resource: Option<String>,
    /// The name of the route or function.
    pub route: String,
    /// The tenant, if it is not the caller's.
    pub tenant_id: Option<String>,
    /// The changed values before the change.
    pub before: Option<serde_json::Value>,
    /// The changed values after the change.
    pub after: Option<serde_json::Value>,
}

impl AuditLog {
    /// Creates the log on a store that has the table of [`AuditLog::entity`].
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        cursors: CursorKey,
        keep: Option<Duration>,
    ) -> Result<Self> {
        let table = Arc::new(Table::new(AuditEntry::DESC, Arc::clone(store), cursors)?);
        let insert = table.prepare("create", Plan::Insert)?;
        let keep = keep.map(|keep| i64::try_from(keep.as_millis()).unwrap_or(i64::MAX));
        Ok(Self(Arc::new(Log {
            adapter: Adapter::new(Arc::clone(&table)),
            table,
            insert,
            keep,
        })))
    }

    /// The entity of entries: a table of the framework.
    pub(crate) fn entity() -> &'static EntityDesc {
        AuditEntry::DESC
    }

    /// The table, for the sweeper.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.0.table
    }

    /// Adds an entry about this call. If the call has a transaction, the entry is part of it.
    ///
    /// # Errors
    /// If the store cannot write the entry; then roll back the change that it describes.
    pub async fn add(&self, cx: &Cx, note: AuditNote) -> Result<()> {
        let cx = self.0.table.at_present(cx);
        let actor = cx.get_actor();
        let kind = actor
            .map_or("system", |actor| actor.kind.as_str())
            .to_owned();
        let tenant = note
            .tenant_id
            .or_else(|| actor.and_then(|actor| actor.tenant_id.clone()));
        let text = |text: Option<String>| text.map_or(Value::Null, Value::Text);
        let json = |json: Option<serde_json::Value>| {
            json.map_or(Value::Null, |json| Value::Json(json.to_string()))
        };
        // If the sum is too large, the last instant that can be stored is used.
        let until = |keep: &i64| {
            Timestamp::from_millis(
                cx.now()
                    .millis()
                    .saturating_add(*keep)
                    .min(253_402_300_799_999),
            )
        };
        let values = vec![
            Value::Text(Uuid::new_v7().as_str().to_owned()),
            Value::Text(note.action),
            text(actor.and_then(|actor| actor.id.clone())),
            Value::Text(kind),
            text(tenant),
            Value::Text(note.target_type),
            Value::Text(note.target_id),
            text(note.resource),
            Value::Text(note.route),
            json(note.before),
            json(note.after),
            Value::Text(cx.request_id().to_owned()),
            Value::Date(cx.now()),
            self.0
                .keep
                .as_ref()
                .map_or(Value::Null, |keep| Value::Date(until(keep))),
        ];
        // The note contains the tenant of the record; the caller's tenant may differ.
        let cx = cx.for_effects().into_system("write the audit log");
        self.0
            .table
            .execute(&cx, &self.0.insert, values, Rows::count())
            .await
            .map(drop)
    }

    /// A page of entries, the latest first: entries of the caller's tenant, or all entries for
    /// [`Cx::system`]. The calling route must check who may read them.
    ///
    /// # Errors
    /// `invalid_cursor`; 401 for anonymous callers.
    pub async fn list(&self, cx: &Cx, query: AuditEntryListQuery) -> Result<Page<AuditEntry>> {
        self.0.adapter.list(cx, query).await
    }

    /// An entry by its key.
    ///
    /// # Errors
    /// Like [`AuditLog::list`].
    pub async fn get(&self, cx: &Cx, id: impl Into<String>) -> Result<Option<AuditEntry>> {
        self.0.adapter.get(cx, id.into()).await
    }
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditLog")
            .field("keep", &self.0.keep)
            .finish_non_exhaustive()
    }
}
