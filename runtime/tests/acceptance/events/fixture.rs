//! Entities with events, and entities without consumers.

use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    Draft,
    Published,
}

#[entity(namespace = "blog", version(required_on_write = false), unique(slug), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Article {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(default = Stage::Draft)]
    pub stage: Stage,
    #[field(default = 0)]
    pub views: i64,
    #[field(private)]
    pub secret: Option<String>,
    #[field(write_only)]
    pub pin: Option<String>,
    pub tags: Vec<String>,
}

#[operation(kind = "transition", field = stage, from = Stage::Draft, to = Stage::Published, route(event = "article.published"))]
pub const PUBLISH: Operation<Article>;

#[operation(kind = "increment", field = views, by = 2)]
pub const COUNT_VIEW: Operation<Article>;

#[operation(kind = "field_update", set(views))]
pub const SET_VIEWS: Operation<Article>;

#[operation(kind = "array_push", field = tags, value = param(tag))]
pub const TAG: Operation<Article>;

#[operation(kind = "array_pull", field = tags, value = param(tag))]
pub const UNTAG: Operation<Article>;

#[operation(kind = "array_set", field = tags, value = param(tags))]
pub const RETAG: Operation<Article>;

#[operation(kind = "computed_aggregate", source = Quiet, source_filter = (id != param(but)), compute = count(), target_match(id = param(id)), materialize_to = views)]
pub const TALLY: Operation<Article>;

#[operation(kind = "upsert", match(slug), set(views))]
pub const ENSURE: Operation<Article>;

#[operation(kind = "consume", filter = (slug == param(slug)), returns = "entity")]
pub const REDEEM: Operation<Article>;

#[operation(kind = "batch", action = "delete", filter = (views == param(views)))]
pub const CLEAR: Operation<Article>;

#[operation(kind = "batch", action = "update", filter = (views == param(views)), set(stage = Stage::Published))]
pub const PUBLISH_ALL: Operation<Article>;

#[operation(kind = "batch", action = "update", filter = (views == param(views)), set(pin = param(pin), secret = param(secret)))]
pub const REKEY: Operation<Article>;

/// An entity whose routes declare the content of their events.
#[entity(
    namespace = "help",
    soft_delete(closed_at),
    routes(
        auth = none,
        event(payload(id)),
        create(event(name = "ticket.opened", payload(id, title), include(open))),
        delete(event(name = "ticket.closed"))
    )
)]
#[derive(Clone, Debug)]
pub struct Ticket {
    #[field(primary)]
    pub id: String,
    pub title: String,
    #[field(default = true)]
    pub open: bool,
    #[field(private)]
    pub secret: Option<String>,
    pub closed_at: Option<Timestamp>,
}

#[operation(kind = "batch", action = "update", filter = (open == true), set(open = false), route(event(payload(id, open), expose = "records")))]
pub const CLOSE_ALL: Operation<Ticket>;

#[operation(kind = "batch", action = "delete", filter = (open == false), route(event(name = "tickets.swept", expose = "records")))]
pub const SWEEP: Operation<Ticket>;

#[operation(kind = "batch", action = "update", filter = (open == false), set(open = true))]
pub const REOPEN_ALL: Operation<Ticket>;

/// An entity without consumers.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Quiet {
    #[field(primary, default = uuid)]
    pub id: String,
}

/// Records with soft delete and an owner.
#[entity(tenant(team, optional), soft_delete(gone_at))]
#[derive(Clone, Debug)]
pub struct Memo {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(private)]
    pub team: Option<String>,
    pub text: String,
    pub gone_at: Option<Timestamp>,
}

/// An entity whose tenants are numbers.
#[entity(tenant(house, optional), version(required_on_write = false))]
#[derive(Clone, Debug)]
pub struct Bill {
    #[field(primary)]
    pub id: String,
    #[field(private)]
    pub house: Option<i64>,
    #[field(default = 0)]
    pub paid: i64,
}

#[operation(kind = "increment", field = paid)]
pub const PAY: Operation<Bill>;

#[operation(kind = "batch", action = "update", filter = (paid == param(paid)), set(paid = 9), route(event(expose = "records")))]
pub const SETTLE: Operation<Bill>;

/// A member of a crew.
#[derive(Embedded, Clone, Debug)]
pub struct Sailor {
    pub id: String,
}

/// An entity whose items are changed one by one.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Crew {
    #[field(primary)]
    pub id: String,
    pub sailors: Vec<Sailor>,
}

#[operation(kind = "collection", field = sailors, operations(list, add, remove))]
pub const SAILORS: Operation<Crew>;

/// A record that is visible to its recipient, and to callers who see its shelf.
#[entity(
    gate(shelf_id -> Shelf),
    visible(reader == ctx(actor.id) || hushed == false),
    action("write", sealed == false),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Volume {
    #[field(primary)]
    pub id: String,
    #[field(private, default = "s")]
    pub shelf_id: String,
    #[field(private)]
    pub reader: Option<String>,
    #[field(private, default = false)]
    pub hushed: bool,
    #[field(private, default = false)]
    pub sealed: bool,
    #[field(private)]
    pub note: Option<String>,
}

#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Shelf {
    #[field(primary)]
    pub id: String,
}

pub static NEWS: Package = package!(
    name = "news",
    entities = [
        entity(
            Article,
            [
                PUBLISH,
                COUNT_VIEW,
                SET_VIEWS,
                TAG,
                UNTAG,
                RETAG,
                TALLY,
                ENSURE,
                REDEEM,
                CLEAR,
                PUBLISH_ALL,
                REKEY
            ]
        ),
        entity(Ticket, [CLOSE_ALL, SWEEP, REOPEN_ALL]),
        entity(Quiet, []),
        entity(Memo, []),
        entity(Bill, [PAY, SETTLE]),
        entity(Crew, [SAILORS]),
        entity(Volume, []),
        entity(Shelf, []),
    ]
);

pub static SILENT: Package = package!(name = "silent", entities = [entity(Quiet, [])]);
