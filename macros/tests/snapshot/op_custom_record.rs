/// The notes that are nearest to a given note.
#[operation(kind = "custom", http(path = "{id}/near"), input = Point, output = Vec<Note>, handler(postgres = geo::near))]
pub const NEAR: Operation<Note>;
