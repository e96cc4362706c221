/// The note with this title.
#[operation(kind = "lookup", fields(title = param(title)), returns = "one", route(auth = none))]
pub const BY_TITLE: Operation<Note>;
