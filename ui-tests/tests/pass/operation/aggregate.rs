//! Valid aggregates that are similar to the mistakes in `fail/operation/aggregate`.
use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status {
    Draft,
    Published,
}

pub type Money = i64;
pub type When = Timestamp;

#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub status: Status,
    pub price: Money,
    pub until: Option<When>,
    #[field(private, default = "")]
    pub secret: String,
}

// Conditions may use a private field; aliased types count as the type they name.
#[operation(kind = "aggregate", compute(total = count(secret == param(secret)), price = sum(price, where = price > 0), last = max(until), first = min(title)))]
pub const STATS: Operation<Post>;
#[operation(kind = "aggregate", group_by = week(until), compute(status = count_by(status), r#type = count(),))]
pub const BY_WEEK: Operation<Post>;

pub static POSTS: Package = package!(name = "posts", entities = [entity(Post, [STATS, BY_WEEK])]);

#[allow(dead_code)] // the test is that it compiles
async fn use_it(posts: PostAdapter, cx: &linchpin::Cx) -> linchpin::Result<()> {
    let StatsRow {
        total,
        price,
        last,
        first,
    } = posts.stats(cx, "secret").await?;
    let _: (i64, Money, Option<When>, Option<String>) = (total, price, last, first);
    for row in posts.by_week(cx).await? {
        let _: (Option<String>, Option<&i64>, i64) =
            (row.until, row.status.get("draft"), row.r#type);
    }
    Ok(())
}

#[test]
fn the_declarations_compile() {
    assert_eq!(POSTS.entities.len(), 1);
}
