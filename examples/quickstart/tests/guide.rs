//! The snippets of `docs/guide.md`, compiled and used.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use linchpin::axum::extract::{Path, Query};
use linchpin::axum::http::HeaderValue;
use linchpin::axum::http::request::Parts;
use linchpin::axum::response::Response;
use linchpin::axum::routing::get;
use linchpin::http::{ActorResolver, Inputs, Origin, OverrideCall, Resolution, RouteAuth};
use linchpin::prelude::*;
use linchpin::resource::Outcome;
use linchpin::testing::Client;
use linchpin::{AccessRequest, BoxFuture, Code, Decision, Evaluator, MiddlewareCx, Plugin, PostCx, Route, RoutesCx, Running, Value};
use linchpin_auth::{Auth, AuthService, NewUser};
use serde_json::json;

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

/// A shelf in a library.
#[entity(has_many(books: Book, key = shelf_id, max = 20), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Shelf {
    #[field(primary)]
    pub id: String,
    pub label: String,
}

/// A book, on a shelf or lent out.
#[entity(belongs_to(shelf: Shelf, key = shelf_id), sort = asc(title), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Book {
    #[field(primary)]
    pub id: String,
    pub title: String,
    pub shelf_id: Option<String>,
}

/// Somebody who reads.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Reader {
    #[field(primary)]
    pub id: String,
}

/// A loan ends with its book, and outlives its reader.
#[entity(
    belongs_to(book: Book, key = book_id, on_delete = "cascade"),
    belongs_to(reader: Reader, key = reader_id, on_delete = "set_null"),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Loan {
    #[field(primary, default = uuid)]
    pub id: String,
    pub book_id: String,
    pub reader_id: Option<String>,
}

async fn beside(books: BookAdapter, shelves: ShelfAdapter, cx: &Cx) -> Result<(Vec<Option<Shelf>>, Vec<Page<Book>>)> {
    let shelf_of_each = books.related(cx, Book::SHELF, [Some("s1".to_owned()), None]).await?;
    let first_books = shelves.related_pages(cx, Shelf::BOOKS, ["s1", "s2"]).await?;
    Ok((shelf_of_each, first_books))
}

static LIBRARY: Package =
    package!(name = "library", entities = [entity(Shelf, []), entity(Book, []), entity(Reader, []), entity(Loan, [])]);

