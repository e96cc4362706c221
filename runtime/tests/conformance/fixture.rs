//! Entities that together have every type, option and kind; with and without tenant, data scope, soft delete, expiry, version.
#![allow(missing_docs, dead_code)] // a fixture: nobody calls its methods, the differential test reads its descriptors

use linchpin::prelude::*;

use super::listed::{TOPIC_AT, TOPIC_BACK, TOPIC_PAGES, TOPIC_PIN, TOPIC_PUT, TOPIC_TAG, TOPIC_UP, TOPICS_MOVE, TOPICS_OF, Topic};
use super::related::{
    ADD_FIVE, CLAIM, CLEAR, CLOSE_PROJECT, Case, DISMISS, Desk, FINISH, Finding, HAND_OVER, HEAVIEST, Job, LEASE, LOST, MEMOS_OF, MOVE_TO,
    Memo, Node, OF_CONTAINER, ORDER, Order, PEOPLE_NAMED, Paper, Parcel, Person, Project, READ, READERS, REASSIGN, RELEASE, RETITLE,
    REVIVE, SEND, SEND_ALL, SEND_PARCELS, SUBMIT, TITLED, TRASH, Thread, Ticket, VOID_PROJECT, WEIGH, WITHDRAW, WRITE,
};

use super::seen::{
    BRANCHES, BY_SHELF, Branch, CATALOGUE, COUNT_VOLUMES, DISCARD, LEAF_THROUGH, LEND, LENT_ONES, Leaf, NAME_TAKEN, OPEN_VOLUME, POSTPONE,
    REOPEN, SEAL, SHELVE, SHUT, STAMP_ALL, STEAL, Shelf, Volume, WORTH_READING,
};

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum State {
    Draft,
    Live,
    Gone,
}

/// An item with a key that the server makes.
#[derive(Embedded, Clone, Debug, PartialEq)]
pub struct Line {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 1..=40)]
    pub note: String,
    #[field(default = 0)]
    pub rank: i64,
    pub ratio: Option<f64>,
    pub at: Option<Timestamp>,
}

/// An item with a key that the client chooses.
#[derive(Embedded, Clone, Debug, PartialEq)]
pub struct Seat {
    pub number: i64,
    pub taken: bool,
    pub by: Option<String>,
}

fn few_views(sample: &Sample) -> std::result::Result<(), Problem> {
    if sample.views < 900 { Ok(()) } else { Err(Problem::new("views", "check", "must stay below 900")) }
}

/// Everybody's: every type and most options of fields.
#[entity(
    namespace = "diff",
    unique(slug),
    unique(code, state),
    index(category, desc(rank)),
    index(due_at),
    sort = desc(rank),
    pagination(default = 3, max = 200),
    check = few_views,
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Sample {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = ..=40)]
    pub slug: String,
    #[field(filterable, sortable)]
    pub title: Option<String>,
    pub category: Option<String>,
    pub code: Option<String>,
    #[field(default = State::Draft, sortable)]
    pub state: State,
    #[field(default = 0)]
    pub rank: i64,
    #[field(default = 0, range = -5..=1000, filterable)]
    pub views: i64,
    #[field(filterable, sortable)]
    pub big: Option<i64>,
    #[field(filterable, sortable)]
    pub ratio: Option<f64>,
    /// Values too far apart to be summed in any order.
    #[field(filterable, sortable)]
    pub wide: Option<f64>,
    pub live: Option<bool>,
    pub due_at: Option<Timestamp>,
    #[field(filterable)]
    pub tags: Option<Vec<String>>,
    #[field(items = ..=3, unique_items, each(length = 1..=20), filterable)]
    pub few: Vec<String>,
    pub meta: Option<serde_json::Value>,
    #[field(items = ..=4)]
    pub lines: Vec<Line>,
    #[field(format = "email", column = "mail")]
    pub email: Option<String>,
    #[field(one_of("good", "bad"), default = "good")]
    pub mood: Option<String>,
    #[field(immutable)]
    pub origin: Option<String>,
    #[field(private)]
    pub secret: Option<String>,
    #[field(write_only)]
    pub pin: Option<String>,
    #[field(read_only)]
    pub published_at: Option<Timestamp>,
    #[field(default = cuid)]
    pub token: String,
    #[field(default = now, client_set)]
    pub made_at: Timestamp,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

