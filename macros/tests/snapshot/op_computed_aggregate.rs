/// Writes the number of notes of an owner.
#[operation(
    kind = "computed_aggregate",
    source = Note,
    source_filter = (owner_id == param(owner_id)),
    compute = count(),
    target_match(id = param(id)),
    materialize_to = views,
    atomic,
)]
pub const RECOUNT: Operation<Note>;
