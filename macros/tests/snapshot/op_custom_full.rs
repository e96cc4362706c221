/// The notes nearest to one.
#[operation(
    kind = "custom",
    http(path = "{id}/near"),
    params(most: Option<i64>),
    input = Point,
    output = Vec<Note>,
    handler(sqlite = near_sqlite, postgres = geo::near),
    route(auth = "userAuth"),
)]
pub const NEAR: Operation<Note>;
