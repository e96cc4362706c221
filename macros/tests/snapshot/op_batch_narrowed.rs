/// Removes what is there by now, of one count of views if the call names one.
#[operation(
    kind = "batch",
    action = "delete",
    filter = (created_at < param(at, default = now()) && views == param(views)),
    optional_params(views),
)]
pub const SWEEP: Operation<Note>;
