//! Every option of an entity, in a module that denies lints which generated code could violate.
#![deny(
    warnings,
    missing_docs,
    unreachable_pub,
    clippy::pedantic,
    rust_2018_idioms,
    unused_qualifications
)]
#![forbid(unsafe_code)]

/// The entities.
pub mod blog {
    use linchpin::prelude::*;

    /// The status of a post.
    #[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
    pub enum Status {
        /// Visible to the author only.
        Draft,
        /// Visible to everyone.
        #[field(rename = "live")]
        Published,
    }

    /// One saved version of a post.
    #[derive(Clone, Debug, Embedded)]
    pub struct Revision {
        /// The key of the version.
        #[field(primary, default = uuid)]
        pub id: String,
        /// A note about the change.
        #[field(length = 1..=20, default = "none")]
        pub note: String,
        /// The time of the change.
        pub made_at: Option<Timestamp>,
    }

    /// Free-form.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Extra;

    /// The maximum size of a page.
    pub const MAX: u32 = 100;
    /// The first title.
    pub const TITLE: &str = "untitled";
    /// An alias is checked by its type.
    pub type Slug = String;

    fn dates(post: &Post) -> std::result::Result<(), Problem> {
        match post.published_at {
            Some(at) if at < post.created_at => Err(Problem::new(
                "publishedAt",
                "check",
                "before it was written",
            )),
            _ => Ok(()),
        }
    }

    /// A post.
    ///
    /// It has two paragraphs of docs.
    #[entity(
        name = "BlogPost",
        namespace = "blog",
        path = "news/posts",
        storage_name = "posts_of_blog",
        rename_from = "old_posts",
        stores(sqlite, memory),
        index(author_id, desc(created_at)),
        index(status),
        unique(slug),
        unique(author_id, title, global),
        sort = desc(created_at),
        pagination(default = 20, max = MAX, unbounded_lookup = false),
        version(field = rev, required_on_write = false),
        check = dates,
        routes(auth = "userAuth", roles = ["writer"], timeout = "5s", list(auth = none), delete(roles = ["admin"]), update(max_body = "2MiB"), get(disabled)),
    )]
    #[derive(Clone, Debug)]
    pub struct Post {
        /// The key.
        #[field(primary, default = uuid)]
        pub id: Uuid,
        /// The name in URLs.
        #[field(pattern = "[a-z-]+", length = ..=80, filterable)]
        pub slug: Slug,
        /// The title.
        #[field(length = 1..=200, default = TITLE, sortable)]
        pub title: String,
        /// The id of the author.
        #[field(immutable)]
        pub author_id: String,
        /// The status.
        #[field(default = Status::Draft)]
        pub status: Status,
        /// The number of views.
        #[field(default = 0, range = 0.., read_only)]
        pub views: i64,
        /// A score between bad and good.
        #[field(default = -0.0, range = -1..=1)]
        pub score: f64,
        /// Whether it is pinned.
        #[field(default = false)]
        pub pinned: bool,
        /// Tags.
        #[field(items = ..=10, unique_items, each(length = 1..=64, pattern = "[a-z]+"), default = ["new"])]
        pub tags: Vec<String>,
        /// Older versions.
        #[field(items = ..=50)]
        pub revisions: Vec<Revision>,
        /// Anything.
        pub meta: Option<serde_json::Value>,
        /// Mood.
        #[field(
            one_of("good", "bad"),
            default = "good",
            rename_from = "feeling",
            column = "mood_text"
        )]
        pub mood: Option<String>,
        /// Stars.
        #[field(one_of(1, 2, 3))]
        pub stars: Option<i64>,
        /// A field that clients neither read nor write.
        #[field(private)]
        pub secret: Option<String>,
        /// A field that clients write and cannot read.
        #[field(write_only, format = "email")]
        pub contact: Option<String>,
        /// The time of publication.
        #[field(range = "2020-01-01T00:00:00Z"..)]
        pub published_at: Option<Timestamp>,
        /// A keyword is a field too.
        pub r#type: Option<String>,
        /// The time of creation.
        #[field(default = now)]
        pub created_at: Timestamp,
        /// The time of the last change.
        #[field(default = now, on_update = now)]
        pub updated_at: Timestamp,
    }

    /// The smallest entity.
    #[entity]
    pub struct Tag {
        /// The key.
        #[field(primary)]
        pub id: i64,
    }

    #[entity]
    struct Hidden {
        #[field(primary, default = cuid)]
        id: String,
        note: Option<String>,
    }

    mod inner {
        use linchpin::prelude::*;

        #[entity]
        pub(super) struct Scoped {
            #[field(primary)]
            pub(super) id: String,
        }
    }

    /// Uses the private items.
    #[must_use]
    pub fn uses() -> (String, &'static str) {
        let hidden = HiddenPatch { note: Some(None) };
        let scoped = inner::ScopedCreate { id: "a".to_owned() };
        let _ = hidden.note;
        (scoped.id, Hidden::DESC.name)
    }
}

