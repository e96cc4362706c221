//! Valid operations that write, similar to mistakes in `fail/operation`.
use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status {
    Draft,
    Published,
}

#[derive(Clone, Debug, Embedded)]
pub struct Step {
    pub number: i64,
    pub text: String,
}

pub type Tags = Vec<String>;
pub type When = Timestamp;

#[entity(unique(slug), unique(author_id, title), routes(auth = none))]
#[derive(Clone, Debug)]
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
    #[field(unique_items)]
    pub tags: Vec<String>,
    pub labels: Tags,
    pub steps: Vec<Step>,
    pub note: Option<String>,
    pub until: Option<When>,
    #[field(immutable, default = "web")]
    pub origin: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

#[operation(kind = "field_update", set(note), nullable, partial)]
pub const NOTE: Operation<Post>;
#[operation(kind = "fieldUpdate", set(title), match(slug = param(slug)))]
pub const RETITLE: Operation<Post>;
#[operation(kind = "array_push", field = tags, value = "fixed", dedupe = true)]
pub const FLAG: Operation<Post>;
#[operation(kind = "array_push", field = labels, value = input(label), dedupe = false)]
pub const LABEL: Operation<Post>;
#[operation(kind = "array_pull", field = labels, value = param(label))]
pub const UNLABEL: Operation<Post>;
#[operation(kind = "arraySet", field = labels, value = input(labels))]
pub const RELABEL: Operation<Post>;
#[operation(kind = "batch", action = "update", filter = (note.is_some()), set(views = 0), atomic)]
pub const RESET: Operation<Post>;
#[operation(kind = "batch", action = "delete", filter = (views > 3 && note.is_some()), returns = "void")]
pub const SWEEP: Operation<Post>;
#[operation(
    kind = "batch",
    action = "delete",
    filter = (created_at < param(before, default = now()) && (slug == param(slug) && title == param(title)) && note == param(note)),
    optional_params(slug, note, title),
)]
pub const CLEAR: Operation<Post>;
#[operation(
    kind = "batch",
    action = "update",
    filter = (views > param(views, default = 3) && (slug == param(a) || title == param(a)) && views != param(views) && note == param(note)),
    set(note = param(note), title = param(title, default = "none")),
    optional_params(note),
)]
pub const TURN: Operation<Post>;
#[operation(kind = "lookup", fields(slug = param(slug, default = "a"), status = param(status, default = Status::Draft)), returns = "one")]
pub const FIRST: Operation<Post>;
#[operation(kind = "consume", filter = (until < param(by, default = now()) && created_at > param(since, default = "2026-01-01T00:00:00Z")), returns = "boolean")]
pub const EXPIRE: Operation<Post>;
#[operation(kind = "upsert", match(title, author_id), set(slug), on_create(id = cuid(), origin = "import"), returns = "created")]
pub const IMPORT: Operation<Post>;
#[operation(kind = "consume", filter = (slug == param(slug)), returns = "entity", expiry = until)]
pub const TAKE: Operation<Post>;

// output_once: members that only the first response contains, in addition to the record.
#[operation(kind = "upsert", match(slug), set(title, author_id), route(output_once(token: String, seen_at: Option<Timestamp>)))]
pub const GRANT: Operation<Post>;

#[operation(kind = "collection", field = steps, operations(list, update), identify_by = number, route(steps_list(auth = "userAuth")))]
pub const STEPS: Operation<Post>;

pub static POSTS: Package = package!(
    name = "posts",
    entities = [entity(
        Post,
        [
            NOTE, RETITLE, FLAG, LABEL, UNLABEL, RELABEL, RESET, SWEEP, IMPORT, TAKE, STEPS
        ]
    )],
);

#[allow(dead_code)] // the test is that it compiles
async fn use_it(posts: PostAdapter, cx: &linchpin::Cx) -> linchpin::Result<()> {
    let _: Post = posts.retitle(cx, "slug", "title").await?;
    let _: Post = posts.note(cx, "id", "x").await?;
    let _: Post = posts.flag(cx, "id").await?;
    let _: Post = posts.relabel(cx, "id", vec!["a".to_owned()]).await?;
    let _: Post = posts.unlabel(cx, "id", "a").await?;
    let _: u64 = posts.reset(cx).await?;
    let _: () = posts.sweep(cx).await?;
    let upserted: linchpin::entity::Upserted<Post> =
        posts.import(cx, "title", "author", "slug").await?;
    assert!(upserted.created);
    let _: Option<Post> = posts.take(cx, "slug").await?;
    let _: Step = posts
        .steps_update(
            cx,
            "id",
            "3",
            StepPatch {
                text: Some("x".to_owned()),
                ..StepPatch::default()
            },
        )
        .await?;
    Ok(())
}

#[test]
fn the_declarations_compile() {
    assert_eq!(POSTS.entities.len(), 1);
}
