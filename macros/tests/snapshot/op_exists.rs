/// Whether somebody has a note of this title.
#[operation(kind = "exists", fields(title = param(title)))]
pub const TITLE_TAKEN: Operation<Note>;