/// The titles of what an author has published, one a line: `GET /articles/titles/{author}?limit=5`.
#[route(entity = Article, method = "GET", path = "titles/{author}", auth = none, timeout = "2s")]
async fn titles(articles: ArticleAdapter, cx: Cx, Path(author): Path<String>, Query(query): Query<HashMap<String, u32>>) -> Result<String> {
    let page = PageArgs { limit: query.get("limit").copied(), ..PageArgs::default() };
    let page = articles.by_author(&cx, author, page).await?;
    Ok(page.items.iter().map(|article| format!("{}\n", article.title)).collect())
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

async fn popular<S: SqlStore>(call: CustomCall<Article, S>, author: String) -> Result<Vec<String>> {
    let text = "SELECT id FROM {visible} WHERE author_id = $1 ORDER BY views DESC LIMIT 5";
    call.sql(text).bind(author).column("id").await
}

async fn popular_in_memory(call: MemoryCall<Article>, author: String) -> Result<Vec<String>> {
    let mut articles = call.visible().await?;
    articles.retain(|article| article.author_id == author);
    articles.sort_by_key(|article| -article.views);
    Ok(articles.into_iter().take(5).map(|article| article.id).collect())
}

/// Articles and all that is done with them.
pub static PRESS: Package =
    package!(name = "press", entities = [entity(Article, [BY_SLUG, BY_AUTHOR, SLUG_TAKEN, PUBLISH, READ, POPULAR, titles])]);

async fn in_code() -> Result<()> {
    let app = App::new(Config::new().port(0).database("memory:").signing_secret("only a test: 32 bytes or more of it"))
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

    let query = ListQuery::new().filter(article::state.eq(State::Published)).sort(article::created_at, Direction::Asc).limit(10);
    let page = articles.list(&cx, query).await?;
    assert_eq!(page.items.len(), 1);

    let taken = articles.publish(&cx, &article.id).await;
    assert_eq!(taken.map_err(|error| error.code().as_str()).err(), Some("invalid_transition"));
    app.stop().await
}

/// What is published stays.
async fn keep_published(call: OverrideCall) -> Result<Outcome> {
    let Inputs::Delete(Value::Text(id), version) = call.inputs else { return Err(Error::internal("not a delete")) };
    let articles = call.adapters.get::<Article>()?;
    if articles.get(&call.cx, &id).await?.is_some_and(|article| article.state == State::Published) {
        return Err(Error::new(Code::Conflict, "A published article stays"));
    }
    articles.delete(&call.cx, id, version).await?;
    Ok(Outcome::Nothing)
}

/// What a reader says of an article.
#[entity(routes(
    get(auth = none),
    list(auth = none),
    create(permission(requires = "comment.write", owner_field = author_id), middleware = [polite]),
    update(permission(requires = "comment.edit", or = ["comment.moderate"], owner_field = author_id)),
    delete(permission(requires = "comment.moderate", owner_field = author_id, resource = article_id)),
))]
#[derive(Clone, Debug)]
pub struct Remark {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(filterable)]
    pub article_id: String,
    pub author_id: String,
    #[field(length = 1..=2000)]
    pub text: String,
}

/// Remarks, apart from what they are about.
pub static READERS: Package = package!(name = "readers", entities = [entity(Remark, [])]);

/// Moderators may do anything; whoever is muted may do nothing, not even with what is theirs.
struct House;

impl Evaluator for House {
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        let decision = match request.actor {
            actor if actor.has_any_role(&["muted"]) => Decision::Deny,
            actor if actor.has_any_role(&["moderator"]) => Decision::Allow,
            _ => Decision::Abstain,
        };
        Box::pin(async { Ok(decision) })
    }
}

impl Plugin for House {
    fn name(&self) -> &str {
        "house"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.registrar().set_evaluator(House) })
    }
}

/// Refuses clients that do not say who they are, and tells them how it went.
async fn polite(call: RouteCall<'_>, next: Next<'_>) -> Result<Response> {
    if !call.parts.headers.contains_key("user-agent") {
        return Err(Error::forbidden());
    }
    let mut response = next.await?;
    response.headers_mut().insert("x-thanks", HeaderValue::from_static("for the remark"));
    Ok(response)
}

/// Says hello, and goodbye to the log.
struct Greeter;

impl Plugin for Greeter {
    fn name(&self) -> &str {
        "greeter"
    }

    fn setup_routes<'a>(&'a self, cx: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            cx.route("/hello/{name}", get(|Path(name): Path<String>| async move { format!("Hello, {name}!") }));
            Ok(())
        })
    }

    fn teardown(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            println!("goodbye");
            Ok(())
        })
    }
}

/// Trusts the gateway in front, which has checked who calls and says so in a header.
struct GatewayAuth;

impl ActorResolver for GatewayAuth {
    fn resolve(&self, parts: &Parts, _: Origin<'_>) -> Resolution {
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let actor = match header("x-user") {
            Some(user) => Actor::user(user).with_roles(header("x-roles").into_iter().flat_map(|roles| roles.split(','))),
            None => Actor::anonymous(),
        };
        Resolution::Ready(Ok(Arc::new(actor)))
    }
}

impl Plugin for GatewayAuth {
    fn name(&self) -> &str {
        "gateway-auth"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.set_actor_resolver(Arc::new(GatewayAuth)) })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.registrar().set_route_auth(RouteAuth::default()) })
    }
}

