//! Audit entries for the actions of managers on endpoints and deliveries.

use std::sync::Arc;

use linchpin::audit::{AuditLog, AuditNote};
use linchpin::http::PluginCall;
use linchpin::{Cx, Error, Result};
use serde_json::Value as Json;

/// The target of an action.
pub(super) struct Target<'a> {
    /// The name of the entity.
    pub(super) entity: &'static str,
    pub(super) id: &'a str,
    pub(super) tenant: Option<&'a str>,
}

/// The context of the caller without the automatic audit of records: each action writes one
/// explicit entry.
pub(super) fn caller(call: &PluginCall) -> Result<Cx> {
    let actor = call.cx.get_actor().ok_or_else(Error::unauthorized)?;
    let request = Arc::from(call.cx.request_id());
    Ok(Cx::new(Arc::clone(actor), call.cx.now(), request))
}

/// Adds an entry. It is part of the transaction of `cx`.
pub(super) async fn add(
    call: &PluginCall,
    cx: &Cx,
    action: &'static str,
    target: Target<'_>,
    (before, after): (Option<Json>, Option<Json>),
) -> Result<()> {
    let log = call.adapters.provided::<AuditLog>()?;
    let note = AuditNote {
        action: action.to_owned(),
        target_type: target.entity.to_owned(),
        target_id: target.id.to_owned(),
        resource: None,
        route: action.to_owned(),
        tenant_id: target.tenant.map(str::to_owned),
        before,
        after,
    };
    log.add(cx, note).await
}
