//! The upper limit of the benchmark: the fastest hand-written server for its routes. Each worker
//! thread reads from its own SQLite connection, without a thread switch. One writer thread groups
//! commits. Rows are written straight to JSON bytes, and verified tokens are cached.
#![allow(missing_docs)] // a program

use std::cell::RefCell;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, RawQuery, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{KeyInit, Mac};
use linchpin_benches::{Claims, SECRET, now_millis};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Answer = Result<(StatusCode, Vec<u8>), StatusCode>;

enum Write {
    Create {
        id: String,
        title: String,
        slug: String,
        body: String,
        author_id: String,
        at: i64,
    },
    Patch {
        id: String,
        title: String,
    },
    Publish {
        id: String,
    },
}

struct App {
    file: String,
    key: jsonwebtoken::DecodingKey,
    validation: jsonwebtoken::Validation,
    /// Verified tokens and their `exp`, in seconds since 1970.
    expiry_by_token: quick_cache::sync::Cache<Box<str>, i64>,
    writes: mpsc::Sender<(Write, oneshot::Sender<Answer>)>,
}

thread_local! {
    static READER: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

impl App {
    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StatusCode> {
        READER.with_borrow_mut(|slot| {
            if slot.is_none() {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                *slot = Some(
                    Connection::open_with_flags(&self.file, flags)
                        .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?,
                );
            }
            let connection = slot.as_ref().ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
            work(connection).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
        })
    }

    async fn write(&self, write: Write) -> Response<Body> {
        let (answer, answered) = oneshot::channel();
        if self.writes.try_send((write, answer)).is_err() {
            return failure(StatusCode::SERVICE_UNAVAILABLE);
        }
        match answered.await {
            Ok(Ok((status, body))) => json(status, body),
            Ok(Err(status)) => failure(status),
            Err(_) => failure(StatusCode::SERVICE_UNAVAILABLE),
        }
    }
}

struct User;

impl FromRequestParts<Arc<App>> for User {
    type Rejection = Response<Body>;
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Response<Body>> {
        let token = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|v| v.to_str().ok())
            .and_then(|h| h.strip_prefix("Bearer "));
        let refused = || failure(StatusCode::UNAUTHORIZED);
        let token = token.ok_or_else(refused)?;
        let expires = match app.expiry_by_token.get(token) {
            Some(expires) => expires,
            None => {
                let claims = jsonwebtoken::decode::<Claims>(token, &app.key, &app.validation)
                    .map_err(|_| refused())?
                    .claims;
                app.expiry_by_token.insert(token.into(), claims.exp);
                claims.exp
            }
        };
        if now_millis() / 1000 < expires {
            Ok(Self)
        } else {
            Err(refused())
        }
    }
}

fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

fn failure(status: StatusCode) -> Response<Body> {
    json(
        status,
        format!("{{\"error\":\"{}\"}}", status.as_str()).into_bytes(),
    )
}

fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    if text.iter().any(|b| *b < 0x20 || *b == b'"' || *b == b'\\') {
        let escaped = serde_json::to_string(&String::from_utf8_lossy(text)).unwrap_or_default();
        out.extend_from_slice(&escaped.as_bytes()[1..escaped.len() - 1]);
    } else {
        out.extend_from_slice(text);
    }
    out.push(b'"');
}