async fn extended() -> Result<Running> {
    App::new(Config::new().port(0).database("memory:").signing_secret("only a test: 32 bytes or more of it"))
        .package(&PRESS)
        .package(&READERS)
        .plugin(GatewayAuth)
        .plugin(Greeter)
        .plugin(House)
        .override_route::<Article, _, _>(Route::Delete, keep_published)
        .after_adapters(|adapters| async move {
            let articles = adapters.get::<Article>()?;
            let imprint = ArticleCreate { slug: "imprint".to_owned(), title: "Imprint".to_owned(), ..blank("the press") };
            let cx = Cx::system("seed");
            let imprint = articles.create(&cx, imprint).await?;
            articles.publish(&cx, imprint.id).await?;
            Ok(())
        })
        .start()
        .await
}

/// An article of an author, with everything else left out.
fn blank(author: &str) -> ArticleCreate {
    ArticleCreate {
        slug: String::new(),
        title: String::new(),
        author_id: author.to_owned(),
        state: None,
        tags: None,
        links: None,
        remarks: None,
        published_at: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn relations_are_shown() {
    let config = Config::new().port(0).database("memory:").signing_secret("only a test: 32 bytes or more of it");
    let app = App::new(config).package(&LIBRARY).start().await.expect("the app starts");
    let (books, shelves) = (app.adapter::<Book>().expect("books"), app.adapter::<Shelf>().expect("shelves"));
    let cx = Cx::system("seed");
    shelves.create(&cx, ShelfCreate { id: "s1".to_owned(), label: "Poems".to_owned() }).await.expect("a shelf");
    let book = BookCreate { id: "b1".to_owned(), title: "Odes".to_owned(), shelf_id: Some("s1".to_owned()) };
    books.create(&cx, book).await.expect("a book");
    let (status, body) = ask(app.address(), "GET", "/books?include=shelf", "");
    assert!(status == 200 && body.contains(r#""shelf":{"id":"s1","label":"Poems"}"#), "{status} {body}");
    let (status, body) = ask(app.address(), "GET", "/shelves/s1?include=books", "");
    assert!(status == 200 && body.contains(r#""books":{"items":[{"id":"b1","#), "{status} {body}");
    let loans = app.adapter::<Loan>().expect("loans");
    let loan = |book: &str| LoanCreate { book_id: book.to_owned(), reader_id: None };
    loans.create(&cx, loan("b2")).await.expect_err("there is no such book");
    loans.create(&cx, loan("b1")).await.expect("a loan");
    books.create(&cx, BookCreate { id: "b3".to_owned(), title: "Epics".to_owned(), shelf_id: None }).await.expect("a book");
    loans.create(&cx, loan("b3")).await.expect("a loan");
    books.delete(&cx, "b3", None).await.expect("deleted");
    assert_eq!(loans.list(&cx, LoanListQuery::new()).await.expect("loans").items.len(), 1);
    let (shelf_of_each, first_books) = beside(books, shelves, &cx).await.expect("related");
    assert!(shelf_of_each[0].is_some() && shelf_of_each[1].is_none());
    assert_eq!(first_books.iter().map(|page| page.items.len()).collect::<Vec<_>>(), [1, 0]);
    app.stop().await.expect("it stops");
}

async fn editors_publish() -> Result<()> {
    let config = Config::new().port(0).database("memory:").signing_secret("only a test: 32 bytes or more of it");
    let app = App::new(config).plugin(Auth::new().roles(["editor"])).package(&PRESS).start().await?;
    let accounts = app.adapters().provided::<AuthService>()?;
    let caller = async |new: NewUser| -> Result<Client> {
        let account = accounts.create_user(new).await?;
        Client::new(&app).bearer(accounts.sign_in(&account.id).await?.expose())
    };
    let alice = caller(NewUser::new("alice@example.com")).await?;
    let editor = caller(NewUser::new("ed@example.com").roles(["editor"])).await?;

    let written = alice.post("/articles", json!({"slug": "hello", "title": "Hello", "authorId": "alice"})).await?;
    assert_eq!((written.status(), written.json()?["state"].as_str()), (201, Some("draft")));
    let path = format!("/articles/{}/publish", written.json()?["id"].as_str().unwrap_or_default());

    assert_eq!(alice.post(&path, ()).await?.json()?["code"], "forbidden");
    assert_eq!(editor.post(&path, ()).await?.json()?["state"], "published");
    assert_eq!(Client::new(&app).get("/articles/by-slug/hello").await?.status(), 200);
    app.stop().await
}

#[tokio::test]
async fn the_guide_tests_an_app() {
    editors_publish().await.expect("runs");
}

#[tokio::test]
async fn the_guide_does_what_it_says() {
    in_code().await.expect("the guide's code runs");
}

/// Status and body of an answer; headers are whole lines.
fn ask(at: SocketAddr, method: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).expect("the app listens");
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_guide_adds_is_served() {
    let app = extended().await.expect("the app starts");
    let (at, articles) = (app.address(), app.adapter::<Article>().expect("the adapter"));
    let cx = Cx::actor(Actor::user("alice"));

    assert_eq!(ask(at, "GET", "/articles/titles/the%20press?limit=5", ""), (200, "Imprint\n".to_owned()));
    assert_eq!(ask(at, "GET", "/articles/titles/nobody", ""), (200, String::new()));
    assert_eq!(ask(at, "GET", "/articles/titles/x?limit=x", "").0, 400);
    assert_eq!(ask(at, "GET", "/hello/you", ""), (200, "Hello, you!".to_owned()));

    let imprint = articles.by_slug(&cx, "imprint").await.expect("read").expect("the seed");
    let path = format!("/articles/{}", imprint.id);
    let editor = "x-user: alice\r\nx-roles: editor\r\nif-match: \"2\"\r\n";
    assert_eq!(ask(at, "DELETE", &path, "").0, 401);
    assert_eq!(ask(at, "DELETE", &path, "x-user: bob\r\n").0, 403);
    let (status, body) = ask(at, "DELETE", &path, editor);
    assert!(status == 409 && body.contains("A published article stays"), "{status} {body}");
    let draft = ArticleCreate { slug: "draft".to_owned(), title: "Draft".to_owned(), ..blank("alice") };
    let draft = articles.create(&cx, draft).await.expect("created");
    let path = format!("/articles/{}", draft.id);
    assert_eq!(ask(at, "DELETE", &path, editor).0, 412, "the version still counts");
    assert_eq!(ask(at, "DELETE", &path, &editor.replace('2', "1")).0, 204);

    let remark = |by: &str, agent: &str| {
        let body = r#"{"articleId":"a","authorId":"alice","text":"Well said"}"#;
        let length = body.len();
        let headers = format!("x-user: {by}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{agent}");
        ask(at, "POST", "/remarks", &format!("{headers}\r\n{body}"))
    };
    assert_eq!(remark("alice", "").0, 403, "the middleware refuses");
    assert_eq!(remark("bob", "user-agent: test\r\n").0, 403, "in her name");
    assert_eq!(remark("alice", "user-agent: test\r\nx-roles: muted\r\n").0, 403);
    assert_eq!(remark("alice", "user-agent: test\r\n").0, 201);
    let page = app.adapter::<Remark>().expect("the adapter").list(&cx, ListQuery::new()).await.expect("listed");
    let path = format!("/remarks/{}", page.items[0].id);
    assert_eq!(ask(at, "DELETE", &path, "x-user: bob\r\n").0, 403);
    assert_eq!(ask(at, "DELETE", &path, "x-user: alice\r\nx-roles: muted\r\n").0, 403);
    assert_eq!(ask(at, "DELETE", &path, "x-user: bob\r\nx-roles: moderator\r\n").0, 204);
    app.stop().await.expect("it stops");
}
