//! Valid projections that are similar to the mistakes in `fail/entity/projection`.

#![deny(dead_code)]

use linchpin::prelude::*;

/// A post.
#[entity(routes(auth = none, output = PostCard, get(output(id, title, views)), list(output = cards::Short)))]
#[derive(Clone)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(default = 0)]
    pub views: i64,
    pub r#type: Option<String>,
    #[field(private)]
    pub hash: Option<String>,
    #[field(default = now)]
    pub created_at: Timestamp,
}

type Count = i64;

// In another order; a type under another name.
#[projection(Post)]
#[derive(Clone, Debug)]
pub struct PostCard {
    pub views: Count,
    pub title: String,
    r#type: Option<String>,
}

mod cards {
    use linchpin::prelude::*;

    #[projection(crate::entity::projection::Post)]
    pub(crate) struct Short {
        id: String,
    }
}

// A projection that no policy uses.
#[projection(self::Post)]
struct Later {
    created_at: Timestamp,
}

#[operation(kind = "lookup", fields(title = param(title)), returns = "many", route(output = PostCard))]
pub const BY_TITLE: Operation<Post>;

pub static BLOG: Package = package!(name = "blog", entities = [entity(Post, [BY_TITLE])]);

#[test]
fn the_declarations_compile() {
    let card = |post: Post| PostCard::from(post);
    let _ = (card, BLOG.name);
}
