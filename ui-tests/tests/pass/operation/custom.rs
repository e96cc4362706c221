//! Valid custom operations and batches that return their records, similar to the mistakes in
//! `fail/operation/custom` and `fail/operation/batch`.
use linchpin::operation::{CustomCall, CustomStore, MemoryCall, SqliteCall};
use linchpin::prelude::*;

#[derive(Clone, Debug, Embedded)]
pub struct Bounds {
    pub least: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Side {
    Left,
    Right,
}

// handler: a function for each store that is named.
#[entity(stores(memory, sqlite), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary)]
    pub id: i64,
    pub title: String,
    #[field(default = 0)]
    pub views: i64,
    #[field(private)]
    pub lease: Option<Timestamp>,
}

// A separate function for each store, or one function for several.
#[operation(kind = "custom", http(method = "GET", path = "near/{side}"), params(side: Side, most: Option<i64>), output = Vec<Post>, handler(memory = near_memory, sqlite = near_sqlite))]
pub const NEAR: Operation<Post>;
async fn near_memory(call: MemoryCall<Post>, _: Side, most: Option<i64>) -> Result<Vec<i64>> {
    Ok(call
        .visible()
        .await?
        .into_iter()
        .map(|post| post.id)
        .take(most.map_or(9, |n| n as usize))
        .collect())
}
async fn near_sqlite(call: SqliteCall<Post>, side: Side, _: Option<i64>) -> Result<Vec<i64>> {
    call.sql("SELECT id FROM {visible} WHERE title = $1")
        .bind(side.as_str().to_owned())
        .column("id")
        .await
}

// Records by a condition instead of their keys. SQL texts that are checked at start-up: consts and
// literals.
const NEAR_TEXT: &str = "SELECT id FROM {visible} WHERE title = $1";
#[operation(kind = "custom", params(side: Side), output = Vec<Post>, sql(NEAR_TEXT, "title = $1"), handler(memory = like_memory, sqlite = like_sqlite))]
pub const LIKE: Operation<Post>;
async fn like_memory(_: MemoryCall<Post>, _: Side) -> Result<Vec<i64>> {
    Ok(Vec::new())
}
async fn like_sqlite(call: SqliteCall<Post>, side: Side) -> Result<Records<Post>> {
    let seen = call
        .read(call.records("views > $1").bind(9).limit(1))
        .await?
        .len() as i64;
    Ok(call
        .records("title = $1 AND views > $2")
        .bind(side)
        .bind(seen)
        .order_by("views DESC"))
}

// params: a body if the method has one, and query parameters.
#[operation(kind = "custom", http(path = "{id}/judge"), params(times: i64), input = Bounds, output = Option<Post>, handler(memory = judge, sqlite = judge), route(auth = "userAuth", timeout = "5s"))]
pub const JUDGE: Operation<Post>;
async fn judge<S: CustomStore>(
    _: CustomCall<Post, S>,
    id: i64,
    times: i64,
    input: Bounds,
) -> Result<Option<i64>> {
    Ok((input.least < times).then_some(id))
}

// handler: the stores of other crates, by their names. A generic function names the type of its
// store.
pub enum Toy {}
impl CustomStore for Toy {
    const NAME: &'static str = "toy";
    type Native = std::sync::Arc<Vec<i64>>;
}
#[operation(kind = "custom", params(least: i64), output = i64, handler(memory = counted, sqlite = counted, toy = counted_by_toy))]
pub const COUNTED: Operation<Post>;
async fn counted<S: CustomStore>(_: CustomCall<Post, S>, least: i64) -> Result<i64> {
    Ok(least)
}
async fn counted_by_toy(call: CustomCall<Post, Toy>, least: i64) -> Result<i64> {
    let numbers = call.unguarded("numbers are nobody's")?;
    Ok(numbers.iter().filter(|number| **number >= least).count() as i64)
}
#[operation(kind = "custom", output = i64, handler(memory = none, sqlite = none, toy = none::<Toy>))]
pub const NONE: Operation<Post>;
async fn none<S: CustomStore>(_: CustomCall<Post, S>) -> Result<i64> {
    Ok(0)
}

// No route; an error type of std; no `output`, so the function returns `()`.
#[operation(kind = "custom", params(tags: Vec<String>, id: String), handler(memory = quiet, sqlite = quiet), route(event = "posts.quiet"))]
pub const QUIET: Operation<Post>;
async fn quiet<S: CustomStore>(
    _: CustomCall<Post, S>,
    _: Vec<String>,
    id: String,
) -> std::result::Result<(), std::num::ParseIntError> {
    id.parse::<i64>().map(|_| ())
}

// Parameters with the name of the function, of its input, or of a Rust keyword.
#[operation(kind = "custom", params(mixed: String, call: i64, r#type: bool), handler(memory = mixed, sqlite = mixed))]
pub const MIXED: Operation<Post>;
async fn mixed<S: CustomStore>(_: CustomCall<Post, S>, _: String, _: i64, _: bool) -> Result<()> {
    Ok(())
}

#[operation(kind = "custom", http(method = "DELETE"), output = Option<Vec<Bounds>>, handler(memory = parts, sqlite = parts))]
pub const PARTS: Operation<Post>;
async fn parts<S: CustomStore>(_: CustomCall<Post, S>) -> Result<Option<Vec<Bounds>>> {
    Ok(None)
}

// batch: a limit, an order by a private field, and the name of an event.
#[operation(kind = "batch", action = "update", filter = (views > 3), set(lease = now()), limit = 5, sort = asc(lease), returns = "records", route(event = "posts.leased"))]
pub const CLAIM: Operation<Post>;

pub static POSTS: Package = package!(
    name = "posts",
    entities = [entity(
        Post,
        [NEAR, LIKE, COUNTED, NONE, JUDGE, QUIET, MIXED, PARTS, CLAIM]
    )]
);

#[allow(dead_code)] // the test is that it compiles
async fn use_it(posts: PostAdapter, cx: &linchpin::Cx) -> linchpin::Result<()> {
    let _: Vec<Post> = posts.near(cx, Side::Left, 3).await?;
    let _: Vec<Post> = posts.near(cx, Side::Right, None).await?;
    let _: Vec<Post> = posts.like(cx, Side::Right).await?;
    let _: Option<Post> = posts.judge(cx, 7, 3, Bounds { least: 1 }).await?;
    let _: () = posts.quiet(cx, vec!["a".to_owned()], "7").await?;
    let _: () = posts.mixed(cx, "a", 1, true).await?;
    let _: Option<Vec<Bounds>> = posts.parts(cx).await?;
    let _: Vec<Post> = posts.claim(cx).await?;
    Ok(())
}

#[test]
fn the_declarations_compile() {
    assert_eq!(POSTS.entities.len(), 1);
}
