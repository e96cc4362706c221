use linchpin::prelude::*;

#[entity(search(fields(title = 1)))]
pub struct NoProvider {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[entity(search(provider = "words"))]
pub struct NoFields {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(search(provider = "", fields(), fallback = "yes"))]
pub struct Empty {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(search(provider = "words", felds(title = 1)))]
pub struct Misspelt {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[entity(search = "words")]
pub struct NoList {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
