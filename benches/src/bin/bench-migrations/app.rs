//! The benchmark app in several schema versions. Each process runs one version.
//!
//! The variables `BENCH_VERSION`, `BENCH_URL` and `BENCH_PORT` name the version, the database and
//! the port. The migrations are read from the working directory.

use linchpin::prelude::*;
use linchpin::{Config, Durability};

/// Declares a version: a module with the enum `Status`, the entity `Post` and the package.
macro_rules! version {
    ($module:ident, [$($option:tt)*], [$($status:ident),+], { $($fields:tt)* }) => {
        mod $module {
            use linchpin::prelude::*;

            #[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
            pub enum Status {
                $($status),+
            }

            #[entity(
                index(desc(created_at)),
                sort = desc(created_at),
                pagination(default = 20, max = 100),
                routes(auth = none),
                $($option)*
            )]
            #[derive(Clone, Debug)]
            pub struct Post {
                #[field(primary, default = uuid)]
                pub id: String,
                #[field(length = 1..=200)]
                pub title: String,
                #[field(default = Status::Draft)]
                pub status: Status,
                pub author_id: String,
                #[field(default = now)]
                pub created_at: Timestamp,
                $($fields)*
            }

            pub static POSTS: Package = package!(name = "posts", entities = [entity(Post)]);
        }
    };
}

version!(start, [], [Draft, Published], {
    pub body: String,
    pub views: i64,
});
// A field changes its type. The transform has a `reverse`, so servers of both versions can write
// the field during the migration.
version!(text, [], [Draft, Published], {
    pub body: String,
    #[field(transform = super::views_text)]
    pub views: String,
});
// The same change of `views`, and one change of each other kind.
version!(wide, [index(author_id), unique(token)], [Draft, Published, Archived], {
    pub body: Option<String>,
    #[field(transform = super::views_text)]
    pub views: String,
    pub note: Option<String>,
    #[field(default = 3)]
    pub priority: i64,
    #[field(default = uuid)]
    pub token: String,
});

#[linchpin::transform(reverse = views_number)]
fn views_text(views: i64) -> std::result::Result<String, TransformError> {
    if views < 0 {
        return Err("a number of views is not negative".into());
    }
    Ok(format!("{views} views"))
}

#[linchpin::transform]
fn views_number(text: String) -> std::result::Result<i64, TransformError> {
    let number = text.strip_suffix(" views").ok_or("no number of views")?;
    number.parse().map_err(|_| "no number".into())
}

/// Serves, or runs a command.
pub(crate) async fn run() -> linchpin::Result<()> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let posts = match variable("BENCH_VERSION").as_str() {
        "start" => &start::POSTS,
        "text" => &text::POSTS,
        "wide" => &wide::POSTS,
        _ => {
            return Err(Error::internal(
                "usage: bench-migrations measure URL [rate|requests|locks|plans]..",
            ));
        }
    };
    let config = Config::new()
        .port(variable("BENCH_PORT").parse().unwrap_or(0))
        .signing_secret(linchpin_benches::SECRET)
        .database(variable("BENCH_URL"))
        .durability(Durability::Full);
    App::new(config).package(posts).run().await
}
