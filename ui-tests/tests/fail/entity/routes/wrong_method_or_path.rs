use linchpin::prelude::*;

#[entity(routes(auth = none, create(method = "GET"), list(method = "POST"), update(method = "DELETE"), delete(method = "GONE")))]
pub struct Methods {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(routes(auth = none, create(path = "{id}"), list(path = "of/{author_id}"), get(path = "{slug}/card"), delete(path = "gone")))]
pub struct Paths {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub author_id: String,
}

#[entity(routes(auth = none, method = "PUT", path = "all", description = "Of them all."))]
pub struct Defaults {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(routes(auth = none, get(pth = "{id}"), list(path = 7), update(path = "{id}/a?b")))]
pub struct Shapes {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
