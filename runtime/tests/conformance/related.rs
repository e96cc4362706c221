//! The other half of the fixture: records that name each other, what policies ask for, functions of the user's, records that come
//! back, and work that is handed out.
#![allow(missing_docs, dead_code)] // a fixture: nobody calls its methods, the differential test reads its descriptors

use linchpin::operation::{CustomCall, MemoryCall, SqlStore};
use linchpin::prelude::*;
use linchpin::{AccessRequest, BoxFuture, Decision, Evaluator, Value};

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    Open,
    Done,
    Void,
}

/// Whom the others name.
#[entity(
    namespace = "diff",
    has_many(memos: Memo, key = author_id, max = 2),
    has_many(projects: Project, key = lead_id, max = 1),
    pagination(default = 3, max = 200),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Person {
    #[field(primary)]
    pub id: String,
    #[field(default = "x", filterable)]
    pub name: String,
    #[field(read_only, default = 0)]
    pub open_memos: i64,
    #[field(read_only, default = 0, filterable)]
    pub leading: i64,
}

#[operation(kind = "batch", action = "delete", filter = (name == param(name)))]
pub const DISMISS: Operation<Person>;

#[operation(kind = "consume", filter = (name == param(name)), returns = "boolean")]
pub const RELEASE: Operation<Person>;

#[operation(kind = "search", fields(name), paginate)]
pub const PEOPLE_NAMED: Operation<Person>;

/// Whoever has one stays.
#[entity(namespace = "diff", belongs_to(person: Person, key = person_id, on_delete = "restrict"), pagination(default = 3, max = 200), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Desk {
    #[field(primary)]
    pub id: String,
    pub person_id: String,
}

