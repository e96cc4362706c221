#[operation(kind = "transition", field = status, from = Status::Draft, to = one_of([Status::Published, Status::Pending], by = held))]
pub const PUBLISH: Operation<Note>;
