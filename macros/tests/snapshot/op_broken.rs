#[operation(kind = "transition", field = status, from = Status::Open, to = Status::Open, retruns = "boolean", set(titel = now()))]
pub const CLOSE: Operation<Note>;
