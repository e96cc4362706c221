//! The routes of posts: axum and sqlx as a careful person writes them.

use axum::extract::{Path, Query, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;

use crate::db::{self, Row};
use crate::server::{App, Failure, User, check_length};

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
    created_at: Timestamp,
}

fn read(row: &Row) -> Post {
    Post {
        id: row.get(0),
        title: row.get(1),
        slug: row.get(2),
        body: row.get(3),
        status: row.get(4),
        views: row.get(5),
        author_id: row.get(6),
        created_at: db::date(row, 7),
    }
}

async fn one(
    State(app): State<App>,
    _user: User,
    Path(id): Path<String>,
) -> Result<Json<Post>, Failure> {
    let row = sqlx::query("SELECT id, title, slug, body, status, views, author_id, created_at FROM posts WHERE id = $1")
        .bind(id)
        .fetch_optional(&app.readers)
        .await?;
    row.map(|row| Json(read(&row)))
        .ok_or(Failure(StatusCode::NOT_FOUND, "not_found"))
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

async fn list(
    State(app): State<App>,
    _user: User,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page>, Failure> {
    let limit = query.limit.unwrap_or(20).clamp(1, 100);
    let rows = match query.cursor {
        None => {
            sqlx::query(
                "SELECT id, title, slug, body, status, views, author_id, created_at FROM posts ORDER BY created_at DESC, id DESC LIMIT $1",
            )
            .bind(limit + 1)
            .fetch_all(&app.readers)
            .await?
        }
        Some(cursor) => {
            let bad = || Failure(StatusCode::BAD_REQUEST, "invalid_cursor");
            let text = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|b| String::from_utf8(b).ok()).ok_or_else(bad)?;
            let (at, id) = text.split_once('|').ok_or_else(bad)?;
            sqlx::query("SELECT id, title, slug, body, status, views, author_id, created_at FROM posts WHERE (created_at, id) < ($1, $2) ORDER BY created_at DESC, id DESC LIMIT $3")
                .bind(db::at(Timestamp::from_millis(at.parse().map_err(|_| bad())?)))
                .bind(id.to_owned())
                .bind(limit + 1)
                .fetch_all(&app.readers)
                .await?
        }
    };
    let size = usize::try_from(limit).unwrap_or(20);
    let has_more = rows.len() > size;
    let items: Vec<Post> = rows.iter().take(size).map(read).collect();
    let next_cursor = items
        .last()
        .filter(|_| has_more)
        .map(|p| URL_SAFE_NO_PAD.encode(format!("{}|{}", p.created_at.millis(), p.id)));
    Ok(Json(Page {
        items,
        next_cursor,
        has_more,
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Create {
    title: String,
    slug: String,
    body: String,
    author_id: String,
}

async fn create(
    State(app): State<App>,
    _user: User,
    Json(input): Json<Create>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Post>), Failure> {
    check_length(&input.title)?;
    check_length(&input.slug)?;
    let post = Post {
        id: uuid::Uuid::now_v7().to_string(),
        title: input.title,
        slug: input.slug,
        body: input.body,
        status: "draft".to_owned(),
        views: 0,
        author_id: input.author_id,
        created_at: Timestamp::system_now(),
    };
    sqlx::query("INSERT INTO posts (id, title, slug, body, status, views, author_id, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
        .bind(&post.id)
        .bind(&post.title)
        .bind(&post.slug)
        .bind(&post.body)
        .bind(&post.status)
        .bind(post.views)
        .bind(&post.author_id)
        .bind(db::at(post.created_at))
        .execute(&app.writer)
        .await?;
    Ok((
        StatusCode::CREATED,
        [(header::LOCATION, format!("/posts/{}", post.id))],
        Json(post),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    title: String,
}

async fn patch(
    State(app): State<App>,
    _user: User,
    Path(id): Path<String>,
    Json(input): Json<Patch>,
) -> Result<Json<Post>, Failure> {
    check_length(&input.title)?;
    let row =
        sqlx::query("UPDATE posts SET title = $1 WHERE id = $2 RETURNING id, title, slug, body, status, views, author_id, created_at")
            .bind(input.title)
            .bind(id)
            .fetch_optional(&app.writer)
            .await?;
    row.map(|row| Json(read(&row)))
        .ok_or(Failure(StatusCode::NOT_FOUND, "not_found"))
}

async fn publish(
    State(app): State<App>,
    _user: User,
    Path(id): Path<String>,
) -> Result<Json<Post>, Failure> {
    let row = sqlx::query("UPDATE posts SET status = 'published' WHERE id = $1 AND status = 'draft' RETURNING id, title, slug, body, status, views, author_id, created_at")
        .bind(id)
        .fetch_optional(&app.writer)
        .await?;
    row.map(|row| Json(read(&row)))
        .ok_or(Failure(StatusCode::BAD_REQUEST, "invalid_transition"))
}

pub fn routes() -> Router<App> {
    Router::new()
        .route("/posts", get(list).post(create))
        .route("/posts/{id}", get(one).patch(patch))
        .route("/posts/{id}/publish", post(publish))
}
