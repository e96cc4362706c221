/// Whether somebody has a note of this title.
#[operation(kind = "exists", fields(title = param(title)), check(status = Status::Open))]
pub const TITLE_TAKEN: Operation<crate::notes::Note>;
