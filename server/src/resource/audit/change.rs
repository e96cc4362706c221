//! The audit of a change: compares the record before and after it, and adds an entry.

use serde_json::{Map, Value as Json};

use super::{AuditLog, AuditNote};
use crate::cx::Auditing;
use crate::entity::{EntityDesc, Flags};
use crate::filter::CtxPath;
use crate::{Cx, Result, Value};

/// A record before and after a statement.
#[derive(Debug)]
pub(in crate::resource) struct RecordChange<'a> {
    pub(in crate::resource) before: Option<&'a [Value]>,
    pub(in crate::resource) after: Option<&'a [Value]>,
}

impl AuditLog {
    /// Adds an entry for one record that an audited call has changed. Adds none if the record is
    /// equal before and after, or if the caller is the owner of the record by the permission of the
    /// route.
    ///
    /// # Errors
    /// If the store cannot write the entry.
    pub(in crate::resource) async fn record(
        &self,
        cx: &Cx,
        auditing: &Auditing,
        entity: &'static EntityDesc,
        change: RecordChange<'_>,
    ) -> Result<()> {
        let Some(record) = change
            .after
            .or(change.before)
            .filter(|_| change.before != change.after)
        else {
            return Ok(());
        };
        let owner = change
            .before
            .or(change.after)
            .and_then(|record| auditing.owner(entity, record));
        if owner.is_some_and(|owner| !owner.is_null() && *owner == cx.value(CtxPath::ActorId)) {
            return Ok(());
        }
        let (before, after) = changed(entity, &change);
        let tenant = entity
            .tenant
            .and_then(|tenant| text(record.get(tenant.field)?));
        let note = AuditNote {
            action: auditing.action.to_owned(),
            target_type: entity.name.to_owned(),
            target_id: record
                .get(entity.primary)
                .and_then(text)
                .unwrap_or_default(),
            resource: auditing.resource(entity, record).and_then(text),
            route: auditing.route.to_string(),
            tenant_id: tenant,
            before,
            after,
        };
        self.add(cx, note).await
    }
}

/// The readable fields that differ, before and after. Sensitive fields are left out.
fn changed(entity: &EntityDesc, change: &RecordChange<'_>) -> (Option<Json>, Option<Json>) {
    let at = |record: Option<&[Value]>, field: usize| {
        record.and_then(|record| record.get(field).cloned())
    };
    let recorded = |field: &usize| {
        let desc = &entity.fields[*field];
        desc.readable()
            && !desc.flags.has(Flags::SENSITIVE)
            && at(change.before, *field) != at(change.after, *field)
    };
    let fields: Vec<usize> = (0..entity.fields.len()).filter(recorded).collect();
    let side = |record: Option<&[Value]>| {
        record.map(|record| {
            let member = |field: &usize| {
                (
                    entity.fields[*field].wire.to_owned(),
                    json(entity, *field, &record[*field]),
                )
            };
            Json::Object(fields.iter().map(member).collect::<Map<_, _>>())
        })
    };
    (side(change.before), side(change.after))
}

/// A value in the form of responses.
fn json(entity: &EntityDesc, field: usize, value: &Value) -> Json {
    if let (true, Value::Int(key)) = (field == entity.primary, value) {
        // Ids are strings on the wire, for all key types.
        return Json::String(key.to_string());
    }
    let mut out = Vec::new();
    crate::json::write_value(value.as_ref(), &mut out);
    // The framework's own writer always produces valid JSON.
    serde_json::from_slice(&out).unwrap_or_default()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}
