//! Valid computed fields that are similar to the mistakes in `fail/entity/computed`.
use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Size {
    Small,
    Large,
}

mod keys {
    pub fn key(post: &super::Post) -> String {
        post.slug.to_lowercase()
    }
}

fn open_key(post: &Post) -> Option<String> {
    post.open.then(|| post.slug.clone())
}

fn size(post: &Post) -> Size {
    if post.slug.len() > 3 {
        Size::Large
    } else {
        Size::Small
    }
}

fn words(post: &Post) -> Vec<String> {
    vec![post.slug.clone()]
}

fn rank(post: &Post) -> f64 {
    post.slug.len() as f64
}

// Computed fields in unique constraints, indexes and sorts; private, filterable or sortable; with a
// function in a module; of an enum, a number, a list and an optional type.
#[entity(unique(slug_key), unique(open_key), index(desc(rank), size), sort(desc(rank), size), version, routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(default = false)]
    pub open: bool,
    #[field(computed = keys::key, private)]
    pub slug_key: String,
    #[field(computed(open_key, from(slug, open)), filterable)]
    pub open_key: Option<String>,
    #[field(computed(size, from(slug,)), sortable)]
    pub size: Size,
    #[field(computed = rank)]
    pub rank: f64,
    #[field(computed = words)]
    pub words: Vec<String>,
}

#[operation(kind = "field_update", set(slug))]
pub const RENAME: Operation<Post>;

#[operation(kind = "lookup", fields(slug_key = param(key)), returns = "one")]
pub const BY_KEY: Operation<Post>;

/// Declares an entity with computed fields, and one of their functions, by a macro of the app.
macro_rules! keyed {
    ($name:ident, $slug:ident, $key:ident, $outer:path, $inner:ident) => {
        #[entity]
        pub struct $name {
            #[field(primary, default = uuid)]
            pub id: String,
            pub $slug: String,
            #[field(computed($outer, from($slug)))]
            pub $key: String,
            #[field(computed = $inner)]
            pub lower: String,
        }

        #[computed]
        fn $inner(keyed: &$name) -> String {
            keyed.$slug.to_lowercase()
        }
    };
}

mod in_a_macro {
    use linchpin::prelude::*;

    keyed!(Keyed, slug, slug_key, functions::upper, lower);

    mod functions {
        use super::{Keyed, computed};

        #[computed]
        pub fn upper(keyed: &Keyed) -> String {
            keyed.slug.to_uppercase()
        }
    }
}

mod by_hand {
    use linchpin::prelude::*;

    #[entity]
    pub struct Keyed {
        #[field(primary, default = uuid)]
        pub id: String,
        pub slug: String,
        #[field(computed(functions::upper, from(slug)))]
        pub slug_key: String,
        #[field(computed = lower)]
        pub lower: String,
    }

    #[computed]
    fn lower(keyed: &Keyed) -> String {
        keyed.slug.to_lowercase()
    }

    mod functions {
        use super::{Keyed, computed};

        #[computed]
        pub fn upper(keyed: &Keyed) -> String {
            keyed.slug.to_uppercase()
        }
    }
}

#[test]
fn computed_fields_from_a_macro_equal_handwritten_ones() {
    let computed_fields = |desc: &linchpin::schema::Snapshot| {
        let entities = desc.entities.values();
        let fields = entities.flat_map(|entity| &entity.fields);
        let computed = fields.filter_map(|(name, field)| {
            let computed = field.computed.as_ref()?;
            Some((name.clone(), computed.inputs.clone(), computed.body.clone()))
        });
        computed.collect::<Vec<_>>()
    };
    let describe = |desc| computed_fields(&linchpin::schema::Snapshot::of([desc]));
    let (from_macro, handwritten) = (
        describe(in_a_macro::Keyed::DESC),
        describe(by_hand::Keyed::DESC),
    );
    assert_eq!(from_macro.len(), 2);
    assert!(
        from_macro.iter().all(|(_, _, body)| body.len() == 64),
        "{from_macro:?}"
    );
    assert_eq!(from_macro, handwritten);
}
