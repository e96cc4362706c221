/// Notes of a status, and all of the caller's.
#[operation(
    kind = "derive",
    source(Note, where = (status == param(status))),
    source(Note, where = (owner_id == ctx(actor.id))),
    merge = "priority",
)]
pub const FEED: Operation<Note>;
