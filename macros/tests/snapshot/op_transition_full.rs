/// Closes a note of the caller.
#[operation(
    kind = "transition",
    field = status,
    from = [Status::Open, Status::Waiting],
    to = Status::Closed,
    match(id = param(id), owner_id = ctx(actor.id)),
    set(title = param(title), due_at = None),
    route(roles = ["editor"]),
)]
pub const CLOSE: Operation<Note>;
