/// A draft of a tenant. It expires after a week.
#[entity(
    soft_delete(status = Status::Gone),
    ttl("7d"),
    tenant(tenant_id, optional, anonymous_read),
    scope(owner_id = ctx(actor.id), apply_to(create, update, delete)),
    scope(folder_id = param(folder_id)),
    parent_path = "folders/:folder_id",
)]
pub struct Draft {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: Option<String>,
    pub owner_id: String,
    pub folder_id: i64,
    #[field(default = Status::Live)]
    pub status: Status,
    #[field(default = ctx(actor.claims.team))]
    pub team: Option<String>,
}