#[operation(kind = "transition", field = state, from = State::Draft, to = State::Live, set(published_at = now(), title = param(headline)))]
pub const PUBLISH: Operation<Sample>;

#[operation(kind = "transition", field = state, from = [State::Draft, State::Live], to = State::Gone, returns = "boolean")]
pub const DROP_IT: Operation<Sample>;

/// By what the record holds, and by what others hold.
async fn place(call: ChooserCall<Sample>) -> Result<State> {
    match call.record() {
        sample if sample.views > 2 => Ok(State::Gone),
        sample if sample.live == Some(false) => Err(Error::new(linchpin::Code::Conflict, "it is not alive")),
        sample => {
            let category = sample.category.as_ref().map_or(Param::Null, |category| Param::from(category.as_str()));
            let others = call.adapter::<Sample>()?.drafts(call.cx(), category, PageArgs::default()).await?;
            Ok(if others.items.len() > 1 { State::Gone } else { State::Live })
        }
    }
}

#[operation(
    kind = "transition",
    field = state,
    from = State::Draft,
    to = one_of([State::Live, State::Gone], by = place),
    set(published_at = now(), title = param(headline)),
    already = "ok",
)]
pub const PLACE: Operation<Sample>;

#[operation(kind = "transition", field = live, from = true, to = false, match(slug = param(slug)))]
pub const SILENCE: Operation<Sample>;

#[operation(kind = "field_update", set(title, due_at, ratio), partial, nullable)]
pub const REVISE: Operation<Sample>;

#[operation(kind = "field_update", match(id = param(id), state = State::Draft), set(slug, state))]
pub const DECIDE: Operation<Sample>;

#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const TAG: Operation<Sample>;

#[operation(kind = "array_push", field = few, value = input(tag))]
pub const ADD_FEW: Operation<Sample>;

#[operation(kind = "array_push", field = tags, value = input(tag), dedupe = false)]
pub const APPEND: Operation<Sample>;

#[operation(kind = "array_pull", field = tags, value = param(tag))]
pub const UNTAG: Operation<Sample>;

#[operation(kind = "array_pull", field = few, value = input(tag))]
pub const REMOVE: Operation<Sample>;

#[operation(kind = "array_set", field = tags, value = input(tags))]
pub const RETAG: Operation<Sample>;

#[operation(kind = "array_set", field = few, value = input(few))]
pub const REFEW: Operation<Sample>;

#[operation(kind = "increment", field = views, by = 3)]
pub const VIEW: Operation<Sample>;

#[operation(kind = "increment", field = big, by = -7)]
pub const SINK: Operation<Sample>;

#[operation(kind = "increment", field = ratio, by = 0.5)]
pub const RAISE: Operation<Sample>;

#[operation(
    kind = "aggregate",
    compute(
        n = count(),
        drafts = count(state == State::Draft),
        sum = sum(views),
        mean = avg(ratio, where = ratio > param(over)),
        total = sum(ratio),
        low = min(wide),
        high = max(due_at),
        first = min(title),
        by = count_by(category),
        lives = count_by(live),
        ranks = count_by(rank),
    ),
    filter = (category != param(without) || tags.has(param(tag))),
    optional_params(without, over, tag),
)]
pub const STATS: Operation<Sample>;

#[operation(kind = "aggregate", group_by = category, compute(n = count(), mean = avg(views), last = max(title)))]
pub const BY_CATEGORY: Operation<Sample>;

#[operation(kind = "aggregate", group_by = state, compute(n = count(), sum = sum(rank), by = count_by(mood)))]
pub const BY_STATE: Operation<Sample>;

