/// Counts a view. The policy has every requirement for the caller.
#[operation(
    kind = "increment",
    field = views,
    route(
        auth = "bearer",
        roles = [Role::Admin, Role::Editor],
        guards(require_mfa, require_step_up(300)),
        permission(requires = "write", or = ["moderate"], owner_field = owner_id, resource = title, hide),
        middleware = [around::audit, "counted"],
    ),
)]
pub const VIEW: Operation<Note>;
