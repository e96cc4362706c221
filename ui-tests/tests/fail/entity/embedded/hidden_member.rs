use linchpin::prelude::*;

#[derive(Embedded)]
pub struct Member {
    pub name: String,
    #[field(private)]
    pub note: Option<String>,
    #[field(write_only, default = "")]
    pub password: String,
}

#[entity]
pub struct Team {
    #[field(primary)]
    pub id: String,
    pub members: Vec<Member>,
}

fn main() {}
