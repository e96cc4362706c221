//! Compiles and tests the snippets of `docs/guide.md`.
#![allow(clippy::unused_async)] // functions of custom operations are async by their signature

mod extended;
mod facade;
mod library;
mod lifecycle;
mod routes;
mod tutorial;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use linchpin::axum::extract::{Path, Query};
use linchpin::prelude::*;
use linchpin::testing::Client;
use linchpin_auth::{Auth, AuthService, NewUser};
use serde_json::json;

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum State {
    Draft,
    #[field(rename = "in_review")]
    Review,
    Published,
}

/// A link to further reading.
#[derive(Embedded, Clone, Debug)]
pub struct Link {
    #[field(length = 1..=80)]
    pub label: String,
    #[field(format = "url")]
    pub target: String,
}

/// An article.
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

/// The published articles of an author, newest first.
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

/// Counts a view.
#[operation(kind = "increment", field = views, route(auth = none))]
pub const READ: Operation<Article>;

/// The titles of an author's published articles, one per line:
/// `GET /articles/titles/{author}?limit=5`.
#[route(entity = Article, method = "GET", path = "titles/{author}", auth = none, timeout = "2s")]
async fn titles(
    articles: ArticleAdapter,
    cx: Cx,
    Path(author): Path<String>,
    Query(query): Query<HashMap<String, u32>>,
) -> Result<String> {
    let page = PageArgs {
        limit: query.get("limit").copied(),
        ..PageArgs::default()
    };
    let page = articles.by_author(&cx, author, page).await?;
    Ok(page
        .items
        .iter()
        .map(|article| format!("{}\n", article.title))
        .collect())
}

/// The most read articles of an author.
#[operation(
    kind = "custom",
    http(method = "GET", path = "popular/{author}"),
    params(author: String),
    output = Vec<Article>,
    handler(sqlite = popular, postgres = popular, memory = popular_in_memory),
)]
pub const POPULAR: Operation<Article>;

async fn popular<S: SqlStore>(
    call: CustomCall<Article, S>,
    author: String,
) -> Result<Records<Article>> {
    Ok(call
        .records("author_id = $1")
        .bind(author)
        .order_by("views DESC")
        .limit(5))
}

async fn popular_in_memory(call: MemoryCall<Article>, author: String) -> Result<Vec<String>> {
    let mut articles = call.visible().await?;
    articles.retain(|article| article.author_id == author);
    articles.sort_by_key(|article| -article.views);
    Ok(articles
        .into_iter()
        .take(5)
        .map(|article| article.id)
        .collect())
}

/// Articles and their operations.
pub static PRESS: Package = package!(
    name = "press",
    entities = [entity(
        Article,
        [
            BY_SLUG, BY_AUTHOR, SLUG_TAKEN, PUBLISH, READ, POPULAR, titles
        ]
    )]
);

async fn in_code() -> Result<()> {
    let app = App::new(
        Config::new()
            .port(0)
            .database("memory:")
            .signing_secret("only a test: 32 bytes or more of it"),
    )
    .plugin(Auth::new().roles(["editor"]))
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

    let hers = article::state
        .eq(State::Published)
        .and(article::author_id.eq("alice"));
    let query = ListQuery::new()
        .filter(hers)
        .sort(article::created_at, Direction::Asc)
        .limit(10);
    let page = articles.list(&cx, query).await?;
    assert_eq!(page.items.len(), 1);

    let taken = articles.publish(&cx, &article.id).await;
    assert_eq!(
        taken.map_err(|error| error.code().as_str()).err(),
        Some("invalid_transition")
    );
    app.stop().await
}

async fn editors_publish() -> Result<()> {
    let config = Config::new()
        .port(0)
        .database("memory:")
        .signing_secret("only a test: 32 bytes or more of it");
    let app = App::new(config)
        .plugin(Auth::new().roles(["editor"]))
        .package(&PRESS)
        .start()
        .await?;
    let accounts = app.adapters().provided::<AuthService>()?;
    let caller = async |new: NewUser| -> Result<Client> {
        let account = accounts.create_user(new).await?;
        Client::new(&app).bearer(accounts.sign_in(&account.id).await?.expose())
    };
    let alice = caller(NewUser::new("alice@example.com")).await?;
    let editor = caller(NewUser::new("ed@example.com").roles(["editor"])).await?;

    let written = alice
        .post(
            "/articles",
            json!({"slug": "hello", "title": "Hello", "authorId": "alice"}),
        )
        .await?;
    assert_eq!(
        (written.status(), written.json()?["state"].as_str()),
        (201, Some("draft"))
    );
    let path = format!(
        "/articles/{}/publish",
        written.json()?["id"].as_str().unwrap_or_default()
    );

    assert_eq!(alice.post(&path, ()).await?.json()?["code"], "forbidden");
    assert_eq!(editor.post(&path, ()).await?.json()?["state"], "published");
    assert_eq!(
        Client::new(&app)
            .get("/articles/by-slug/hello")
            .await?
            .status(),
        200
    );
    app.stop().await
}

#[tokio::test]
async fn editors_can_publish_articles_of_other_users() {
    editors_publish()
        .await
        .expect("the test of the guide passes");
}

#[tokio::test]
async fn the_code_of_the_guide_gives_the_documented_results() {
    in_code().await.expect("the guide's code runs");
}

/// Sends a request and returns the status and the body of the response. `headers` are complete
/// lines.
fn send_request(address: SocketAddr, method: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("the app listens");
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n"
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (
        head.split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("a status"),
        body.to_owned(),
    )
}