macro_rules! periods {
    ($($name:ident $period:ident),*) => {$(
        #[operation(kind = "aggregate", group_by = $period(due_at), compute(n = count(), views = sum(views)))]
        pub const $name: Operation<Sample>;
    )*};
}
periods!(BY_YEAR year, BY_MONTH month, BY_WEEK week, BY_DAY day, BY_HOUR hour);

#[operation(
    kind = "batch",
    action = "update",
    filter = (rank >= param(least) && (category == param(category) || (tags.has(param(tag)) && (title.is_none() || ratio < 1.0)))),
    set(live = true, mood = param(mood)),
)]
pub const WAKE: Operation<Sample>;

#[operation(kind = "batch", action = "update", filter = (rank >= param(least)), set(mood = "good", live = true))]
pub const FRESHEN: Operation<Sample>;

/// What is left out has a value of its own, or narrows nothing.
#[operation(
    kind = "batch",
    action = "update",
    filter = (rank >= param(least, default = 1)
        && made_at <= param(until, default = now())
        && category == param(category)
        && (tags.has(param(tag)) && views < param(below))),
    optional_params(category, tag, below),
    set(live = param(live, default = true), mood = param(mood)),
)]
pub const NARROW: Operation<Sample>;

#[operation(kind = "batch", action = "delete", filter = (rank > param(over, default = 3) && title == param(title)), optional_params(title))]
pub const PRUNE: Operation<Sample>;

#[operation(
    kind = "lookup",
    fields(state = param(state, default = State::Draft)),
    filter = (made_at <= param(until, default = now()) && rank >= param(least, default = 1)),
    returns = "many",
    paginate,
)]
pub const BY_DEFAULT: Operation<Sample>;

#[operation(kind = "batch", action = "update", filter = (category == param(category)), set(slug = param(slug)), atomic)]
pub const RESLUG: Operation<Sample>;

#[operation(kind = "batch", action = "delete", filter = (category == param(category) || title == param(title) || live == false), returns = "void")]
pub const SWEEP: Operation<Sample>;

#[operation(kind = "upsert", match(slug), set(title, category, views), on_create(rank = 7), returns = "created")]
pub const ENSURE: Operation<Sample>;

#[operation(kind = "upsert", match(slug), set(state, meta, few))]
pub const PUT: Operation<Sample>;

#[operation(kind = "search", fields(title, category))]
pub const FIND: Operation<Sample>;

#[operation(kind = "search", fields(title), filter = (state == param(state) && tags.has(param(tag))), optional_params(state, tag), paginate)]
pub const FIND_PAGE: Operation<Sample>;

#[operation(kind = "consume", filter = (category == param(category) || code == param(code)), returns = "entity", expiry = due_at)]
pub const TAKE: Operation<Sample>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one")]
pub const BY_SLUG: Operation<Sample>;

#[operation(kind = "lookup", fields(category = param(category), state = State::Draft), returns = "many", sort = asc(title), paginate)]
pub const DRAFTS: Operation<Sample>;

#[operation(
    kind = "lookup",
    fields(category = param(category), title = param(title), live = param(live)),
    filter = (rank.one_of(param(ranks)) || big != 5 || due_at <= now()),
    optional_params(ranks),
    returns = "many",
)]
pub const LIKE: Operation<Sample>;

#[operation(kind = "exists", fields(slug = param(slug)))]
pub const SLUG_TAKEN: Operation<Sample>;

#[operation(kind = "exists", fields(category = param(category), rank = param(rank)), check(state = State::Draft))]
pub const DRAFT_AT: Operation<Sample>;

#[operation(kind = "collection", field = lines, operations(list, add, remove, update, set), max_items = 3)]
pub const LINES: Operation<Sample>;

#[operation(kind = "derive", source(Sample, where = (title == param(of)), select = title), source(Account, select = title), merge = "union", optional_params(of))]
pub const TITLES: Operation<Sample>;

#[operation(kind = "derive", source(Sample, where = (state == State::Live)), source(Sample, where = (views > param(over))), merge = "priority")]
pub const BEST: Operation<Sample>;

