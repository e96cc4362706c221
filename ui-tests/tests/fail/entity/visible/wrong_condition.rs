use linchpin::prelude::*;

const LATER: &str = "later";

#[entity(visible(title))]
pub struct NoCondition {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[entity(visible(live, title == "x"))]
pub struct Two {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub live: bool,
}

#[entity(visible(titel == "x" || live == 1 || at <= LATER || id == now() || title == param(title) && title.one_of([input(x), uuid()])))]
pub struct Wrong {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub live: bool,
    pub at: Timestamp,
}

#[entity(visible(true), action("read", live == ctx(actor.id) || title == ctx(actor.mail)))]
pub struct Always {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub live: bool,
}

#[entity(visible(title == "a" && title == "b"))]
pub struct Never {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

fn main() {}
