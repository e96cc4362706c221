/// The notes nearest to one.
#[operation(kind = "custom", http(path = "{id}/near"), input = Point, output = Vec<Note>, handler(postgres = geo::near))]
pub const NEAR: Operation<Note>;
