//! The audit of a call: the record before and after, and the entry about both.

use linchpin_core::policy::PermissionDesc;
use serde_json::{Map, Value as Json};

use super::{AuditLog, AuditNote};
use crate::entity::{EntityDesc, Flags};
use crate::filter::CtxPath;
use crate::{Cx, Result, Value};

/// The audit declaration of a mounted route.
#[derive(Clone, Debug)]
pub(crate) struct Auditing {
    log: AuditLog,
    action: &'static str,
    route: Box<str>,
    /// The storage name of the route's entity, and the positions of the fields in its permission.
    of: Option<Permitted>,
}

#[derive(Clone, Copy, Debug)]
struct Permitted {
    entity: &'static str,
    owner: Option<usize>,
    resource: Option<usize>,
}

/// A record before and after a statement.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) before: Option<&'a [Value]>,
    pub(crate) after: Option<&'a [Value]>,
}

impl Auditing {
    pub(crate) fn new(
        log: AuditLog,
        action: &'static str,
        route: &str,
        entity: Option<&'static EntityDesc>,
        permission: Option<&PermissionDesc>,
    ) -> Self {
        let of = entity.zip(permission).map(|(entity, permission)| {
            let position = |name: Option<&str>| {
                name.and_then(|name| entity.fields.iter().position(|field| field.name == name))
            };
            Permitted {
                entity: entity.storage_name,
                owner: position(permission.owner_field),
                resource: position(permission.resource),
            }
        });
        Self {
            log,
            action,
            route: route.into(),
            of,
        }
    }

    /// Adds an entry for one record, unless nothing has changed, or the owner made a change that
    /// owners may make.
    ///
    /// # Errors
    /// If the store cannot write the entry.
    pub(crate) async fn tell(
        &self,
        cx: &Cx,
        entity: &'static EntityDesc,
        seen: Seen<'_>,
    ) -> Result<()> {
        let Some(record) = seen
            .after
            .or(seen.before)
            .filter(|_| seen.before != seen.after)
        else {
            return Ok(());
        };
        let of = self.of.filter(|of| of.entity == entity.storage_name);
        let owner = of.and_then(|of| seen.before.or(seen.after)?.get(of.owner?));
        if owner.is_some_and(|owner| !owner.is_null() && *owner == cx.value(CtxPath::ActorId)) {
            return Ok(());
        }
        let (before, after) = changed(entity, &seen);
        let tenant = entity
            .tenant
            .and_then(|tenant| text(record.get(tenant.field)?));
        let note = AuditNote {
            action: self.action.to_owned(),
            target_type: entity.name.to_owned(),
            target_id: record
                .get(entity.primary)
                .and_then(text)
                .unwrap_or_default(),
            resource: of.and_then(|of| text(record.get(of.resource?)?)),
            route: self.route.to_string(),
            tenant_id: tenant,
            before,
            after,
        };
        self.log.add(cx, note).await
    }
}

/// The readable fields that differ, before and after. Sensitive fields are left out.
fn changed(entity: &EntityDesc, seen: &Seen<'_>) -> (Option<Json>, Option<Json>) {
    let at = |record: Option<&[Value]>, field: usize| {
        record.and_then(|record| record.get(field).cloned())
    };
    let recorded = |field: &usize| {
        let desc = &entity.fields[*field];
        desc.readable()
            && !desc.flags.has(Flags::SENSITIVE)
            && at(seen.before, *field) != at(seen.after, *field)
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
    (side(seen.before), side(seen.after))
}

/// A value in the form of responses.
fn json(entity: &EntityDesc, field: usize, value: &Value) -> Json {
    if let (true, Value::Int(key)) = (field == entity.primary, value) {
        // Ids are strings on the wire, for all key types.
        return Json::String(key.to_string());
    }
    let mut out = Vec::new();
    crate::json::write_value(value.as_ref(), &mut out);
    // Our own writer always produces valid JSON.
    serde_json::from_slice(&out).unwrap_or_default()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}
