/// Gives a note another secret.
#[operation(kind = "field_update", set(title), route(idempotent, output_once(secret: String, expires_at: Timestamp)))]
pub const ROTATE: Operation<Note>;
