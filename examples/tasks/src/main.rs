//! A task board: users see their own tasks, and an administrator can delete the tasks of everyone.

mod seed;

use linchpin::axum::response::Html;
use linchpin::prelude::*;
use linchpin::transforms::string_to_string_array;
use linchpin_auth::Auth;
use linchpin_realtime::channel::Declared;
use linchpin_realtime::{Realtime, sse};

/// The state of a task.
#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum State {
    Open,
    Doing,
    Blocked,
    Done,
}

/// A task. It belongs to the user who creates it, and only that user can read it.
#[entity(
    namespace = "board",
    scope(owner_id = ctx(actor.id)),
    soft_delete(deleted_at),
    version,
    index(state, due_at),
    sort = asc(created_at),
)]
#[derive(Clone, Debug)]
pub struct Task {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    #[field(length = 1..=200, filterable)]
    pub title: String,
    #[field(default = State::Open, read_only)]
    pub state: State,
    #[field(items = ..=10, each(length = 1..=32))]
    pub tags: Vec<String>,
    pub due_at: Option<Timestamp>,
    #[field(read_only)]
    pub done_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
    #[field(default = now)]
    pub created_at: Timestamp,
}

/// Starts a task.
#[operation(kind = "transition", field = state, from = [State::Open, State::Blocked], to = State::Doing)]
pub const START: Operation<Task>;

/// Marks a task as blocked.
#[operation(kind = "transition", field = state, from = State::Doing, to = State::Blocked)]
pub const BLOCK: Operation<Task>;

/// Finishes a task.
#[operation(kind = "transition", field = state, from = [State::Open, State::Doing], to = State::Done, set(done_at = now()))]
pub const FINISH: Operation<Task>;

/// Changes or removes the due date of a task.
#[operation(kind = "field_update", set(due_at), nullable)]
pub const RESCHEDULE: Operation<Task>;

/// Adds a tag.
#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const TAG: Operation<Task>;

/// The caller's tasks in a state.
#[operation(kind = "lookup", fields(state = param(state)), returns = "many", sort = asc(due_at), paginate)]
pub const IN_STATE: Operation<Task>;

/// How many tasks the caller has in each state.
#[operation(kind = "aggregate", compute(tasks = count(), states = count_by(state)))]
pub const SUMMARY: Operation<Task>;

/// The overdue tasks of all users, or of one owner.
#[operation(
    kind = "lookup",
    fields(owner_id = param(owner_id)),
    filter = (state != State::Done && due_at < param(before)),
    returns = "many",
    paginate,
    unscoped = "administrators read the overdue tasks of all users",
    route(roles = ["admin"]),
)]
pub const OVERDUE: Operation<Task>;

/// Deletes the tasks of all users that were done before a date.
#[operation(
    kind = "batch",
    action = "delete",
    filter = (state == State::Done && done_at < param(before)),
    unscoped = "administrators delete finished tasks of all users",
    route(roles = ["admin"]),
)]
pub const CLEAN_UP: Operation<Task>;

sse! {
    /// Changes of the caller's tasks.
    pub const CHANGES = "/__sse/tasks";
    Task: [created, updated, deleted, START, BLOCK, FINISH, RESCHEDULE, TAG],
}

/// A page that shows the tasks of a user, and their changes as they happen.
#[route(entity = Task, method = "GET", path = "live", auth = none)]
async fn live() -> Html<&'static str> {
    Html(include_str!("live.html"))
}

/// Tasks and their operations.
pub static BOARD: Package = package!(
    name = "board",
    entities = [entity(
        Task,
        [
            START, BLOCK, FINISH, RESCHEDULE, TAG, IN_STATE, SUMMARY, OVERDUE, CLEAN_UP, live
        ]
    )],
);

#[tokio::main]
async fn main() -> linchpin::Result<()> {
    App::new(Config::from_env()?)
        .plugin(Auth::from_env().roles(["admin"]))
        .plugin(Realtime::new(Declared::default().sse(CHANGES)))
        .package(&BOARD)
        .migrations(linchpin::migrations!(
            "migrations",
            transforms = [string_to_string_array]
        ))
        .on_event::<Task, _, _>("log", |event| async move {
            println!(
                "{} by {}",
                event.name,
                event.actor.id.as_deref().unwrap_or("the application")
            );
            Ok(())
        })
        .command("seed", "adds sample tasks for alice and bob", seed::run)
        .run()
        .await
}
