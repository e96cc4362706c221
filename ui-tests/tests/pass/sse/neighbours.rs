//! Valid endpoints that are similar to the mistakes in `fail/sse`.

use linchpin::EntityEvent;
use linchpin::prelude::*;
use linchpin_realtime::sse;

#[entity(tenant(tenant_id, optional, anonymous_read), routes(list(auth = none)))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: Option<String>,
    pub title: String,
}

#[entity(tenant(tenant_id, optional), scope(user_id = ctx(actor.id)))]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: Option<String>,
    pub user_id: String,
}

#[entity(tenant(tenant_id, optional), scope(owner_id = ctx(actor.id)))]
#[derive(Clone, Debug)]
pub struct Task {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: Option<String>,
    pub owner_id: String,
    pub title: String,
}

#[operation(kind = "field_update", match(id = param(id)), set(title))]
pub const RENAME: Operation<Task>;

fn mine(actor: &Actor, event: &EntityEvent) -> bool {
    actor.id == event.actor.id
}

// path, auth:
sse! {
    pub const POSTS = "/__sse/posts/v1.0";
    Post: [created, updated as "post.updated" + "post:updated"],
    auth = none,
    heartbeat = false,
}

// partition, events, options:
sse! {
    /// The caller's notes and tasks.
    pub(crate) const MINE = "/__sse/mine";
    Note: [created as "opened", deleted as "opened"],
    Task: [updated, RENAME as "linchpins:renamed"],
    auth = "userAuth",
    roles = ["reader"],
    filter = mine,
    heartbeat = "60s",
    history(size = 0),
    max_connections = 1000,
}

#[test]
fn the_descriptor_contains_the_declaration() {
    assert_eq!((POSTS.ident, POSTS.heartbeat), ("POSTS", None));
    assert_eq!(
        POSTS.names(),
        ["posts.created", "post.updated", "post:updated"]
    );
    assert_eq!(
        MINE.names(),
        ["opened", "tasks.updated", "linchpins:renamed"]
    );
    assert_eq!(
        (MINE.history.size, MINE.history.ttl, MINE.max_connections),
        (0, 3_600_000, 1_000)
    );
    assert_eq!(MINE.doc, "The caller's notes and tasks.");
    assert!(MINE.filter.is_some_and(|filter| filter.function == "mine"));
}

// unlisted:
mod listed {
    #![deny(dead_code)]

    use linchpin_realtime::channel::Declared;
    use linchpin_realtime::sse;

    use super::Note;

    sse! {
        const LISTED = "/__sse/listed";
        Note: [created],
    }

    #[test]
    fn a_private_endpoint_in_a_list_gives_no_warning() {
        let _ = Declared::default().sse(LISTED);
    }
}
