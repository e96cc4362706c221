//! Valid relations that are similar to the mistakes in `fail/entity/relations` and
//! `fail/entity/on_delete`.
#![allow(dead_code, missing_docs)]

use linchpin::prelude::*;

type Text = String;

pub mod people {
    use linchpin::prelude::*;

    // Entities that name each other, across modules.
    #[entity(has_many(posts: super::Post, key = author_id), has_many(drafts: super::Post, key = editor_id, max = 1000))]
    pub struct User {
        #[field(primary, default = uuid)]
        pub id: super::Text,
    }
}

// Aliased and optional keys; two relations with one key, one of them enforced; a name of several
// words.
#[entity(
    stores(memory, sqlite, postgres, mongo),
    belongs_to(author: people::User, key = author_id, on_delete = "restrict"),
    belongs_to(writer: people::User, key = author_id, on_delete = "none"),
    belongs_to(chief_editor: people::User, key = editor_id, on_delete = "set_null"),
    has_many(comments: Comment, key = post_id, max = 1),
    has_many(lines: Line, key = post_id),
)]
pub struct Post {
    #[field(primary)]
    pub id: i64,
    pub author_id: Text,
    pub editor_id: Option<String>,
}

// An indexed key, as `has_many` needs it; a relation of an entity to itself.
#[entity(
    index(post_id),
    belongs_to(parent: Comment, key = parent_id, on_delete = "cascade"),
    has_many(answers: Comment, key = parent_id),
)]
pub struct Comment {
    #[field(primary)]
    pub id: i64,
    pub post_id: i64,
    pub parent_id: Option<i64>,
}

// The parent is a parameter of the path.
#[entity(parent_path = "posts/{post_id}", scope(post_id = param(post_id)))]
pub struct Line {
    #[field(primary, default = uuid)]
    pub id: String,
    pub post_id: i64,
}

// An operation on an entity with relations.
#[operation(kind = "lookup", fields(author_id = param(author_id)), returns = "many")]
pub const BY_AUTHOR: Operation<Post>;

#[test]
fn the_declarations_compile() {
    let _ = (
        Post::AUTHOR,
        Post::CHIEF_EDITOR,
        Post::COMMENTS,
        people::User::POSTS,
        Comment::ANSWERS,
    );
}