#[operation(kind = "derive", source(Sample, select = tags), source(Sample, select = few), merge = "concat", flatten)]
pub const ALL_TAGS: Operation<Sample>;

/// A tenant's: versioned, deleted softly, unique within the tenant and beyond it.
#[entity(
    namespace = "diff",
    tenant(tenant_id),
    soft_delete(deleted_at),
    version(required_on_write = false),
    unique(slug),
    unique(serial, global),
    index(title),
    sort = asc(made_at),
    pagination(default = 2, max = 200),
)]
#[derive(Clone, Debug)]
pub struct Account {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: String,
    pub slug: String,
    pub serial: Option<String>,
    #[field(sortable)]
    pub title: Option<String>,
    #[field(default = State::Draft)]
    pub state: State,
    #[field(default = 0, filterable, sortable)]
    pub views: i64,
    pub tags: Vec<String>,
    pub seats: Vec<Seat>,
    #[field(default = 0)]
    pub notes: i64,
    pub mean: Option<f64>,
    pub numbers: Option<serde_json::Value>,
    #[field(default = ctx(actor.id))]
    pub author_id: String,
    pub deleted_at: Option<Timestamp>,
    #[field(default = now)]
    pub made_at: Timestamp,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

#[operation(kind = "transition", field = state, from = State::Draft, to = State::Live)]
pub const OPEN: Operation<Account>;

#[operation(kind = "increment", field = views)]
pub const COUNT: Operation<Account>;

#[operation(kind = "field_update", set(title), match(slug = param(slug)), nullable)]
pub const RENAME: Operation<Account>;

#[operation(kind = "array_push", field = tags, value = ctx(actor.id))]
pub const FOLLOW: Operation<Account>;

#[operation(kind = "lookup", fields(title = param(title)), returns = "many", paginate)]
pub const BY_TITLE: Operation<Account>;

#[operation(
    kind = "lookup",
    fields(state = State::Draft),
    filter = (title.contains(param(part)) && slug.one_of(param(slugs))),
    returns = "many",
    route(method = "POST"),
)]
pub const HUNT: Operation<Account>;

#[operation(kind = "exists", fields(serial = param(serial)))]
pub const SERIAL_TAKEN: Operation<Account>;

#[operation(kind = "aggregate", group_by = author_id, compute(n = count(), seen = sum(views)))]
pub const BY_AUTHOR: Operation<Account>;

#[operation(kind = "search", fields(title))]
pub const SEARCH: Operation<Account>;

#[operation(kind = "batch", action = "update", filter = (title == param(title) || views >= 3), set(state = State::Live))]
pub const OPEN_ALL: Operation<Account>;

#[operation(kind = "batch", action = "delete", filter = (slug == param(slug) || serial == param(serial)))]
pub const CLOSE_ALL: Operation<Account>;

#[operation(kind = "upsert", match(slug), set(title, serial), returns = "created")]
pub const ENROL: Operation<Account>;

#[operation(kind = "consume", filter = (title == param(title)), returns = "boolean")]
pub const CLOSE: Operation<Account>;

#[operation(kind = "collection", field = seats, operations(list, add, remove, update, set), identify_by = number, max_items = 2)]
pub const SEATS: Operation<Account>;

#[operation(
    kind = "computed_aggregate",
    source = Note,
    source_filter = (account_id == param(account_id)),
    compute = count(),
    target_match(id = param(account_id)),
    materialize_to = notes,
    atomic,
)]
pub const RECOUNT: Operation<Account>;

#[operation(
    kind = "computed_aggregate",
    source = Note,
    source_filter = (account_id == param(account_id) && points != param(but)),
    compute = avg(ratio),
    target_match(slug = param(slug)),
    materialize_to = mean,
)]
pub const REMEAN: Operation<Account>;

#[operation(
    kind = "computed_aggregate",
    source = Note,
    source_filter = (account_id == param(account_id)),
    compute(total = count(), most = max(points), least = min(points)),
    target_match(id = param(account_id)),
    materialize_to = numbers,
)]
pub const RENUMBER: Operation<Account>;

