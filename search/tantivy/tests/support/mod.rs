//! An app with an index in a directory, and a small client.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use linchpin::http::{ActorResolver, Origin, Resolution, RouteAuth};
use linchpin::prelude::*;
use linchpin::search::{SearchIndex, SearchProvider, SearchQuery};
use linchpin::{Actor, BoxFuture, MiddlewareCx, Plugin, PostCx, Result, Running};
use linchpin_search_tantivy::Tantivy;

/// A record that every caller may read.
#[entity(search(provider = "tantivy", fields(title = 3, body = 1)), pagination(default = 50, max = 1000), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Article {
    #[field(primary)]
    pub id: String,
    pub title: String,
    pub body: String,
}

#[operation(kind = "search", fields(title, body))]
pub const FIND: Operation<Article>;

#[operation(kind = "search", fields(title))]
pub const FIND_TITLE: Operation<Article>;

#[operation(kind = "search", fields(title, body), paginate)]
pub const FIND_PAGE: Operation<Article>;

#[operation(kind = "batch", action = "update", filter = (body == param(body)), set(body = param(to)))]
pub const RENAME_ALL: Operation<Article>;

/// A record of a tenant.
#[entity(search(provider = "tantivy", fields(text = 1)), tenant(team))]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary)]
    pub id: String,
    #[field(private)]
    pub team: String,
    pub text: String,
}

#[operation(kind = "search", fields(text))]
pub const HUNT: Operation<Note>;

pub static SHELF: Package = package!(
    name = "shelf",
    entities = [
        entity(Article, [FIND, FIND_TITLE, FIND_PAGE, RENAME_ALL]),
        entity(Note, [HUNT])
    ]
);

/// Authenticates callers whose tenant is in the header `x-team`.
struct TeamAuth;

impl ActorResolver for TeamAuth {
    fn resolve(&self, parts: &axum::http::request::Parts, _: Origin<'_>) -> Resolution {
        let team = parts
            .headers
            .get("x-team")
            .and_then(|team| team.to_str().ok());
        let actor = team.map_or_else(Actor::anonymous, |team| Actor {
            tenant_id: Some(team.to_owned()),
            ..Actor::user("somebody")
        });
        Resolution::Ready(Ok(Arc::new(actor)))
    }
}

impl Plugin for TeamAuth {
    fn name(&self) -> &'static str {
        "team-auth"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.set_actor_resolver(Arc::new(TeamAuth)) })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.registrar().set_route_auth(RouteAuth::default()) })
    }
}

pub async fn try_start(folder: &Path, database: &str) -> Result<Running> {
    app(folder, database)
        .search_provider("tantivy", Tantivy::in_folder(folder.join("search")))
        .start()
        .await
}

/// The app without its search provider.
pub fn app(folder: &Path, database: &str) -> App {
    let database = format!("sqlite:{}", folder.join(database).display());
    let config = Config::new()
        .signing_secret("a-secret-of-the-search-tests-32-b")
        .port(0)
        .database(database);
    App::new(config).plugin(TeamAuth).package(&SHELF)
}

pub async fn start(folder: &Path) -> Library {
    Library::of(try_start(folder, "test.db").await.unwrap())
}

/// Starts the app with an index in memory.
pub async fn start_in_memory(folder: &Path) -> Library {
    Library::of(
        app(folder, "test.db")
            .search_provider("tantivy", Tantivy::in_memory())
            .start()
            .await
            .unwrap(),
    )
}

/// Waits until a condition is true.
pub async fn eventually(holds: impl AsyncFn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_mins(1), async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.expect("in time");
}

