/// Notes that contain a text.
#[operation(kind = "search", fields(title, owner_id), paginate)]
pub const FIND: Operation<Note>;
