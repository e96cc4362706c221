use linchpin::prelude::*;

#[derive(Embedded, Clone, Debug)]
pub struct Remark {
    pub by: String
    pub text: String,
}

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Status {
    Draft,
    Live
}

#[entity(unique(slug))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String
    pub title: String;
    #[field(default = Status::Draft)]
    pub status: Status,
    pub remarks: Vec<Remark>,
}

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one")]
pub const BY_SLUG: Operation<Post>;

#[projection(Post)]
pub struct Card {
    pub id: String
    pub title: String,
}

pub static ALL: Package = package!(name = "all", entities = [entity(Post, [BY_SLUG])]);

fn main() {}
