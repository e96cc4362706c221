/// Adds a tag.
#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const ADD_TAG: Operation<Note>;
