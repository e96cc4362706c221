use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status { Draft, Published }

pub type Money = i64;

#[entity(unique(slug), unique(author_id, title), routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub title: String,
    pub author_id: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0)]
    pub views: i64,
    #[field(default = 0)]
    pub price: Money,
    pub meta: serde_json::Value,
    #[field(private, default = "")]
    pub secret: String,
    pub tags: Vec<String>,
    pub published_at: Option<Timestamp>,
    #[field(immutable)]
    pub origin: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

#[operation(
    kind = "batch",
    action = "update",
    filter = (views > param(least, default = "much") && title == param(title, default = now()) && price < param(most, default = Status::Draft)),
    set(title = input(to, default = "x"), published_at = param(at, default = None)),
)]
pub const WRONG_VALUES: Operation<Post>;

#[operation(kind = "batch", action = "delete", filter = (views > param(least, default = 3) && views != param(least, default = 4)))]
pub const TWO_DEFAULTS: Operation<Post>;

#[operation(kind = "batch", action = "delete", filter = (slug == param(slug, default = ctx(actor.id)) && title.one_of(param(titles, default = "a"))))]
pub const NO_DEFAULTS: Operation<Post>;

#[operation(kind = "consume", filter = (slug == param(slug, fallback = "x") && title == param(title, default)), returns = "boolean")]
pub const NO_SUCH_KEY: Operation<Post>;

#[operation(kind = "field_update", set(title), match(id = param(id, default = "a")))]
pub const IN_THE_PATH: Operation<Post>;

fn main() {}
