//! Valid uses of search providers, similar to the mistakes in `fail/entity/search`.
use linchpin::prelude::*;

pub type Title = String;

#[entity(
    search(
        provider = "words",
        fields(title = 2, r#type = 0.5, body = 1),
        fallback
    ),
    tenant(team),
    routes(disabled)
)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: Title,
    pub r#type: String,
    pub body: Option<String>,
    pub hint: String,
    #[field(private)]
    pub team: String,
}

/// Searches some of the fields in the index.
#[operation(kind = "search", fields(title, body), use_search_provider = true)]
pub const FIND: Operation<Post>;

/// The store may search fields that are not in the index.
#[operation(kind = "search", fields(title, hint), use_search_provider = false)]
pub const FIND_HERE: Operation<Post>;

#[test]
fn the_search_options_are_in_the_descriptor() {
    let search = <Post as Entity>::DESC.search.as_ref().unwrap();
    assert_eq!(
        (search.provider, search.fields, search.fallback),
        ("words", &[(1, 2.0), (2, 0.5), (3, 1.0)][..], true)
    );
    assert!(FIND.spec().kind.uses_provider() && !FIND_HERE.spec().kind.uses_provider());
}