/// Stays, and forgets whose it was.
#[entity(
    namespace = "diff",
    version(required_on_write = false),
    belongs_to(author: Person, key = author_id, on_delete = "set_null"),
    counter(Person.open_memos, by = author_id, when(!done)),
    sort = desc(text),
    pagination(default = 2, max = 200),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Memo {
    #[field(primary)]
    pub id: String,
    pub author_id: Option<String>,
    #[field(default = false)]
    pub done: bool,
    #[field(default = "")]
    pub text: String,
    #[field(private)]
    pub secret: Option<String>,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

#[operation(kind = "field_update", set(author_id), nullable)]
pub const REASSIGN: Operation<Memo>;

#[operation(kind = "transition", field = done, from = false, to = true, already = "ok", set(author_id = param(by)))]
pub const FINISH: Operation<Memo>;

#[operation(kind = "upsert", match(id), set(author_id, text))]
pub const WRITE: Operation<Memo>;

#[operation(kind = "batch", action = "update", filter = (done == param(done)), set(author_id = param(to)))]
pub const HAND_OVER: Operation<Memo>;

#[operation(kind = "lookup", fields(author_id = param(author_id)), returns = "many")]
pub const MEMOS_OF: Operation<Memo>;

/// Leaves a mark when gone, takes its tickets along, and comes back without them.
#[entity(
    namespace = "diff",
    soft_delete(deleted_at),
    version(required_on_write = false),
    unique(slug),
    belongs_to(lead: Person, key = lead_id, on_delete = "cascade"),
    has_many(tickets: Ticket, key = project_id, max = 2),
    counter(Person.leading, by = lead_id, when(stage != Stage::Void)),
    pagination(default = 2, max = 200),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Project {
    #[field(primary)]
    pub id: String,
    pub slug: Option<String>,
    pub lead_id: Option<String>,
    #[field(default = Stage::Open)]
    pub stage: Stage,
    #[field(read_only, default = 0)]
    pub ticket_count: i64,
    pub deleted_at: Option<Timestamp>,
}

#[operation(kind = "transition", field = stage, from = Stage::Open, to = Stage::Done, already = "ok")]
pub const CLOSE_PROJECT: Operation<Project>;

#[operation(kind = "transition", field = stage, from = [Stage::Open, Stage::Done], to = Stage::Void, already = "ok", returns = "boolean")]
pub const VOID_PROJECT: Operation<Project>;

#[operation(kind = "restore", route(roles = ["editor"]))]
pub const REVIVE: Operation<Project>;

#[operation(kind = "lookup", fields(stage = param(stage)), returns = "many", paginate, deleted = "only", route(roles = ["editor"]))]
pub const TRASH: Operation<Project>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", deleted = "only", route(roles = ["editor"]))]
pub const LOST: Operation<Project>;

#[entity(
    namespace = "diff",
    belongs_to(project: Project, key = project_id, on_delete = "cascade"),
    counter(Project.ticket_count, by = project_id),
    pagination(default = 3, max = 200),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Ticket {
    #[field(primary)]
    pub id: i64,
    pub project_id: String,
}

/// A tree; with its own twin, a ring.
#[entity(
    namespace = "diff",
    belongs_to(parent: Node, key = parent_id, on_delete = "cascade"),
    belongs_to(twin: Node, key = twin_id, on_delete = "cascade"),
    has_many(children: Node, key = parent_id, max = 2),
    counter(Node.child_count, by = parent_id, when(twin_id.is_none())),
    counter(Node.twins, by = twin_id),
    pagination(default = 3, max = 200),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Node {
    #[field(primary)]
    pub id: String,
    pub parent_id: Option<String>,
    pub twin_id: Option<String>,
    #[field(read_only, default = 0)]
    pub child_count: i64,
    #[field(read_only, default = 0)]
    pub twins: i64,
}

/// Its tenant alone sees it; those that go with it are others'.
#[entity(namespace = "diff", tenant(tenant_id), has_many(findings: Finding, key = case_id, max = 1), pagination(default = 2, max = 200))]
#[derive(Clone, Debug)]
pub struct Case {
    #[field(primary)]
    pub id: String,
    pub tenant_id: String,
    #[field(read_only, default = 0)]
    pub findings_kept: i64,
}

#[entity(
    namespace = "diff",
    tenant(tenant_id),
    scope(owner_id = ctx(actor.id)),
    belongs_to(case: Case, key = case_id, on_delete = "cascade"),
    counter(Case.findings_kept, by = case_id),
    pagination(default = 2, max = 200),
)]
#[derive(Clone, Debug)]
pub struct Finding {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: String,
    pub owner_id: String,
    pub case_id: String,
}

/// Money moves: calls under a key have one effect.
#[entity(
    namespace = "diff",
    tenant(tenant_id),
    version(required_on_write = false),
    unique(number),
    pagination(default = 2, max = 200),
    routes(idempotent, delete(roles = ["editor"])),
)]
#[derive(Clone, Debug)]
pub struct Order {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: String,
    pub number: String,
    #[field(default = 0, filterable, range = ..=100)]
    pub amount: i64,
}

#[operation(kind = "increment", field = amount, by = 5, route(idempotent(required, ttl = "1min")))]
pub const ADD_FIVE: Operation<Order>;

#[operation(kind = "batch", action = "delete", filter = (amount == param(amount)))]
pub const CLEAR: Operation<Order>;

#[operation(kind = "upsert", match(number), set(amount), returns = "created")]
pub const ORDER: Operation<Order>;

/// Whose author may do with it what else needs a grant.
#[entity(
    namespace = "diff",
    unique(slug),
    sort = asc(slug),
    pagination(default = 2, max = 200),
    routes(
        permission(requires = "write", or = ["moderate"], owner_field = author_id),
        get(permission(requires = "read", owner_field = author_id, hide)),
        delete(permission(requires = "remove")),
    ),
)]
#[derive(Clone, Debug)]
pub struct Paper {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(filterable)]
    pub title: String,
    pub author_id: String,
    #[field(default = Stage::Open)]
    pub stage: Stage,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = "transition", field = stage, from = Stage::Open, to = Stage::Done)]
