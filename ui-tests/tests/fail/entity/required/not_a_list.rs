use linchpin::prelude::*;

#[derive(Embedded, Clone, Debug)]
pub struct Line {
    #[field(required)]
    pub text: String,
    #[field(required)]
    pub marks: Option<Vec<String>>,
}

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(required)]
    pub rank: i64,
    #[field(required, default = ["new"])]
    pub tags: Vec<String>,
    #[field(required, read_only)]
    pub lines: Vec<Line>,
    #[field(required, private)]
    pub notes: Vec<String>,
}

fn main() {}
