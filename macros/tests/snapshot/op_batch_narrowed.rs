/// Removes the notes created before a time, optionally only those with a given number of views.
#[operation(
    kind = "batch",
    action = "delete",
    filter = (created_at < param(at, default = now()) && views == param(views)),
    optional_params(views),
)]
pub const SWEEP: Operation<Note>;
