#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Published, already = "ok")]
pub const PUBLISH: Operation<Note>;
