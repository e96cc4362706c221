/// Whether a note with this title exists.
#[operation(kind = "exists", fields(title = param(title)))]
pub const TITLE_TAKEN: Operation<Note>;
