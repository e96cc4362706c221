//! Valid operations that are similar to the mistakes in `fail/operation/computed_aggregate`.
use linchpin::prelude::*;

pub type Amount = i64;

#[entity(
    unique(slug), unique(author_id, title), belongs_to(newest: Comment, key = newest_id), routes(auth = none), stores(memory, sqlite)
)]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub title: String,
    pub author_id: String,
    #[field(default = 0)]
    pub comments: Amount,
    pub mean: Option<f64>,
    pub latest: Option<Timestamp>,
    pub newest_id: Option<String>,
    pub numbers: Option<serde_json::Value>,
}

#[entity(routes(auth = none), stores(sqlite, memory))]
#[derive(Clone, Debug)]
pub struct Comment {
    #[field(primary, default = uuid)]
    pub id: String,
    pub post_id: String,
    #[field(default = 0)]
    pub score: i64,
    #[field(default = now)]
    pub created_at: Timestamp,
}

// computed_aggregate: a count into an aliased integer, a mean into an optional number, a date into
// a date, several results into JSON.
#[operation(kind = "computed_aggregate", source = Comment, source_filter = (post_id == param(id)), compute = count(), target_match(id = param(id)), materialize_to = comments)]
pub const RECOUNT: Operation<Post>;
// target_match: all fields of a unique constraint identify one record, as the primary key does.
#[operation(kind = "computed_aggregate", source = Comment, source_filter = (post_id == param(post)), compute = avg(score), target_match(slug = param(slug)), materialize_to = mean)]
pub const MEAN: Operation<Post>;
#[operation(kind = "computed_aggregate", source = Comment, source_filter = (post_id == param(post)), compute = max(created_at), target_match(author_id = param(author), title = param(title)), materialize_to = latest)]
pub const LATEST: Operation<Post>;
// The maximum of keys is a key.
#[operation(kind = "computed_aggregate", source = Comment, source_filter = (post_id == param(id)), compute = max(id), target_match(id = param(id)), materialize_to = newest_id)]
pub const NEWEST: Operation<Post>;
#[operation(kind = "computed_aggregate", source = Comment, source_filter = (post_id == param(id)), compute(n = count(), total = sum(score)), target_match(id = param(id)), materialize_to = numbers, atomic)]
pub const NUMBERS: Operation<Post>;
// stores, atomic: `atomic` is allowed if every named store has transactions.
// The source may be the declaring entity, and the target another one.
#[operation(kind = "computed_aggregate", source = Comment, target = Post, source_filter = (post_id == param(id)), compute = count(), target_match(id = param(id)), materialize_to = comments)]
pub const COUNT_FOR: Operation<Comment>;

pub static POSTS: Package = package!(
    name = "posts",
    entities = [
        entity(Post, [RECOUNT, MEAN, LATEST, NEWEST, NUMBERS]),
        entity(Comment, [COUNT_FOR])
    ]
);

#[test]
fn the_declarations_compile() {
    assert_eq!(POSTS.entities.len(), 2);
}
