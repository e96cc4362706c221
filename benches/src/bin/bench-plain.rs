//! The plain server: axum and sqlx as a careful person writes them. A pool of readers, one writer, `serde` structs.
#![allow(missing_docs)] // a program

use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin_benches::{Claims, SECRET};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous};
use sqlx::{Row, SqlitePool};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone)]
struct App {
    readers: SqlitePool,
    writer: SqlitePool,
    key: std::sync::Arc<jsonwebtoken::DecodingKey>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Post {
    id: String,
    title: String,
    slug: String,
    body: String,
    status: String,
    views: i64,
    author_id: String,
    created_at: linchpin::Timestamp,
}

fn read(row: &SqliteRow) -> Post {
    Post {
        id: row.get(0),
        title: row.get(1),
        slug: row.get(2),
        body: row.get(3),
        status: row.get(4),
        views: row.get(5),
        author_id: row.get(6),
        created_at: linchpin::Timestamp::from_millis(row.get(7)),
    }
}

struct Failure(StatusCode, &'static str);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, Json(serde_json::json!({"error": self.1}))).into_response()
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        match error.as_database_error() {
            Some(e) if e.is_unique_violation() => Self(StatusCode::CONFLICT, "conflict"),
            _ => Self(StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        }
    }
}

/// Whoever sent a valid token.
struct User;

impl FromRequestParts<App> for User {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let refused = Failure(StatusCode::UNAUTHORIZED, "unauthorized");
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let Some(token) = header.and_then(|h| h.strip_prefix("Bearer ")) else { return Err(refused) };
        let validation = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::HS256);
        jsonwebtoken::decode::<Claims>(token, &app.key, &validation).map(|_| Self).map_err(|_| refused)
    }
}

async fn one(State(app): State<App>, _user: User, Path(id): Path<String>) -> Result<Json<Post>, Failure> {
    let row = sqlx::query("SELECT id, title, slug, body, status, views, author_id, created_at FROM posts WHERE id = ?")
        .bind(id)
        .fetch_optional(&app.readers)
        .await?;
    row.map(|row| Json(read(&row))).ok_or(Failure(StatusCode::NOT_FOUND, "not_found"))
}

#[derive(Deserialize)]
struct ListQuery {
    limit: Option<i64>,
    cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    items: Vec<Post>,
    next_cursor: Option<String>,
    has_more: bool,
}

async fn list(State(app): State<App>, _user: User, Query(query): Query<ListQuery>) -> Result<Json<Page>, Failure> {
    let limit = query.limit.unwrap_or(20).clamp(1, 100);
    let rows = match query.cursor {
        None => {
            sqlx::query(
                "SELECT id, title, slug, body, status, views, author_id, created_at FROM posts ORDER BY created_at DESC, id DESC LIMIT ?",
            )
            .bind(limit + 1)
            .fetch_all(&app.readers)
            .await?
        }
        Some(cursor) => {
            let bad = || Failure(StatusCode::BAD_REQUEST, "invalid_cursor");
            let text = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|b| String::from_utf8(b).ok()).ok_or_else(bad)?;
            let (at, id) = text.split_once('|').ok_or_else(bad)?;
            sqlx::query("SELECT id, title, slug, body, status, views, author_id, created_at FROM posts WHERE (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?")
                .bind(at.parse::<i64>().map_err(|_| bad())?)
                .bind(id.to_owned())
                .bind(limit + 1)
                .fetch_all(&app.readers)
                .await?
        }
    };
    let size = usize::try_from(limit).unwrap_or(20);
    let has_more = rows.len() > size;
    let items: Vec<Post> = rows.iter().take(size).map(read).collect();
    let next_cursor = items.last().filter(|_| has_more).map(|p| URL_SAFE_NO_PAD.encode(format!("{}|{}", p.created_at.millis(), p.id)));
    Ok(Json(Page { items, next_cursor, has_more }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Create {
    title: String,
    slug: String,
    body: String,
    author_id: String,
}

fn check(text: &str) -> Result<(), Failure> {
    if (1..=200).contains(&text.chars().count()) { Ok(()) } else { Err(Failure(StatusCode::BAD_REQUEST, "validation_failed")) }
}

async fn create(
    State(app): State<App>,
    _user: User,
    Json(input): Json<Create>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Post>), Failure> {
    check(&input.title)?;
    check(&input.slug)?;
    let post = Post {
        id: uuid::Uuid::now_v7().to_string(),
        title: input.title,
        slug: input.slug,
        body: input.body,
        status: "draft".to_owned(),
        views: 0,
        author_id: input.author_id,
        created_at: linchpin::Timestamp::system_now(),
    };
    sqlx::query("INSERT INTO posts (id, title, slug, body, status, views, author_id, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(&post.id)
        .bind(&post.title)
        .bind(&post.slug)
        .bind(&post.body)
        .bind(&post.status)
        .bind(post.views)
        .bind(&post.author_id)
        .bind(post.created_at.millis())
        .execute(&app.writer)
        .await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/posts/{}", post.id))], Json(post)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    title: String,
}

async fn patch(State(app): State<App>, _user: User, Path(id): Path<String>, Json(input): Json<Patch>) -> Result<Json<Post>, Failure> {
    check(&input.title)?;
    let row = sqlx::query("UPDATE posts SET title = ? WHERE id = ? RETURNING id, title, slug, body, status, views, author_id, created_at")
        .bind(input.title)
        .bind(id)
        .fetch_optional(&app.writer)
        .await?;
    row.map(|row| Json(read(&row))).ok_or(Failure(StatusCode::NOT_FOUND, "not_found"))
}

async fn publish(State(app): State<App>, _user: User, Path(id): Path<String>) -> Result<Json<Post>, Failure> {
    let row = sqlx::query("UPDATE posts SET status = 'published' WHERE id = ? AND status = 'draft' RETURNING id, title, slug, body, status, views, author_id, created_at")
        .bind(id)
        .fetch_optional(&app.writer)
        .await?;
    row.map(|row| Json(read(&row))).ok_or(Failure(StatusCode::BAD_REQUEST, "invalid_transition"))
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (port, file) = linchpin_benches::arguments();
    let options = SqliteConnectOptions::new().filename(file).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
    let pool = |n: u32| SqlitePoolOptions::new().max_connections(n).test_before_acquire(false);
    let app = App {
        readers: pool(4).connect_with(options.clone().read_only(true)).await?,
        writer: pool(1).connect_with(options).await?,
        key: std::sync::Arc::new(jsonwebtoken::DecodingKey::from_secret(SECRET.as_bytes())),
    };
    let router = Router::new()
        .route("/posts", get(list).post(create))
        .route("/posts/{id}", get(one).patch(patch))
        .route("/posts/{id}/publish", post(publish))
        .route("/health/ready", get(|| async { "ok" }))
        .with_state(app);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, router).await?;
    Ok(())
}
