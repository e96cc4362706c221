//! The entity of audit entries, in the store of the app.

use linchpin_macros::entity;

use crate::Timestamp;

/// A change that one call made to one record.
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
    /// The key of the entry; ascending.
    #[field(primary, default = uuid)]
    pub id: String,
    /// The action in the policy of the route, for example `lock`.
    pub action: String,
    /// The caller; null for the application itself and for anonymous callers.
    pub actor_id: Option<String>,
    /// `user`, `service`, `anonymous`, `system`, or a kind that a plugin defines.
    pub actor_kind: String,
    /// The tenant of the record, or else the tenant of the caller.
    pub tenant_id: Option<String>,
    /// The name of the record's entity, for example `Post`.
    pub target_type: String,
    /// The key of the record.
    pub target_id: String,
    /// The resource for the permission of the route: the value of the record's field that the
    /// policy names as `resource`.
    pub resource: Option<String>,
    /// `create`, `update`, `delete`, or the name of the operation or route.
    pub route: String,
    /// The readable fields that the call changed, before the change; null for a new record.
    pub before: Option<serde_json::Value>,
    /// The same fields after the change; null for a deleted record.
    pub after: Option<serde_json::Value>,
    /// The request id, as in `x-request-id`; empty outside of HTTP.
    pub request_id: String,
    /// The instant of the call.
    #[field(default = now)]
    pub created_at: Timestamp,
    /// The time of removal; null means never.
    #[serde(skip)]
    #[field(private)]
    pub expires_at: Option<Timestamp>,
}