use linchpin::entity::Flags;
use linchpin::prelude::*;

#[test]
fn the_descriptor_contains_the_declaration() {
    let desc = blog::Post::DESC;
    assert_eq!(
        (desc.name, desc.path, desc.storage_name),
        ("BlogPost", "news/posts", "posts_of_blog")
    );
    assert_eq!(desc.doc, "A post.\n\nIt has two paragraphs of docs.");
    assert_eq!(
        (desc.pagination.default_limit, desc.pagination.max_limit),
        (20, 100)
    );
    let flags = |wire: &str| desc.fields[desc.field_by_wire(wire).unwrap()].flags;
    assert!(
        flags("status").has(Flags::FILTERABLE)
            && flags("pinned").has(Flags::FILTERABLE)
            && flags("slug").has(Flags::FILTERABLE)
    );
    assert!(!flags("score").has(Flags::FILTERABLE) && !flags("status").has(Flags::PRIMARY));
    assert!(
        flags("createdAt").has(Flags::SORTABLE)
            && flags("authorId").has(Flags::SORTABLE)
            && !flags("slug").has(Flags::SORTABLE)
    );
    assert!(flags("secret").has(Flags::SENSITIVE) && flags("contact").has(Flags::SENSITIVE));
    assert!(flags("rev").has(Flags::VERSION));
    assert_eq!(desc.fields[0].rules.format, Some("uuid"));
    assert_eq!(
        desc.fields[desc.field_by_wire("mood").unwrap()].column,
        "mood_text"
    );
    assert!(desc.field_by_wire("type").is_some());
    assert_eq!(blog::Tag::DESC.path, "tags");
    assert_eq!(blog::uses().1, "Hidden");

    let patch = blog::PostPatch {
        title: Some("new".to_owned()),
        meta: Some(None),
        ..Default::default()
    };
    let mut set = Vec::new();
    linchpin::entity::Input::write(patch, &mut |field, value| set.push((field, value)));
    assert_eq!(
        set,
        [
            (2, linchpin::Value::Text("new".to_owned())),
            (10, linchpin::Value::Null)
        ]
    );

    let revision: blog::Revision =
        serde_json::from_str(r#"{"id":"a","note":"b","unknown":1}"#).unwrap();
    assert_eq!(revision.made_at, None);
    assert_eq!(
        serde_json::to_string(&revision).unwrap(),
        r#"{"id":"a","note":"b","madeAt":null}"#
    );
    assert!(serde_json::from_str::<blog::Revision>(r#"{"id":"a"}"#).is_err());
    assert_eq!(
        serde_json::to_string(&blog::Status::Published).unwrap(),
        "\"live\""
    );
    assert_eq!(
        serde_json::from_str::<blog::Status>("\"draft\"").unwrap(),
        blog::Status::Draft
    );
    let _ = blog::post::title.eq("x".to_owned());
}