pub const SEND: Operation<Paper>;

#[operation(kind = "increment", field = views)]
pub const READ: Operation<Paper>;

#[operation(kind = "field_update", match(slug = param(slug)), set(title))]
pub const RETITLE: Operation<Paper>;

#[operation(kind = "lookup", fields(title = param(title)), returns = "many")]
pub const TITLED: Operation<Paper>;

#[operation(kind = "aggregate", compute(n = count(), views = sum(views)))]
pub const READERS: Operation<Paper>;

#[operation(kind = "batch", action = "update", filter = (title == param(title)), set(stage = Stage::Done))]
pub const SEND_ALL: Operation<Paper>;

#[operation(kind = "upsert", match(slug), set(title, author_id))]
pub const SUBMIT: Operation<Paper>;

#[operation(kind = "consume", filter = (title == param(title)), returns = "boolean")]
pub const WITHDRAW: Operation<Paper>;

/// Judged by where it lies.
#[entity(
    namespace = "diff",
    sort = asc(title),
    pagination(default = 2, max = 200),
    routes(permission(requires = "write", owner_field = author_id, resource = container_id)),
)]
#[derive(Clone, Debug)]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub author_id: String,
    pub container_id: Option<String>,
}

#[operation(kind = "field_update", set(container_id))]
pub const MOVE_TO: Operation<Thread>;

#[operation(kind = "lookup", fields(container_id = param(container)), returns = "many")]
pub const OF_CONTAINER: Operation<Thread>;

/// What functions of the user's work on.
#[entity(
    namespace = "diff",
    tenant(tenant_id),
    soft_delete(deleted_at),
    version(required_on_write = false),
    unique(slug),
    pagination(default = 2, max = 200)
)]
#[derive(Clone, Debug)]
pub struct Parcel {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: String,
    pub slug: String,
    #[field(default = 0, range = -1000..=1000)]
    pub weight: i64,
    pub sent_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Embedded)]
pub struct Bounds {
    #[field(range = -10..=1000)]
    pub least: i64,
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Embedded)]
pub struct Weights {
    pub count: i64,
    pub total: i64,
    pub note: Option<String>,
}

#[operation(
    kind = "custom",
    http(method = "POST", path = "weigh"),
    input = Bounds,
    output = Weights,
    handler(memory = weigh_memory, sqlite = weigh, postgres = weigh),
)]
pub const WEIGH: Operation<Parcel>;

async fn weigh_memory(call: MemoryCall<Parcel>, input: Bounds) -> Result<Weights> {
    let heavy: Vec<i64> = call.visible().await?.iter().map(|p| p.weight).filter(|weight| *weight >= input.least).collect();
    Ok(Weights { count: i64::try_from(heavy.len()).unwrap_or_default(), total: heavy.iter().sum(), note: input.note })
}

async fn weigh<S: SqlStore>(call: CustomCall<Parcel, S>, input: Bounds) -> Result<Weights> {
    let text = "SELECT count(*) AS n, CAST(COALESCE(sum(weight), 0) AS BIGINT) AS total FROM {visible} WHERE weight >= $1";
    let rows = call.sql(text).bind(input.least).rows().await?;
    Ok(Weights { count: rows[0].get("n")?, total: rows[0].get("total")?, note: input.note })
}

#[operation(
    kind = "custom",
    http(method = "GET"),
    params(most: i64),
    output = Vec<Parcel>,
    handler(memory = heaviest_memory, sqlite = heaviest, postgres = heaviest),
)]
pub const HEAVIEST: Operation<Parcel>;

/// A bound that every store takes.
fn few(most: i64) -> i64 {
    most.clamp(0, 100)
}

async fn heaviest_memory(call: MemoryCall<Parcel>, most: i64) -> Result<Vec<String>> {
    let mut all = call.visible().await?;
    all.sort_by_key(|p| std::cmp::Reverse((p.weight, p.slug.clone())));
    Ok(all.into_iter().take(usize::try_from(few(most)).unwrap_or_default()).map(|p| p.id).collect())
}