fn write_post(row: &Row<'_>, out: &mut Vec<u8>) -> rusqlite::Result<()> {
    const KEYS: [&str; 8] = [
        "{\"id\":",
        ",\"title\":",
        ",\"slug\":",
        ",\"body\":",
        ",\"status\":",
        ",\"views\":",
        ",\"authorId\":",
        ",\"createdAt\":",
    ];
    for (i, key) in KEYS.iter().enumerate() {
        out.extend_from_slice(key.as_bytes());
        match row.get_ref(i)? {
            ValueRef::Text(t) => write_string(out, t),
            // Column 7 is `created_at`.
            ValueRef::Integer(n) if i == 7 => {
                out.push(b'"');
                out.extend_from_slice(&linchpin::Timestamp::from_millis(n).to_bytes());
                out.push(b'"');
            }
            ValueRef::Integer(n) => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
            _ => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
    Ok(())
}

async fn one(State(app): State<Arc<App>>, _user: User, Path(id): Path<String>) -> Response<Body> {
    let found = app.read(|connection| {
        let mut statement =
            connection.prepare_cached("SELECT id, title, slug, body, status, views, author_id, created_at FROM posts WHERE id = ?")?;
        statement.raw_bind_parameter(1, id.as_str())?;
        let mut rows = statement.raw_query();
        let Some(row) = rows.next()? else { return Ok(None) };
        let mut out = Vec::with_capacity(512);
        write_post(row, &mut out)?;
        Ok(Some(out))
    });
    match found {
        Ok(Some(body)) => json(StatusCode::OK, body),
        Ok(None) => failure(StatusCode::NOT_FOUND),
        Err(status) => failure(status),
    }
}

fn mac(body: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    if let Ok(mut mac) = hmac::Hmac::<sha2::Sha256>::new_from_slice(SECRET.as_bytes()) {
        mac.update(body);
        out.copy_from_slice(&mac.finalize().into_bytes()[..16]);
    }
    out
}

fn verify_cursor(cursor: &str) -> Option<(i64, String)> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (body, tag) = bytes.split_at_checked(bytes.len().checked_sub(16)?)?;
    if mac(body) != tag {
        return None;
    }
    let (at, id) = body.split_first_chunk::<8>()?;
    Some((
        i64::from_le_bytes(*at),
        String::from_utf8(id.to_vec()).ok()?,
    ))
}

async fn list(
    State(app): State<Arc<App>>,
    _user: User,
    RawQuery(query): RawQuery,
) -> Response<Body> {
    let (mut limit, mut after) = (20_i64, None);
    for pair in query
        .as_deref()
        .unwrap_or_default()
        .split('&')
        .filter(|p| !p.is_empty())
    {
        match pair.split_once('=') {
            Some(("limit", n)) => match n.parse::<i64>() {
                Ok(n) if n > 0 => limit = n.min(100),
                _ => return failure(StatusCode::BAD_REQUEST),
            },
            Some(("cursor", cursor)) => match verify_cursor(cursor) {
                Some(position) => after = Some(position),
                None => return failure(StatusCode::BAD_REQUEST),
            },
            _ => return failure(StatusCode::BAD_REQUEST),
        }
    }
    let page = app.read(|connection| {
        let mut statement = match &after {
            None => connection.prepare_cached(
                "SELECT id, title, slug, body, status, views, author_id, created_at FROM posts ORDER BY created_at DESC, id DESC LIMIT ?1",
            )?,
            Some(_) => connection.prepare_cached(
                "SELECT id, title, slug, body, status, views, author_id, created_at FROM posts WHERE (created_at, id) < (?2, ?3) ORDER BY created_at DESC, id DESC LIMIT ?1",
            )?,
        };
        statement.raw_bind_parameter(1, limit + 1)?;
        if let Some((at, id)) = &after {
            statement.raw_bind_parameter(2, at)?;
            statement.raw_bind_parameter(3, id)?;
        }
        let mut rows = statement.raw_query();
        let mut out = Vec::with_capacity(8 << 10);
        out.extend_from_slice(b"{\"items\":[");
        let (mut count, mut cursor) = (0, None);
        let mut cursor_bytes = Vec::new();
        while let Some(row) = rows.next()? {
            if count == limit {
                cursor_bytes.extend_from_slice(&mac(&cursor_bytes));
                cursor = Some(URL_SAFE_NO_PAD.encode(&cursor_bytes));
                break;
            }
            if count > 0 {
                out.push(b',');
            }
            write_post(row, &mut out)?;
            count += 1;
            if count == limit {
                cursor_bytes.extend_from_slice(&row.get::<_, i64>(7)?.to_le_bytes());
                cursor_bytes.extend_from_slice(row.get_ref(0)?.as_bytes()?);
            }
        }
        match cursor {
            Some(cursor) => out.extend_from_slice(format!("],\"nextCursor\":\"{cursor}\",\"hasMore\":true}}").as_bytes()),
            None => out.extend_from_slice(b"],\"nextCursor\":null,\"hasMore\":false}"),
        }
        Ok(out)
    });
    page.map_or_else(failure, |body| json(StatusCode::OK, body))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Create {
    title: String,
    slug: String,
    body: String,
    author_id: String,
}

fn is_valid_length(text: &str) -> bool {
    (1..=200).contains(&text.chars().count())
}

async fn create(State(app): State<Arc<App>>, _user: User, body: Bytes) -> Response<Body> {
    let Ok(input) = serde_json::from_slice::<Create>(&body) else {
        return failure(StatusCode::BAD_REQUEST);
    };
    if !is_valid_length(&input.title) || !is_valid_length(&input.slug) {
        return failure(StatusCode::BAD_REQUEST);
    }
    let id = uuid::Uuid::now_v7().to_string();
    let location = HeaderValue::try_from(format!("/posts/{id}")).ok();
    let Create {
        title,
        slug,
        body,
        author_id,
    } = input;
    let mut response = app
        .write(Write::Create {
            id,
            title,
            slug,
            body,
            author_id,
            at: now_millis(),
        })
        .await;
    if let (StatusCode::CREATED, Some(location)) = (response.status(), location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    title: String,
}

async fn patch(
    State(app): State<Arc<App>>,
    _user: User,
    Path(id): Path<String>,
    body: Bytes,
) -> Response<Body> {
    match serde_json::from_slice::<Patch>(&body) {
        Ok(Patch { title }) if is_valid_length(&title) => {
            app.write(Write::Patch { id, title }).await
        }
        _ => failure(StatusCode::BAD_REQUEST),
    }
}

async fn publish(
    State(app): State<Arc<App>>,
    _user: User,
    Path(id): Path<String>,
) -> Response<Body> {
    app.write(Write::Publish { id }).await
}

fn returning(connection: &Connection, sql: &str, values: &[&str], missing: StatusCode) -> Answer {
    let run = || -> rusqlite::Result<Option<Vec<u8>>> {
        let mut statement = connection.prepare_cached(sql)?;
        for (i, value) in values.iter().enumerate() {
            statement.raw_bind_parameter(i + 1, value)?;
        }
        let mut rows = statement.raw_query();
        let mut out = None;
        while let Some(row) = rows.next()? {
            let mut body = Vec::with_capacity(512);
            write_post(row, &mut body)?;
            out = Some(body);
        }
        Ok(out)
    };
    match run() {
        Ok(Some(body)) => Ok((StatusCode::OK, body)),
        Ok(None) => Err(missing),
        Err(_) => Err(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn apply(connection: &Connection, write: Write) -> Answer {
    match write {
        Write::Create {
            id,
            title,
            slug,
            body,
            author_id,
            at,
        } => {
            let sql = "INSERT INTO posts (id, title, slug, body, status, views, author_id, created_at) VALUES (?, ?, ?, ?, 'draft', 0, ?, ?)";
            let done = connection
                .prepare_cached(sql)
                .and_then(|mut s| s.execute((&id, &title, &slug, &body, &author_id, at)));
            match done {
                Ok(_) => {}
                Err(e)
                    if e.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) =>
                {
                    return Err(StatusCode::CONFLICT);
                }
                Err(_) => return Err(StatusCode::INTERNAL_SERVER_ERROR),
            }
            let mut out = Vec::with_capacity(512);
            for (key, value) in [
                ("{\"id\":", &id),
                (",\"title\":", &title),
                (",\"slug\":", &slug),
                (",\"body\":", &body),
            ] {
                out.extend_from_slice(key.as_bytes());
                write_string(&mut out, value.as_bytes());
            }
            out.extend_from_slice(b",\"status\":\"draft\",\"views\":0,\"authorId\":");
            write_string(&mut out, author_id.as_bytes());
            out.extend_from_slice(b",\"createdAt\":\"");
            out.extend_from_slice(&linchpin::Timestamp::from_millis(at).to_bytes());
            out.extend_from_slice(b"\"}");
            Ok((StatusCode::CREATED, out))
        }
        Write::Patch { id, title } => returning(
            connection,
            "UPDATE posts SET title = ? WHERE id = ? RETURNING id, title, slug, body, status, views, author_id, created_at",
            &[&title, &id],
            StatusCode::NOT_FOUND,
        ),
        Write::Publish { id } => returning(
            connection,
            "UPDATE posts SET status = 'published' WHERE id = ? AND status = 'draft' RETURNING id, title, slug, body, status, views, author_id, created_at",
            &[&id],
            StatusCode::BAD_REQUEST,
        ),
    }
}

fn writer(connection: &Connection, mut queue: mpsc::Receiver<(Write, oneshot::Sender<Answer>)>) {
    while let Some(first) = queue.blocking_recv() {
        let mut group = vec![first];
        while group.len() < 256
            && let Ok(next) = queue.try_recv()
        {
            group.push(next);
        }
        let many = group.len() > 1;
        let begun = !many || connection.execute_batch("BEGIN IMMEDIATE").is_ok();
        let done: Vec<_> = group
            .into_iter()
            .map(|(write, answer)| {
                (
                    answer,
                    if begun {
                        apply(connection, write)
                    } else {
                        Err(StatusCode::SERVICE_UNAVAILABLE)
                    },
                )
            })
            .collect();
        let committed = !many || connection.execute_batch("COMMIT").is_ok();
        for (answer, outcome) in done {
            drop(answer.send(if committed {
                outcome
            } else {
                Err(StatusCode::SERVICE_UNAVAILABLE)
            }));
        }
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (port, url) = linchpin_benches::arguments();
    let file = url.strip_prefix("sqlite:").unwrap_or(&url).to_owned();
    let connection = Connection::open(&file)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let (writes, queue) = mpsc::channel(4096);
    std::thread::spawn(move || writer(&connection, queue));
    let app = Arc::new(App {
        file,
        key: jsonwebtoken::DecodingKey::from_secret(SECRET.as_bytes()),
        validation: jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::HS256),
        expiry_by_token: quick_cache::sync::Cache::new(10_000),
        writes,
    });
    let router = Router::new()
        .route("/posts", get(list).post(create))
        .route("/posts/{id}", get(one).patch(patch))
        .route("/posts/{id}/publish", post(publish))
        .route("/health/ready", get(|| async { "ok".into_response() }))
        .with_state(app);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    use axum::serve::ListenerExt;
    axum::serve(
        listener.tap_io(|stream| drop(stream.set_nodelay(true))),
        router,
    )
    .await?;
    Ok(())
}
