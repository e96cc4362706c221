//! The routes of items, one per kind of operation, as a careful developer writes them: one
//! statement each, if one is enough.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, patch, post, put};
use axum::{Json, Router};
use linchpin::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::types::Json as Stored;

use crate::db::{self, Line, Row};
use crate::server::{App, Failure, User, check_length};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    id: String,
    code: String,
    owner: String,
    title: String,
    state: String,
    due_at: Option<Timestamp>,
    quantity: i64,
    tags: Vec<String>,
    lines: Vec<Line>,
    created_at: Timestamp,
}

fn read(row: &Row) -> Item {
    Item {
        id: row.get(0),
        code: row.get(1),
        owner: row.get(2),
        title: row.get(3),
        state: row.get(4),
        due_at: db::some_date(row, 5),
        quantity: row.get(6),
        tags: db::tags(row, 7),
        lines: row.get::<Stored<Vec<Line>>, _>(8).0,
        created_at: db::date(row, 9),
    }
}

const NOT_FOUND: Failure = Failure(StatusCode::NOT_FOUND, "not_found");

fn item_or_not_found(row: Option<Row>) -> Result<Json<Item>, Failure> {
    row.map(|row| Json(read(&row))).ok_or(NOT_FOUND)
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Owned {
    owner: String,
}

async fn by_code(
    State(app): State<App>,
    _user: User,
    Query(query): Query<Code>,
) -> Result<Json<Option<Item>>, Failure> {
    let row = sqlx::query("SELECT * FROM items WHERE code = $1")
        .bind(query.code)
        .fetch_optional(&app.readers)
        .await?;
    Ok(Json(row.as_ref().map(read)))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    items: Vec<Item>,
    next_cursor: Option<String>,
    has_more: bool,
}

fn page(rows: &[Row]) -> Json<Page> {
    let items: Vec<Item> = rows.iter().take(20).map(read).collect();
    let next_cursor = items
        .last()
        .filter(|_| rows.len() > 20)
        .map(|item| format!("{}|{}", item.created_at.millis(), item.id));
    Json(Page {
        items,
        next_cursor,
        has_more: rows.len() > 20,
    })
}

async fn of_owner(
    State(app): State<App>,
    _user: User,
    Query(query): Query<Owned>,
) -> Result<Json<Page>, Failure> {
    let text = "SELECT * FROM items WHERE owner = $1 ORDER BY created_at DESC, id DESC LIMIT 21";
    Ok(page(
        &sqlx::query(text)
            .bind(query.owner)
            .fetch_all(&app.readers)
            .await?,
    ))
}

#[derive(Serialize)]
struct Exists {
    exists: bool,
}

async fn code_taken(
    State(app): State<App>,
    _user: User,
    Query(query): Query<Code>,
) -> Result<Json<Exists>, Failure> {
    let row = sqlx::query("SELECT EXISTS (SELECT 1 FROM items WHERE code = $1)")
        .bind(query.code)
        .fetch_one(&app.readers)
        .await?;
    Ok(Json(Exists { exists: row.get(0) }))
}

async fn sold(
    State(app): State<App>,
    _user: User,
    Path(id): Path<String>,
) -> Result<Json<Item>, Failure> {
    let text = "UPDATE items SET quantity = quantity + 1 WHERE id = $1 RETURNING *";
    item_or_not_found(
        sqlx::query(text)
            .bind(id)
            .fetch_optional(&app.writer)
            .await?,
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Reschedule {
    due_at: Option<String>,
}

async fn reschedule(
    State(app): State<App>,
    _user: User,
    Path(id): Path<String>,
    Json(input): Json<Reschedule>,
) -> Result<Json<Item>, Failure> {
    let date = input.due_at.as_deref().map(Timestamp::parse).transpose();
    let date = date
        .map_err(|_| Failure(StatusCode::BAD_REQUEST, "validation_failed"))?
        .map(db::at);
    item_or_not_found(
        sqlx::query("UPDATE items SET due_at = $2 WHERE id = $1 RETURNING *")
            .bind(id)
            .bind(date)
            .fetch_optional(&app.writer)
            .await?,
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tag {
    tag: String,
}

async fn tag(
    State(app): State<App>,
    _user: User,
    Path(id): Path<String>,
    Json(input): Json<Tag>,
) -> Result<Json<Item>, Failure> {
    item_or_not_found(
        sqlx::query(db::TAG)
            .bind(id)
            .bind(input.tag)
            .fetch_optional(&app.writer)
            .await?,
    )
}

async fn untag(
    State(app): State<App>,
    _user: User,
    Path(id): Path<String>,
    Query(query): Query<Tag>,
) -> Result<Json<Item>, Failure> {
    item_or_not_found(
        sqlx::query(db::UNTAG)
            .bind(id)
            .bind(query.tag)
            .fetch_optional(&app.writer)
            .await?,
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tags {
    tags: Vec<String>,
}

async fn retag(
    State(app): State<App>,
    _user: User,
    Path(id): Path<String>,
    Json(input): Json<Tags>,
) -> Result<Json<Item>, Failure> {
    let text = "UPDATE items SET tags = $2 WHERE id = $1 RETURNING *";
    item_or_not_found(
        sqlx::query(text)
            .bind(id)
            .bind(db::of_tags(input.tags))
            .fetch_optional(&app.writer)
            .await?,
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Import {
    code: String,
    owner: String,
    title: String,
    quantity: i64,
}

async fn import(
    State(app): State<App>,
    _user: User,
    Json(input): Json<Import>,
) -> Result<(StatusCode, Json<Item>), Failure> {
    check_length(&input.title)?;
    let id = uuid::Uuid::now_v7().to_string();
    let text = "INSERT INTO items (id, code, owner, title, state, quantity, tags, lines, created_at) VALUES ($1, $2, $3, $4, 'open', $5, $6, $7, $8) \
                ON CONFLICT (code) DO UPDATE SET owner = excluded.owner, title = excluded.title, quantity = excluded.quantity RETURNING *";
    let row = sqlx::query(text)
        .bind(id.clone())
        .bind(input.code)
        .bind(input.owner)
        .bind(input.title)
        .bind(input.quantity)
        .bind(db::of_tags(Vec::new()))
        .bind(Stored(Vec::<Line>::new()))
        .bind(db::at(Timestamp::system_now()))
        .fetch_one(&app.writer)
        .await?;
    let item = read(&row);
    Ok((
        if item.id == id {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        },
        Json(item),
    ))
}

#[derive(Deserialize)]
struct Find {
    q: String,
}

async fn find(
    State(app): State<App>,
    _user: User,
    Query(query): Query<Find>,
) -> Result<Json<Page>, Failure> {
    Ok(page(
        &sqlx::query(db::FIND)
            .bind(query.q)
            .fetch_all(&app.readers)
            .await?,
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Quantity {
    quantity: i64,
}

async fn line(
    State(app): State<App>,
    _user: User,
    Path((id, sku)): Path<(String, String)>,
    Json(input): Json<Quantity>,
) -> Result<Json<Item>, Failure> {
    item_or_not_found(
        sqlx::query(db::LINE)
            .bind(id)
            .bind(sku)
            .bind(input.quantity)
            .fetch_optional(&app.writer)
            .await?,
    )
}

async fn redeem(
    State(app): State<App>,
    _user: User,
    Json(input): Json<Code>,
) -> Result<Json<Option<Item>>, Failure> {
    let row = sqlx::query("DELETE FROM items WHERE code = $1 RETURNING *")
        .bind(input.code)
        .fetch_optional(&app.writer)
        .await?;
    Ok(Json(row.as_ref().map(read)))
}

#[derive(Deserialize)]
struct Related {
    owner: String,
    code: String,
}

async fn related(
    State(app): State<App>,
    _user: User,
    Query(query): Query<Related>,
) -> Result<Json<Vec<Item>>, Failure> {
    let text = "SELECT * FROM items WHERE owner = $1 OR code = $2 ORDER BY id";
    let rows = sqlx::query(text)
        .bind(query.owner)
        .bind(query.code)
        .fetch_all(&app.readers)
        .await?;
    Ok(Json(rows.iter().map(read).collect()))
}

#[derive(Serialize)]
struct OfState {
    state: String,
    n: i64,
    quantity: i64,
}

async fn by_state(
    State(app): State<App>,
    _user: User,
    Query(query): Query<Owned>,
) -> Result<Json<Vec<OfState>>, Failure> {
    let text = "SELECT state, count(*), CAST(coalesce(sum(quantity), 0) AS bigint) FROM items WHERE owner = $1 GROUP BY state ORDER BY state";
    let rows = sqlx::query(text)
        .bind(query.owner)
        .fetch_all(&app.readers)
        .await?;
    Ok(Json(
        rows.iter()
            .map(|row| OfState {
                state: row.get(0),
                n: row.get(1),
                quantity: row.get(2),
            })
            .collect(),
    ))
}

async fn restock(
    State(app): State<App>,
    _user: User,
    Json(input): Json<Owned>,
) -> Result<Json<u64>, Failure> {
    let done = sqlx::query("UPDATE items SET quantity = 5 WHERE owner = $1")
        .bind(input.owner)
        .execute(&app.writer)
        .await?;
    Ok(Json(done.rows_affected()))
}

async fn top(
    State(app): State<App>,
    _user: User,
    Path(owner): Path<String>,
) -> Result<Json<Vec<Item>>, Failure> {
    let text = "SELECT * FROM items WHERE owner = $1 ORDER BY quantity DESC, id LIMIT 5";
    let rows = sqlx::query(text)
        .bind(owner)
        .fetch_all(&app.readers)
        .await?;
    Ok(Json(rows.iter().map(read).collect()))
}

#[derive(Deserialize)]
struct Key {
    id: String,
}

#[derive(Serialize)]
struct Counted {
    value: i64,
}

async fn recount(
    State(app): State<App>,
    _user: User,
    Json(input): Json<Key>,
) -> Result<Json<Counted>, Failure> {
    let text = "UPDATE owners SET items = (SELECT count(*) FROM items WHERE owner = $1) WHERE id = $1 RETURNING items";
    let row = sqlx::query(text)
        .bind(input.id)
        .fetch_optional(&app.writer)
        .await?
        .ok_or(NOT_FOUND)?;
    Ok(Json(Counted { value: row.get(0) }))
}

pub fn routes() -> Router<App> {
    Router::new()
        .route("/items/by-code", get(by_code))
        .route("/items/of-owner", get(of_owner))
        .route("/items/code-taken", get(code_taken))
        .route("/items/{id}/sold", post(sold))
        .route("/items/{id}/reschedule", patch(reschedule))
        .route("/items/{id}/tag", post(tag))
        .route("/items/{id}/untag", delete(untag))
        .route("/items/{id}/retag", put(retag))
        .route("/items/import", post(import))
        .route("/items/find", get(find))
        .route("/items/{id}/lines-update/{sku}", patch(line))
        .route("/items/redeem", post(redeem))
        .route("/items/related", get(related))
        .route("/items/by-state", get(by_state))
        .route("/items/restock", post(restock))
        .route("/items/top/{owner}", get(top))
        .route("/owners/recount", post(recount))
}
