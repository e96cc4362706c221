//! Unusual declarations that are valid, similar to the mistakes in `fail/entity/struct`.
#![deny(warnings)]
#![allow(dead_code)] // the test is that it compiles

use linchpin::prelude::*;

pub type Text = String;

/// Declares an entity by a macro of the app.
macro_rules! entity_of {
    ($vis:vis $name:ident, $key:ty, $default:expr, $option:ident, [$($field:ident: $ty:ty),*]) => {
        #[entity(index($($field),*))]
        $vis struct $name {
            #[field(primary)]
            $vis id: $key,
            #[field($option, default = $default)]
            $vis title: String,
            $vis note: Option<$crate::entity::odd_declarations::Text>,
            $($vis $field: $ty,)*
        }

        #[operation(kind = "lookup", fields(title = param(title)), returns = "many")]
        $vis const BY_TITLE: Operation<$name>;
    };
}

mod made {
    use linchpin::prelude::*;
    entity_of!(pub Made, i64, "none", sortable, [author_id: Option<String>, rank: i64]);
}

// Raw names of the struct and of fields; the marker module of a lower-case struct has another name.
#[entity(name = "Match", unique(r#type))]
#[allow(non_camel_case_types)]
pub struct r#match {
    #[field(primary)]
    pub r#fn: String,
    pub r#type: String,
}

// A name that is not ASCII.
#[entity(name = "Size", index(größe), sort = desc(größe))]
pub struct Größe {
    #[field(primary)]
    pub id: String,
    pub größe: i64,
    pub 長さ: Option<String>,
}

/// Docs with "quotes", {braces}, `code`, \ and #[attributes].
#[doc = "A second \"line\"\u{7} // with {} and $crate"]
#[doc = concat!("not a ", "literal")]
#[doc(alias = "documented")]
#[entity]
#[derive(Clone, Debug)]
pub struct Documented {
    /** A block "comment" */
    #[doc(hidden)]
    #[field(primary)]
    #[field(default = uuid)]
    pub id: String,
    /// `*/ {0} \`
    #[deprecated(note = "use `id`")]
    #[cfg_attr(all(), doc = "A third.")]
    #[field(length = ..=5)]
    pub old: Option<String>,
}

#[cfg(any())]
#[entity(nonsense)]
struct Absent;

#[entity]
#[cfg(not(any()))]
struct Present {
    #[field(primary)]
    id: String,
}

// Two entities with the same name in different modules.
mod first {
    use linchpin::prelude::*;

    #[entity(path = "first")]
    pub struct Post {
        #[field(primary)]
        pub id: String,
        pub a: String,
    }

    #[operation(kind = "exists", fields(a = param(a)))]
    pub const TAKEN: Operation<Post>;
}

mod second {
    use linchpin::prelude::*;

    #[entity(path = "second")]
    pub struct Post {
        #[field(primary)]
        pub id: i64,
        pub b: String,
    }

    #[operation(kind = "exists", fields(b = param(b)))]
    pub const TAKEN: Operation<Post>;
}

// An entity of another crate, with its operations, under another name.
mod elsewhere {
    pub use ui_tests::{Note as Remark, NoteAdapter, OF_OWNER};
}

pub static ALL: Package = package!(
    name = "all",
    entities = [
        entity(first::Post, [first::TAKEN]),
        entity(second::Post, [second::TAKEN]),
        entity(made::Made, [made::BY_TITLE]),
        entity(elsewhere::Remark, [elsewhere::OF_OWNER]),
    ],
);

async fn call(cx: &Cx, notes: elsewhere::NoteAdapter, made: made::MadeAdapter) -> Result<()> {
    notes.of_owner(cx, "o", PageArgs::default()).await?;
    made.by_title(cx, "t", PageArgs::default()).await?;
    let _ = ui_tests::note::title.eq("x".to_owned());
    Ok(())
}

#[test]
fn unusual_declarations_keep_their_names_and_docs() {
    // Entity, operation and package may be declared in a function body.
    #[entity(path = "inner")]
    struct Inner {
        #[field(primary)]
        id: String,
        #[field(default = 0)]
        count: i64,
    }

    #[operation(kind = "increment", field = count)]
    const BUMP: Operation<Inner>;

    static INNER: Package = package!(name = "inner", entities = [entity(Inner, [BUMP])]);

    assert_eq!(INNER.entities[0].operations.len(), 1);
    assert_eq!(made::Made::DESC.fields.len(), 5);
    assert_eq!(
        (r#match::DESC.name, r#match::DESC.path),
        ("Match", "matches")
    );
    assert_eq!(r#match::DESC.fields[1].wire, "type");
    assert_eq!(
        (Größe::DESC.fields[1].wire, Größe::DESC.fields[2].column),
        ("größe", "長さ")
    );
    assert!(
        Documented::DESC
            .doc
            .starts_with("Docs with \"quotes\", {braces}"),
        "{}",
        Documented::DESC.doc
    );
    assert_eq!(Documented::DESC.fields[1].doc, r"`*/ {0} \`");
    assert_eq!(Present::DESC.path, "presents");
    assert_eq!(elsewhere::Remark::DESC.name, "Note");
}
