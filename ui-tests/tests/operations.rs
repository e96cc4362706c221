//! The contents of the descriptors of operations, extra routes and packages.

// Only tests use the declarations.
#![allow(missing_docs)]

use linchpin::http::AuthDesc;
use linchpin::operation::{Method, ParamSpec, Place, Seg};
use linchpin::package::find_duplicates;
use linchpin::prelude::*;
use linchpin::{FieldEnum, entity, operation, package, route};

/// The status of a post.
#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status {
    /// Not public.
    Draft,
    /// Public.
    Published,
    /// Gone from lists.
    Archived,
}

/// A post.
#[entity(namespace = "blog", unique(slug), index(created_at), sort = desc(created_at), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub title: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0)]
    pub views: i64,
    #[field(default = 0.0)]
    pub score: f64,
    pub tags: Vec<String>,
    pub author_id: Option<String>,
    #[field(read_only)]
    pub published_at: Option<Timestamp>,
    #[field(default = now)]
    pub created_at: Timestamp,
}

/// Publishes.
#[operation(
    kind = "transition",
    field = status,
    from = [Status::Draft, Status::Archived],
    to = Status::Published,
    match(id = param(id), author_id = ctx(actor.id)),
    set(published_at = now(), title = param(new_title)),
    route(roles = ["editor"], timeout = "5s"),
)]
pub const PUBLISH: Operation<Post>;

#[operation(kind = "transition", field = status, from = Status::Published, to = Status::Archived, match(slug = param(slug)), returns = "boolean")]
pub const ARCHIVE: Operation<Post>;

#[operation(kind = "lookup", fields(slug = param(slug)), filter = (status != Status::Archived), returns = "one")]
pub const BY_SLUG: Operation<Post>;

#[operation(
    kind = "lookup",
    fields(author_id = param(author_id), status = param(status)),
    filter = (views >= param(min_views) && (title.contains(param(q)) || tags.has("rust")) && status.one_of(param(any_of)) && published_at.is_some()),
    optional_params(min_views, status),
    returns = "many",
    sort = asc(title),
    limit = 50,
    paginate,
)]
pub const BY_AUTHOR: Operation<Post>;

#[operation(kind = "exists", fields(slug = param(slug)), check(status = Status::Published))]
pub const SLUG_TAKEN: Operation<Post>;

#[operation(kind = "increment", field = views)]
pub const VIEW: Operation<Post>;

#[operation(kind = "increment", field = score, by = -0.5, route(method = "PUT", path = "{id}/score/down"))]
pub const DOWN: Operation<Post>;

/// The newest posts.
#[route(entity = Post, method = "GET", path = "feed.xml", auth = "userAuth")]
async fn feed(_posts: PostAdapter, cx: Cx) -> Result<String> {
    Ok(cx.request_id().to_owned())
}

static BLOG: Package = package!(
    name = "blog",
    mount = "/api",
    entities = [entity(
        Post,
        [
            PUBLISH, ARCHIVE, BY_SLUG, BY_AUTHOR, SLUG_TAKEN, VIEW, DOWN, feed
        ]
    )],
    dependencies = ["auth"],
);

static COPY: Package = package!(
    name = "copy",
    mount = "//api/",
    entities = [entity(Post, [BY_SLUG])]
);

const _: () = linchpin::package::assert_distinct_routes(&[&BLOG]);

fn routes(operation: Operation<Post>) -> Vec<(Method, &'static [Seg])> {
    operation
        .spec()
        .routes
        .iter()
        .map(|r| (r.method, r.segments))
        .collect()
}

fn param(operation: Operation<Post>, name: &str) -> &'static ParamSpec {
    let params = operation.spec().params;
    params
        .iter()
        .find(|p| p.name == name)
        .unwrap_or_else(|| panic!("no parameter {name} in {params:?}"))
}

#[test]
fn a_transition_has_its_route_parameters_and_policy() {
    let spec = PUBLISH.spec();
    assert_eq!(
        (spec.name, spec.kind.name(), spec.doc),
        ("publish", "transition", "Publishes.")
    );
    assert_eq!(
        routes(PUBLISH),
        [(Method::Post, &[Seg::Param("id"), Seg::Lit("publish")][..])]
    );
    assert_eq!(param(PUBLISH, "id").place, Place::Id);
    let title = param(PUBLISH, "newTitle");
    assert_eq!(
        (title.place, title.field, title.required, title.nullable),
        (Place::Body, 2, true, false)
    );
    assert_eq!(spec.policy.roles, Some(&["editor"][..]));
    assert_eq!(spec.policy.timeout, Some(5_000));
    let kind = format!("{:?}", spec.kind);
    assert!(
        kind.contains("Ctx(ActorId)") && kind.contains("Now"),
        "{kind}"
    );
}

