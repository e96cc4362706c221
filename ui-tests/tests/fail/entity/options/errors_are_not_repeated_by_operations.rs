use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status { Open, Done }

// One mistake in each entity. Operations do not report its consequences: a missing owner, unique,
// index, soft delete or search provider.

#[entity(scope(ownr_id = ctx(actor.id)), unique(title))]
pub struct Ticket {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub owner_id: String,
    pub status: Status,
}

#[operation(kind = "upsert", match(title), set(status))]
pub const PUT: Operation<Ticket>;

#[entity(unique(titel), routes(delete(roles = ["admin"])))]
pub struct Task {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub status: Status,
}

#[operation(kind = "upsert", match(title), set(status))]
pub const PUT_TASK: Operation<Task>;

#[operation(kind = "transition", field = status, from = Status::Open, to = Status::Done, match(title = param(title)))]
pub const CLOSE: Operation<Task>;

#[operation(kind = "computed_aggregate", source = Task, source_filter = (title == param(title)), compute = count(), target_match(title = param(title)), materialize_to = left)]
pub const COUNT: Operation<Place>;

#[entity(unique(titel))]
pub struct Place {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(read_only, default = 0)]
    pub left: i64,
}

#[entity(indx(status, desc(title)), search(provder = "tantivy", fields(title = 1)))]
pub struct Page {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub status: Status,
}

#[operation(kind = "lookup", fields(status = param(status)), returns = "many", sorts(by_title(desc(title))))]
pub const OF_STATUS: Operation<Page>;

#[operation(kind = "search", fields(title), use_search_provider = true)]
pub const FIND: Operation<Page>;

#[entity(soft_delete(deletd_at), routes(rols = ["admin"]))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub deleted_at: Option<Timestamp>,
}

#[operation(kind = "restore")]
pub const RESTORE: Operation<Note>;

#[entity(unique(title))]
pub struct Line {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub text: String,
    #[field(defalt = 0)]
    pub place: i64,
}

#[operation(kind = "upsert", match(title), set(text))]
pub const PUT_LINE: Operation<Line>;

pub static ALL: Package = package!(
    name = "all",
    entities = [
        entity(Ticket, [PUT]),
        entity(Task, [PUT_TASK, CLOSE]),
        entity(Place, [COUNT]),
        entity(Page, [OF_STATUS, FIND]),
        entity(Note, [RESTORE]),
        entity(Line, [PUT_LINE]),
    ],
);

fn main() {}
