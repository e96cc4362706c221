/// Notes that contain a text.
#[operation(
    kind = "search",
    fields(title, owner_id),
    filter = (status == Status::Open && tags.has(param(tag))),
    optional_params(tag),
    paginate,
)]
pub const FIND: Operation<Note>;
