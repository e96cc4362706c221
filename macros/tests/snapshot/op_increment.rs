#[operation(kind = "increment", field = views, by = 5)]
pub const VIEW: Operation<Note>;