async fn heaviest<S: SqlStore>(call: CustomCall<Parcel, S>, most: i64) -> Result<Vec<String>> {
    call.sql("SELECT id FROM {visible} ORDER BY weight DESC, slug DESC LIMIT $1").bind(few(most)).column("id").await
}

/// Sends a parcel and everything lighter: through the adapter, or by statements of its own.
#[operation(
    kind = "custom",
    http(method = "POST", path = "{id}/send"),
    output = Parcel,
    handler(memory = send_memory, sqlite = send, postgres = send),
)]
pub const SEND_PARCELS: Operation<Parcel>;

async fn send_memory(call: MemoryCall<Parcel>, id: String) -> Result<String> {
    let now = call.cx().now();
    let parcels = call.adapter();
    let own = parcels.get(call.cx(), &*id).await?.ok_or_else(Error::not_found)?;
    let mut lighter: Vec<Parcel> = call.visible().await?.into_iter().filter(|p| p.weight <= own.weight).collect();
    // Its own version is what the call may be about: nothing is changed before that is known to fit.
    lighter.sort_by_key(|p| p.id != id);
    for lighter in lighter {
        let version = call.version().filter(|_| lighter.id == id);
        parcels.update(call.cx(), lighter.id, ParcelPatch { sent_at: Some(Some(now)), ..ParcelPatch::default() }, version).await?;
    }
    Ok(id)
}

async fn send<S: SqlStore>(call: CustomCall<Parcel, S>, id: String) -> Result<String> {
    let mut open = call.begin().await?;
    let own = call.sql("SELECT weight, version FROM {visible} WHERE id = $1").bind(id.clone()).within(&mut open).rows().await?;
    let own = own.first().ok_or_else(Error::not_found)?;
    if call.version().is_some_and(|expected| own.get::<i64>("version").ok() != Some(expected)) {
        return Err(Error::new(linchpin::Code::PreconditionFailed, "The record has another version"));
    }
    let text = "UPDATE {table} SET sent_at = $2, version = version + 1 WHERE weight <= $1 AND {guard}";
    let sent = call.sql(text).bind(own.get::<i64>("weight")?).bind(call.cx().now()).within(&mut open);
    sent.execute().await?;
    open.commit().await?;
    Ok(id)
}

/// Work that is handed out to code.
#[entity(namespace = "diff", index(due_at), sort = asc(due_at), pagination(default = 3, max = 200), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Job {
    #[field(primary)]
    pub id: i64,
    #[field(filterable)]
    pub rank: i64,
    pub due_at: Option<Timestamp>,
    #[field(filterable)]
    pub worker: Option<String>,
}

/// Takes the two that are due first.
#[operation(kind = "batch", action = "update", filter = (worker.is_none() && due_at <= now()), set(worker = param(worker)), limit = 2, returns = "records")]
pub const CLAIM: Operation<Job>;

/// Takes those of the highest rank, whoever has them.
#[operation(kind = "batch", action = "update", filter = (due_at <= param(until)), set(worker = param(worker), due_at = param(again)), limit = 2, sort = desc(rank), returns = "records")]
pub const LEASE: Operation<Job>;

/// Grants by who, what and where.
pub struct Judge;

impl Judge {
    fn judged(request: &AccessRequest<'_>) -> Decision {
        let container = match request.resource {
            Some(Value::Text(text)) => text.as_str(),
            _ => "",
        };
        match (request.actor.id.as_deref(), request.action, container) {
            (Some("carol"), _, "a") => Decision::Deny,
            (Some("alice"), "read" | "moderate" | "remove", _) | (Some("alice" | "bob"), "write", "b") => Decision::Allow,
            _ => Decision::Abstain,
        }
    }
}

impl Evaluator for Judge {
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        Box::pin(std::future::ready(Ok(Self::judged(&request))))
    }
}