/// A running app, with a client for its routes.
pub struct Library {
    pub running: Running,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Library {
    fn of(running: Running) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build(HttpConnector::new()),
            running,
        }
    }

    async fn request(
        &self,
        team: Option<&str>,
        method: &str,
        path: &str,
        body: &str,
    ) -> (u16, String) {
        let mut request = axum::http::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.running.address()));
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        if let Some(team) = team {
            request = request.header("x-team", team);
        }
        let request = request
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
            .unwrap();
        let (parts, body) = self.client.request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (
            parts.status.as_u16(),
            String::from_utf8(body.to_vec()).unwrap(),
        )
    }

    pub async fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.request(None, method, path, body).await
    }

    pub async fn article(&self, id: &str, title: &str, body: &str) {
        let body = serde_json::json!({"id": id, "title": title, "body": body}).to_string();
        let (status, answer) = self.send("POST", "/articles", &body).await;
        assert_eq!(status, 201, "{answer}");
    }

    /// Creates many articles at once.
    pub async fn articles(&self, count: usize) {
        let articles = self.running.adapter::<Article>().unwrap();
        let cx = Cx::system("a test");
        let made = cx.transaction(async |cx| {
            for n in 0..count {
                let (id, title, body) =
                    (format!("bulk-{n:04}"), "many".to_owned(), "bulk".to_owned());
                articles
                    .create(cx, ArticleCreate { id, title, body })
                    .await?;
            }
            Ok(())
        });
        made.await.unwrap();
    }

    pub async fn note(&self, team: &str, id: &str) {
        let body = serde_json::json!({"id": id, "text": "a secret"}).to_string();
        let (status, answer) = self.request(Some(team), "POST", "/notes", &body).await;
        assert_eq!(status, 201, "{answer}");
    }

    pub async fn hunt(&self, team: &str, q: &str) -> Vec<String> {
        let (status, answer) = self
            .request(
                Some(team),
                "GET",
                &format!("/notes/hunt?q={}", percent(q)),
                "",
            )
            .await;
        assert_eq!(status, 200, "{answer}");
        ids(&serde_json::from_str(&answer).unwrap())
    }

    /// The ids of the records in a response that is an array.
    pub async fn ids(&self, path: &str) -> Vec<String> {
        let (status, answer) = self.send("GET", path, "").await;
        assert_eq!(status, 200, "{path} {answer}");
        ids(&serde_json::from_str(&answer).unwrap())
    }

    pub async fn find(&self, q: &str) -> Vec<String> {
        self.ids(&format!("/articles/find?q={}", percent(q))).await
    }

    pub async fn count(&self, q: &str) -> usize {
        self.find(q).await.len()
    }

    /// Waits until the index has this number of records of an entity.
    pub async fn indexed(&self, entity: &str, count: usize) {
        assert_eq!(entity, "articles");
        eventually(async || {
            let (mut found, articles) = (0, self.running.adapter::<Article>().unwrap());
            let page = linchpin::entity::ListQuery::<Article>::new().limit(1000);
            for article in articles
                .list(&Cx::system("a test"), page)
                .await
                .unwrap()
                .items
            {
                found += usize::from(self.find(&article.title).await.contains(&article.id));
            }
            found == count
        })
        .await;
    }

    /// The ids on all pages of a search.
    pub async fn walk(&self, q: &str, limit: usize) -> Vec<String> {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let (status, answer) = self
                .send(
                    "GET",
                    &format!("/articles/find-page?q={}&limit={limit}{cursor}", percent(q)),
                    "",
                )
                .await;
            assert_eq!(status, 200, "{answer}");
            let page: serde_json::Value = serde_json::from_str(&answer).unwrap();
            seen.extend(ids(&page["items"]));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return seen,
            }
            assert!(seen.len() < 100_000, "the pages do not end");
        }
    }

    pub async fn stop(self) {
        self.running.stop().await.unwrap();
    }
}

fn ids(list: &serde_json::Value) -> Vec<String> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|record| record["id"].as_str().unwrap().to_owned())
        .collect()
}

fn percent(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::new(), |mut out, byte| {
        write!(out, "%{byte:02X}").unwrap();
        out
    })
}

const FOLDER: &str = "LINCHPIN_TEST_SEARCH_FOLDER";

/// Runs this test program as the app that is killed.
pub fn program(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "support::child_process_writes_until_it_is_killed",
            "--ignored",
            "--test-threads",
            "1",
        ])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the program that another test runs and kills"]
async fn child_process_writes_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let running = try_start(Path::new(&folder), "test.db").await.unwrap();
    let articles = running.adapter::<Article>().unwrap();
    let cx = Cx::system("a crash test");
    let run_id = linchpin::Uuid::new_v7();
    for n in 0.. {
        let make = async |kind: &str| {
            let (id, title, body) = (
                format!("{run_id}-{kind}-{n}"),
                "some".to_owned(),
                "made".to_owned(),
            );
            articles
                .create(&cx, ArticleCreate { id, title, body })
                .await
                .unwrap()
                .id
        };
        make("kept").await;
        let changed = make("changed").await;
        articles
            .update(
                &cx,
                changed,
                ArticlePatch {
                    body: Some("changed".to_owned()),
                    ..Default::default()
                },
                None,
            )
            .await
            .unwrap();
        let gone = make("gone").await;
        articles.delete(&cx, gone, None).await.unwrap();
    }
}

/// The number of articles in the store.
pub fn stored(folder: &Path) -> i64 {
    let file = rusqlite::Connection::open_with_flags(
        folder.join("test.db"),
        rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
    );
    let count =
        file.and_then(|file| file.query_row("SELECT count(*) FROM articles", [], |row| row.get(0)));
    // Before the first start the table does not exist.
    count.unwrap_or(0)
}

/// The ids of all documents of the index, in order. The app must have stopped.
pub fn ids_in_the_index(folder: &Path) -> Vec<String> {
    let runtime = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                tokio::runtime::Runtime::new()
                    .unwrap()
                    .block_on(all_document_ids(&folder.join("search")))
            })
            .join()
    });
    runtime.unwrap()
}

async fn all_document_ids(folder: &Path) -> Vec<String> {
    let desc = <Article as Entity>::DESC;
    let fields = ["title", "body"].map(|name| linchpin::search::SearchField { name, weight: 1.0 });
    let index = SearchIndex {
        name: desc.storage_name,
        entity: desc.name,
        fields: fields.to_vec(),
        owners: Vec::new(),
    };
    let provider = Tantivy::in_folder(folder);
    assert!(
        provider.open(&index).await.unwrap().complete,
        "the index is not the one of the app"
    );
    let query = SearchQuery {
        text: "some",
        fields: &[0],
        owners: &[],
        after: None,
        limit: 1_000_000,
    };
    let mut ids: Vec<String> = provider
        .query(&index, &query)
        .await
        .unwrap()
        .into_iter()
        .map(|hit| hit.id)
        .collect();
    provider.close().await.unwrap();
    ids.sort();
    ids
}