/// One's own, for ten seconds after the last change; the key is the client's.
#[entity(namespace = "diff", scope(owner_id = ctx(actor.id)), ttl("10s"), unique(slug), index(account_id), pagination(default = 2, max = 200))]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary)]
    pub id: String,
    pub owner_id: String,
    pub slug: String,
    pub account_id: Option<String>,
    #[field(default = 0)]
    pub points: i64,
    pub ratio: Option<f64>,
    #[field(default = State::Draft)]
    pub state: State,
    pub tags: Vec<String>,
}

#[operation(kind = "increment", field = points, by = 2)]
pub const POINT: Operation<Note>;

#[operation(kind = "transition", field = state, from = State::Draft, to = State::Live)]
pub const SHOW: Operation<Note>;

#[operation(kind = "lookup", fields(account_id = param(account_id)), returns = "many")]
pub const OF_ACCOUNT: Operation<Note>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", unscoped = "slugs are public within the house")]
pub const ANYBODYS: Operation<Note>;

#[operation(kind = "upsert", match(slug), set(points), on_create(id = param(key)))]
pub const JOT: Operation<Note>;

#[operation(kind = "consume", filter = (state == State::Live), returns = "entity")]
pub const TEAR: Operation<Note>;

#[operation(kind = "batch", action = "delete", filter = (points > param(over)))]
pub const CLEAN: Operation<Note>;

#[operation(kind = "derive", source(Note, traverse(Account, on = account_id)), source(Account, where = (views > 1)), merge = "union")]
pub const ACCOUNTS: Operation<Note>;

/// A tenant's or everybody's; it expires when it says; the key is a number.
#[entity(
    namespace = "diff",
    tenant(tenant_id, optional, anonymous_read),
    ttl(expires_at),
    unique(code),
    sort = desc(rank),
    pagination(default = 2, max = 200, unbounded_lookup = false),
    routes(list(auth = none), get(auth = none)),
)]
#[derive(Clone, Debug)]
pub struct Invite {
    #[field(primary)]
    pub id: i64,
    pub tenant_id: Option<String>,
    pub code: String,
    pub rank: Option<i64>,
    #[field(default = 0, range = ..=4)]
    pub uses: i64,
    pub expires_at: Option<Timestamp>,
}

#[operation(kind = "increment", field = uses)]
pub const USE: Operation<Invite>;

#[operation(kind = "exists", fields(code = param(code)), route(auth = none))]
pub const CODE_TAKEN: Operation<Invite>;

#[operation(kind = "consume", filter = (code == param(code) || rank == param(rank)), returns = "entity")]
pub const REDEEM: Operation<Invite>;

#[operation(kind = "upsert", match(id), set(code, rank, expires_at), returns = "created")]
pub const OFFER: Operation<Invite>;

#[operation(kind = "lookup", fields(rank = param(rank)), returns = "many", route(auth = none))]
pub const AT_RANK: Operation<Invite>;

/// Deleted records hold a value; a version is asked for; one's own to write, everybody's to read.
#[entity(
    namespace = "diff",
    scope(owner_id = ctx(actor.id), apply_to(create, update, delete, restate, ban)),
    soft_delete(state = State::Gone),
    version,
    unique(name),
    sort = desc(name),
    pagination(default = 2, max = 200),
    routes(list(auth = none), get(auth = none)),
)]
#[derive(Clone, Debug)]
pub struct Board {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub name: String,
    #[field(default = State::Draft)]
    pub state: State,
    #[field(default = false)]
    pub banned: bool,
}

#[operation(kind = "field_update", set(state))]
pub const RESTATE: Operation<Board>;

#[operation(kind = "transition", field = banned, from = false, to = true)]
pub const BAN: Operation<Board>;

/// Lives below a document of a team.
#[entity(
    namespace = "diff",
    parent_path = "teams/{team_id}/documents/{doc_id}",
    scope(team_id = param(team_id)),
    scope(doc_id = param(doc_id)),
    unique(text),
    pagination(default = 2, max = 200),
    routes(auth = none, create(input(text)), list(output(id, text))),
)]
#[derive(Clone, Debug)]
pub struct Comment {
    #[field(primary, default = uuid)]
    pub id: String,
    pub team_id: i64,
    pub doc_id: String,
    pub text: String,
    #[field(default = 0)]
    pub likes: i64,
}

