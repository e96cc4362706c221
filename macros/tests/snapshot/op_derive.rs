/// Notes with a status, and all notes of the caller.
#[operation(
    kind = "derive",
    source(Note, where = (status == param(status))),
    source(Note, where = (owner_id == ctx(actor.id))),
    merge = "priority",
)]
pub const FEED: Operation<Note>;
