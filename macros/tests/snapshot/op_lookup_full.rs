#[operation(
    kind = "lookup",
    fields(owner_id = param(owner_id), status = Status::Open),
    filter = (created_at < now() && (title.contains(param(q)) || tags.has("rust"))),
    optional_params(q),
    returns = "many",
    sort = desc(created_at),
    limit = 50,
    paginate,
)]
pub const BY_OWNER: Operation<Note>;
