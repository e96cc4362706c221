/// Whether a note with this title exists.
#[operation(kind = "exists", fields(title = param(title)), check(status = Status::Open))]
pub const TITLE_TAKEN: Operation<crate::notes::Note>;