#[operation(kind = "increment", field = likes)]
pub const THUMB: Operation<Comment>;

#[operation(kind = "lookup", fields(text = param(text)), returns = "many")]
pub const SAYING: Operation<Comment>;

pub static ALL: Package = package!(
    name = "diff",
    entities = [
        entity(
            Sample,
            [
                PUBLISH,
                DROP_IT,
                PLACE,
                SILENCE,
                REVISE,
                DECIDE,
                TAG,
                ADD_FEW,
                APPEND,
                UNTAG,
                REMOVE,
                RETAG,
                REFEW,
                VIEW,
                SINK,
                RAISE,
                STATS,
                BY_CATEGORY,
                BY_STATE,
                BY_YEAR,
                BY_MONTH,
                BY_WEEK,
                BY_DAY,
                BY_HOUR,
                WAKE,
                FRESHEN,
                NARROW,
                PRUNE,
                BY_DEFAULT,
                RESLUG,
                SWEEP,
                ENSURE,
                PUT,
                FIND,
                FIND_PAGE,
                TAKE,
                BY_SLUG,
                DRAFTS,
                LIKE,
                SLUG_TAKEN,
                DRAFT_AT,
                LINES,
                TITLES,
                BEST,
                ALL_TAGS,
            ]
        ),
        entity(
            Account,
            [
                OPEN,
                COUNT,
                RENAME,
                FOLLOW,
                BY_TITLE,
                HUNT,
                SERIAL_TAKEN,
                BY_AUTHOR,
                SEARCH,
                OPEN_ALL,
                CLOSE_ALL,
                ENROL,
                CLOSE,
                SEATS,
                RECOUNT,
                REMEAN,
                RENUMBER,
            ]
        ),
        entity(Note, [POINT, SHOW, OF_ACCOUNT, ANYBODYS, JOT, TEAR, CLEAN, ACCOUNTS]),
        entity(Invite, [USE, CODE_TAKEN, REDEEM, OFFER, AT_RANK]),
        entity(Board, [RESTATE, BAN]),
        entity(Comment, [THUMB, SAYING]),
        entity(Person, [DISMISS, RELEASE, PEOPLE_NAMED]),
        entity(Desk, []),
        entity(Memo, [REASSIGN, FINISH, WRITE, HAND_OVER, MEMOS_OF]),
        entity(Project, [CLOSE_PROJECT, VOID_PROJECT, REVIVE, TRASH, LOST]),
        entity(Ticket, []),
        entity(Node, []),
        entity(Case, []),
        entity(Finding, []),
        entity(Order, [ADD_FIVE, CLEAR, ORDER]),
        entity(Paper, [SEND, READ, RETITLE, TITLED, READERS, SEND_ALL, SUBMIT, WITHDRAW]),
        entity(Thread, [MOVE_TO, OF_CONTAINER]),
        entity(Parcel, [WEIGH, HEAVIEST, SEND_PARCELS]),
        entity(Job, [CLAIM, LEASE]),
        entity(Shelf, [REOPEN, SEAL, COUNT_VOLUMES]),
        entity(
            Volume,
            [BY_SHELF, LEND, OPEN_VOLUME, SHELVE, CATALOGUE, STAMP_ALL, DISCARD, STEAL, LENT_ONES, NAME_TAKEN, LEAF_THROUGH, WORTH_READING]
        ),
        entity(Leaf, [POSTPONE]),
        entity(Branch, [SHUT, BRANCHES]),
        entity(Topic, [TOPICS_OF, TOPIC_PAGES, TOPIC_UP, TOPIC_TAG, TOPIC_PIN, TOPICS_MOVE, TOPIC_PUT, TOPIC_BACK, TOPIC_AT]),
    ],
);
