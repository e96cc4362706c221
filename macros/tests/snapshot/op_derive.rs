/// Titles of the caller's notes, those of one status first.
#[operation(
    kind = "derive",
    source(Note, where = (owner_id == ctx(actor.id) && status == param(status)), select = title),
    source(Note, where = (owner_id == ctx(actor.id)), select = title),
    merge = "priority",
)]
pub const TITLES: Operation<Note>;
