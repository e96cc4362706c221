//! An entry of the log: an entity of our own, in the store of the app.

use linchpin_macros::entity;

use crate::Timestamp;

/// What one call did to one record.
#[entity(
    namespace = "linchpin",
    index(desc(created_at)),
    index(action, desc(created_at)),
    index(actor_id, desc(created_at)),
    index(target_id, desc(created_at)),
    index(resource, desc(created_at)),
    sort = desc(created_at),
    pagination(default = 50, max = 200),
    tenant(tenant_id, optional),
    ttl(expires_at),
    routes(disabled)
)]
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Its key; ascending.
    #[field(primary, default = uuid)]
    pub id: String,
    /// What the policy of the route calls it: `lock`.
    pub action: String,
    /// Who called; null for the application itself and for callers nobody knows.
    pub actor_id: Option<String>,
    /// `user`, `service`, `anonymous`, `system`, or a kind of a plugin's own.
    pub actor_kind: String,
    /// The tenant of the record, or else of who called.
    pub tenant_id: Option<String>,
    /// The entity whose record it is, by its name: `Post`.
    pub target_type: String,
    /// The key of the record.
    pub target_id: String,
    /// What the permission of the route is judged by: the value of its `resource` in the record.
    pub resource: Option<String>,
    /// `create`, `update`, `delete`, or the name of the operation or route.
    pub route: String,
    /// The readable fields that the call changed, as they were; null for a new record.
    pub before: Option<serde_json::Value>,
    /// The same fields as they are now; null for a record that is gone.
    pub after: Option<serde_json::Value>,
    /// The request, as in `x-request-id`; empty outside of HTTP.
    pub request_id: String,
    /// The instant of the call.
    #[field(default = now)]
    pub created_at: Timestamp,
    /// When it is removed; null is never.
    #[serde(skip)]
    #[field(private)]
    pub expires_at: Option<Timestamp>,
}
