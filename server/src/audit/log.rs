//! The log itself: entries are added and read, and that is all.

use std::sync::Arc;
use std::time::Duration;

use super::{AuditEntry, AuditEntryListQuery};
use crate::entity::{Entity, EntityDesc, Page};
use crate::resource::{Adapter, CursorKey, Prepared, Table};
use crate::store::{Plan, Rows, Store};
use crate::{Cx, Result, Timestamp, Uuid, Value};

/// The audit log of an app, in its store. `adapters.provided::<AuditLog>()` is it, once a route has
/// an `audit` in its policy or the app [asks for it](crate::App::audit_log).
#[derive(Clone)]
pub struct AuditLog(Arc<Log>);

struct Log {
    table: Arc<Table>,
    adapter: Adapter<AuditEntry>,
    insert: Prepared,
    /// For how long, in milliseconds.
    keep: Option<i64>,
}

/// An entry to be.
#[derive(Clone, Debug, Default)]
pub struct AuditNote {
    /// What was done: `lock`, `login`.
    pub action: String,
    /// The kind of thing it was done to: `Post`.
    pub target_type: String,
    /// Which one.
    pub target_id: String,
    /// What it belongs to.
    pub resource: Option<String>,
    /// By which route or function.
    pub route: String,
    /// The tenant, where it is not the caller's.
    pub tenant_id: Option<String>,
    /// What has changed, as it was.
    pub before: Option<serde_json::Value>,
    /// What has changed, as it is.
    pub after: Option<serde_json::Value>,
}

impl AuditLog {
    /// On a store in which the entity [`AuditLog::entity`] is installed.
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

    /// What an entry is, for [`Store::install`].
    pub(crate) fn entity() -> &'static EntityDesc {
        AuditEntry::DESC
    }

    /// The table, for the sweeper.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.0.table
    }

    /// Adds an entry about what this call does: part of its transaction, if it has one.
    ///
    /// # Errors
    /// When the store cannot write it; what it tells of must not last then.
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
        // The last instant that can be written, when the sum lies beyond it.
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
        // Whose record it is says the note, not the caller's tenant.
        let cx = cx.for_effects().into_system("write the audit log");
        self.0
            .table
            .execute(&cx, &self.0.insert, values, Rows::count())
            .await
            .map(drop)
    }

    /// A page of entries, the latest first: of the caller's tenant, or of all for [`Cx::system`].
    /// Who may read them is for the route to say.
    ///
    /// # Errors
    /// `invalid_cursor`; 401 for callers nobody knows.
    pub async fn list(&self, cx: &Cx, query: AuditEntryListQuery) -> Result<Page<AuditEntry>> {
        self.0.adapter.list(cx, query).await
    }

    /// An entry by its key.
    ///
    /// # Errors
    /// As [`AuditLog::list`].
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
