#[operation(
    kind = "aggregate",
    compute(
        total = count(),
        open = count(status == Status::Open),
        seen = sum(views, where = views > 0),
        mean = avg(views),
        newest = max(created_at),
        by_status = count_by(status),
    ),
    filter = (owner_id == param(owner_id)),
    optional_params(owner_id),
)]
pub const STATS: Operation<Note>;
