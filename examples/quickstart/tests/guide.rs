//! The snippets of `docs/guide.md`, compiled and used.

use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum State {
    Draft,
    #[field(rename = "in_review")]
    Review,
    Published,
}

/// Somewhere to read on.
#[derive(Embedded, Clone, Debug)]
pub struct Link {
    #[field(length = 1..=80)]
    pub label: String,
    #[field(format = "url")]
    pub target: String,
}

/// Something to read.
#[entity(
    namespace = "press",
    unique(slug),
    index(author_id, created_at),
    sort = desc(created_at),
    pagination(default = 20, max = 100),
    version,
    routes(auth = "userAuth", get(auth = none), list(auth = none), delete(roles = ["editor"])),
)]
#[derive(Clone, Debug)]
pub struct Article {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(format = "slug", length = ..=80)]
    pub slug: String,
    #[field(length = 1..=200)]
    pub title: String,
    #[field(immutable)]
    pub author_id: String,
    #[field(default = State::Draft)]
    pub state: State,
    #[field(items = ..=10, unique_items, each(length = 1..=32))]
    pub tags: Vec<String>,
    pub links: Vec<Link>,
    #[field(default = 0, range = 0.., read_only)]
    pub views: i64,
    #[field(private)]
    pub remarks: Option<String>,
    pub published_at: Option<Timestamp>,
    #[field(default = now)]
    pub created_at: Timestamp,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

/// The article with this slug.
#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(auth = none))]
pub const BY_SLUG: Operation<Article>;

/// What an author has published, newest first.
#[operation(
    kind = "lookup",
    fields(author_id = param(author_id)),
    filter = (state == State::Published && published_at <= now()),
    returns = "many",
    paginate,
    route(auth = none),
)]
pub const BY_AUTHOR: Operation<Article>;

/// Whether a slug is in use.
#[operation(kind = "exists", fields(slug = param(slug)))]
pub const SLUG_TAKEN: Operation<Article>;

/// Publishes an article.
#[operation(
    kind = "transition",
    field = state, from = [State::Draft, State::Review], to = State::Published,
    set(published_at = now()),
    route(roles = ["editor"]),
)]
pub const PUBLISH: Operation<Article>;

/// Counts a reader.
#[operation(kind = "increment", field = views, route(auth = none))]
pub const READ: Operation<Article>;

/// Articles and all that is done with them.
pub static PRESS: Package = package!(name = "press", entities = [entity(Article, [BY_SLUG, BY_AUTHOR, SLUG_TAKEN, PUBLISH, READ])]);

async fn in_code() -> Result<()> {
    let app = App::new(Config::new().port(0).database("memory:").signing_secret("only a test: 32 bytes or more of it"))
        .plugin(JwtAuth::new())
        .package(&PRESS)
        .start()
        .await?;
    let articles = app.adapter::<Article>()?;
    let cx = Cx::actor(Actor::user("alice"));

    let article = articles
        .create(
            &cx,
            ArticleCreate {
                slug: "hello".to_owned(),
                title: "Hello".to_owned(),
                author_id: "alice".to_owned(),
                state: None,
                tags: None,
                links: None,
                remarks: None,
                published_at: None,
            },
        )
        .await?;
    assert_eq!(article.state, State::Draft);

    let published = articles.publish(&cx, &article.id).await?;
    assert!(published.published_at.is_some());
    assert!(articles.slug_taken(&cx, "hello").await?);

    let query = ListQuery::new().filter(article::state.eq(State::Published)).sort(article::created_at, Direction::Asc).limit(10);
    let page = articles.list(&cx, query).await?;
    assert_eq!(page.items.len(), 1);

    let taken = articles.publish(&cx, &article.id).await;
    assert_eq!(taken.map_err(|error| error.code().as_str()).err(), Some("invalid_transition"));
    app.stop().await
}

#[tokio::test]
async fn the_guide_does_what_it_says() {
    in_code().await.expect("the guide's code runs");
}
