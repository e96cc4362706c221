/// The notes of an owner, page by page.
#[operation(
    kind = "lookup",
    fields(owner_id = param(owner_id)),
    returns = "many",
    strict_params,
    sorts(new(desc(views), desc(created_at)), by_title(title)),
    paginate = "page",
)]
pub const OF_OWNER: Operation<Note>;
