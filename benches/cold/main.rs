//! A plain axum app without Linchpin. It stores posts in SQLite through sqlx; creating a post needs
//! a JWT.

use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteRow};
use sqlx::{Row as _, SqlitePool};

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS posts (
    id INTEGER PRIMARY KEY, slug TEXT NOT NULL UNIQUE, title TEXT NOT NULL, author TEXT NOT NULL)";

#[derive(Clone)]
struct App {
    pool: SqlitePool,
    key: DecodingKey,
}

struct Failure(StatusCode);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, Json(serde_json::json!({ "error": self.0.as_str() }))).into_response()
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::RowNotFound => Self(StatusCode::NOT_FOUND),
            sqlx::Error::Database(e) if e.is_unique_violation() => Self(StatusCode::CONFLICT),
            _ => Self(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
}

/// A caller with a valid token.
struct User(String);

impl FromRequestParts<App> for User {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let refused = Failure(StatusCode::UNAUTHORIZED);
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(token) = header.and_then(|value| value.strip_prefix("Bearer ")) else {
            return Err(refused);
        };
        let decoded = jsonwebtoken::decode::<Claims>(token, &app.key, &Validation::new(Algorithm::HS256));
        decoded.map(|data| Self(data.claims.sub)).map_err(|_| refused)
    }
}

#[derive(Serialize)]
struct Post {
    id: i64,
    slug: String,
    title: String,
    author: String,
}

impl From<&SqliteRow> for Post {
    fn from(row: &SqliteRow) -> Self {
        Self { id: row.get(0), slug: row.get(1), title: row.get(2), author: row.get(3) }
    }
}

#[derive(Deserialize)]
struct NewPost {
    slug: String,
    title: String,
}

async fn list(State(app): State<App>) -> Result<Json<Vec<Post>>, Failure> {
    let sql = "SELECT id, slug, title, author FROM posts ORDER BY id DESC LIMIT 20";
    let rows = sqlx::query(sql).fetch_all(&app.pool).await?;
    Ok(Json(rows.iter().map(Post::from).collect()))
}

async fn one(State(app): State<App>, Path(id): Path<i64>) -> Result<Json<Post>, Failure> {
    let sql = "SELECT id, slug, title, author FROM posts WHERE id = ?1";
    let row = sqlx::query(sql).bind(id).fetch_one(&app.pool).await?;
    Ok(Json(Post::from(&row)))
}

async fn create(State(app): State<App>, user: User, Json(new): Json<NewPost>) -> Result<(StatusCode, Json<Post>), Failure> {
    let sql = "INSERT INTO posts (slug, title, author) VALUES (?1, ?2, ?3) RETURNING id, slug, title, author";
    let row = sqlx::query(sql).bind(new.slug).bind(new.title).bind(user.0).fetch_one(&app.pool).await?;
    Ok((StatusCode::CREATED, Json(Post::from(&row))))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = SqliteConnectOptions::new().filename("plain.db").create_if_missing(true);
    let pool = SqlitePoolOptions::new().connect_with(options).await?;
    sqlx::query(SCHEMA).execute(&pool).await?;
    let key = DecodingKey::from_secret(std::env::var("SECRET")?.as_bytes());
    let app = Router::new().route("/posts", get(list).post(create)).route("/posts/{id}", get(one)).with_state(App { pool, key });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 3001)).await?;
    axum::serve(listener, app).await?;
    Ok(())
}
