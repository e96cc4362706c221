use linchpin::prelude::*;

/// The entity of the other declarations. No message points at it.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Author {
    #[field(primary)]
    pub id: String,
}

#[entity(
    index(desc()),
    unique(slug,),
    version(field = ),
    ttl(=),
    belongs_to(author: ),
    gate(author_id -> ),
    counter(Author.),
    scope(author_id = , apply_to(get)),
    routes(get(auth = )),
)]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = )]
    pub id: String,
    #[field(length = 1.., default = "a" + )]
    pub slug: String,
    pub author_id: String,
    #[field(read_only, default = )]
    pub views: i64,
    #[field(computed(length, from()))]
    pub size: i64,
}

fn main() {}