#[test]
fn a_match_without_the_id_has_no_path_parameter() {
    assert_eq!(
        routes(ARCHIVE),
        [(Method::Post, &[Seg::Lit("archive")][..])]
    );
    assert_eq!(param(ARCHIVE, "slug").place, Place::Body);
}

#[test]
fn a_lookup_has_a_query_route_and_a_path_route() {
    let own = Seg::Lit("by-slug");
    assert_eq!(
        routes(BY_SLUG),
        [
            (Method::Get, &[own][..]),
            (Method::Get, &[own, Seg::Param("slug")][..])
        ]
    );
    let slug = param(BY_SLUG, "slug");
    assert_eq!(
        (slug.place, slug.required, slug.nullable),
        (Place::Segment, false, false)
    );
}

#[test]
fn optional_parameters_stay_in_the_query() {
    let own = Seg::Lit("by-author");
    assert_eq!(
        routes(BY_AUTHOR),
        [
            (Method::Get, &[own][..]),
            (Method::Get, &[own, Seg::Param("authorId")][..])
        ]
    );
    assert_eq!(
        (
            param(BY_AUTHOR, "authorId").place,
            param(BY_AUTHOR, "authorId").nullable
        ),
        (Place::Segment, true)
    );
    assert_eq!(param(BY_AUTHOR, "status").place, Place::Query);
    assert!(!param(BY_AUTHOR, "minViews").required && param(BY_AUTHOR, "q").required);
    assert!(param(BY_AUTHOR, "anyOf").list && !param(BY_AUTHOR, "q").list);
    let spec = BY_AUTHOR.spec();
    assert_eq!(spec.kind.returns(), linchpin::operation::Answer::Page);
}

#[test]
fn exists_requires_its_parameters() {
    assert_eq!(routes(SLUG_TAKEN).len(), 2);
    assert!(param(SLUG_TAKEN, "slug").required);
}

#[test]
fn an_increment_adds_1_or_the_declared_number() {
    assert!(format!("{:?}", VIEW.spec().kind).contains("by: Int(1)"));
    assert!(format!("{:?}", DOWN.spec().kind).contains("by: Float(-0.5)"));
    assert_eq!(
        routes(DOWN),
        [(
            Method::Put,
            &[Seg::Param("id"), Seg::Lit("score"), Seg::Lit("down")][..]
        )]
    );
    assert_eq!(param(DOWN, "id").place, Place::Id);
}

#[test]
fn packages_list_entities_operations_and_routes() {
    assert_eq!(
        (BLOG.name, BLOG.mount, BLOG.dependencies),
        ("blog", "/api", &["auth"][..])
    );
    let entry = &BLOG.entities[0];
    assert_eq!(entry.desc.name, "Post");
    let names: Vec<_> = entry.operations.iter().map(|o| o.name).collect();
    assert_eq!(
        names,
        [
            "publish",
            "archive",
            "by_slug",
            "by_author",
            "slug_taken",
            "view",
            "down"
        ]
    );
    let extra = &entry.routes[0];
    assert_eq!(
        (extra.name, extra.route.segments, extra.doc),
        ("feed", &[Seg::Lit("feed.xml")][..], "The newest posts.")
    );
    assert_eq!(extra.policy.auth, Some(AuthDesc::Named("userAuth")));
}

#[test]
fn start_up_lists_every_duplicate() {
    assert_eq!(find_duplicates(&[&BLOG]), [""; 0]);
    let found = find_duplicates(&[&BLOG, &COPY]);
    assert_eq!(found.len(), 7, "{found:#?}");
    assert!(
        found[0].starts_with(
            "duplicate route POST /api/posts: generated create of Post at /api/posts ("
        ) && found[0].contains("operations.rs:")
    );
    assert!(found[0].ends_with("; use another `path = \"..\"` on Post"));
    assert!(found[6].contains("GET /api/posts/by-slug/{slug}: operation by_slug of Post at /api/posts/by-slug/{slug} ("), "{}", found[6]);
}

/// Calls the adapter methods with arguments of the declared types. It is compiled and never run.
#[allow(dead_code)] // the test is that it compiles
async fn methods(posts: PostAdapter, cx: Cx) -> Result<()> {
    let _: Post = posts.publish(&cx, "p1", "A title").await?;
    let _: bool = posts.archive(&cx, "slug").await?;
    let _: Option<Post> = posts.by_slug(&cx, "hello").await?;
    let _: Page<Post> = posts
        .by_author(
            &cx,
            Param::Null,
            Status::Draft,
            3,
            "text",
            [Status::Draft],
            PageArgs::default(),
        )
        .await?;
    let _: bool = posts.slug_taken(&cx, "x").await?;
    let _: Post = posts.view(&cx, String::from("p1")).await?;
    Ok(())
}
