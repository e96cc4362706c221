//! A help desk: an entity with versions, operations on default and on redefined routes, and route
//! functions.
#![allow(missing_docs)] // a fixture

use axum::Json;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use linchpin::prelude::*;
use serde::{Deserialize, Serialize};

use crate::server::{Reply, Server};

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum State {
    Open,
    Closed,
}

#[entity(
    unique(slug),
    index(category),
    version,
    pagination(default = 2, max = 3),
    routes(auth = none),
)]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ticket {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub category: Option<String>,
    #[field(default = State::Open)]
    pub state: State,
    pub note: Option<String>,
    #[field(default = 0)]
    pub hits: i64,
    #[field(default = 0, range = -3..=10)]
    pub stock: i64,
    #[field(default = 0.0)]
    pub weight: f64,
    pub votes: Option<i64>,
    pub due_at: Option<Timestamp>,
    #[field(private)]
    #[serde(skip)]
    pub secret: Option<String>,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

/// Closes a ticket, with a note if there is one.
#[operation(kind = "transition", field = state, from = State::Open, to = State::Closed, set(note = input(note)))]
pub const CLOSE: Operation<Ticket>;

/// Opens a ticket again, with another method and path.
#[operation(kind = "transition", field = state, from = State::Closed, to = State::Open, returns = "boolean", route(method = "PUT", path = "{id}/state/open"))]
pub const REOPEN: Operation<Ticket>;

/// A transition that finds its record by a unique field instead of the key.
#[operation(kind = "transition", field = state, from = State::Open, to = State::Closed, match(slug = param(slug)), route(path = "by-name/{slug}/close"))]
pub const CLOSE_NAMED: Operation<Ticket>;

#[operation(kind = "increment", field = hits)]
pub const HIT: Operation<Ticket>;

#[operation(kind = "increment", field = hits, by = 9007199254740991)]
pub const LEAP: Operation<Ticket>;

#[operation(kind = "increment", field = stock, by = 4)]
pub const RESTOCK: Operation<Ticket>;

#[operation(kind = "increment", field = stock, by = -2)]
pub const SELL: Operation<Ticket>;

#[operation(kind = "increment", field = weight, by = 0.25, route(method = "PATCH", path = "{id}/weight"))]
pub const LOAD: Operation<Ticket>;

#[operation(kind = "increment", field = votes, by = -1)]
pub const DOWNVOTE: Operation<Ticket>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(method = "POST"))]
pub const FIND: Operation<Ticket>;

#[operation(kind = "lookup", fields(category = param(category)), returns = "many", sort = asc(slug), paginate, route(method = "POST", path = "search"))]
pub const SEARCH: Operation<Ticket>;

#[operation(
    kind = "lookup",
    fields(category = param(category), state = param(state)),
    filter = (slug.one_of(param(slugs)) && due_at <= param(due)),
    optional_params(slugs, due),
    returns = "many",
    sort = asc(slug),
    route(method = "POST", path = "of/{category}"),
)]
pub const OF: Operation<Ticket>;

#[operation(kind = "lookup", fields(state = param(state)), filter = (slug.one_of(param(slugs))), returns = "many", sort = asc(slug))]
pub const AMONG: Operation<Ticket>;

#[operation(kind = "lookup", fields(category = param(category), state = param(state)), returns = "many", sort = asc(slug), route(path = "in/{category}/all"))]
pub const WITHIN: Operation<Ticket>;

#[operation(kind = "exists", fields(slug = param(slug)), route(method = "POST", path = "taken"))]
pub const TAKEN: Operation<Ticket>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", strict_params)]
pub const STRICT: Operation<Ticket>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyQuery {
    prefix: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyBody {
    category: String,
}

/// Copies a ticket. The function uses path parameters, the query, a body, the context and the
/// adapter.
#[route(entity = Ticket, method = "POST", path = "{id}/copies/{count}", max_body = "64B")]
async fn copies(
    tickets: TicketAdapter,
    cx: Cx,
    Path((id, count)): Path<(String, u8)>,
    Query(query): Query<CopyQuery>,
    Json(body): Json<CopyBody>,
) -> Result<(StatusCode, Json<Vec<Ticket>>)> {
    let ticket = tickets.get(&cx, id).await?.ok_or_else(Error::not_found)?;
    let prefix = query.prefix.unwrap_or_else(|| "copy".to_owned());
    let mut made = Vec::new();
    for n in 0..count {
        let copy = create(&format!("{prefix}-{n}-of-{}", ticket.slug));
        made.push(
            tickets
                .create(
                    &cx,
                    TicketCreate {
                        category: Some(body.category.clone()),
                        ..copy
                    },
                )
                .await?,
        );
    }
    Ok((StatusCode::CREATED, Json(made)))
}

/// Returns the caller; requires a role.
#[route(entity = Ticket, method = "GET", path = "whoami", auth = "userAuth", roles = ["agent"])]
async fn whoami(cx: Cx, adapters: Adapters) -> Result<String> {
    adapters.get::<Ticket>()?;
    Ok(cx.get_actor_id().unwrap_or_default().to_owned())
}

pub static DESK: Package = package!(
    name = "desk",
    entities = [entity(
        Ticket,
        [
            CLOSE,
            REOPEN,
            CLOSE_NAMED,
            HIT,
            LEAP,
            RESTOCK,
            SELL,
            LOAD,
            DOWNVOTE,
            FIND,
            SEARCH,
            OF,
            AMONG,
            WITHIN,
            TAKEN,
            STRICT,
            copies,
            whoami,
        ]
    )],
);

/// The input of a ticket with only a slug.
pub fn create(slug: &str) -> TicketCreate {
    TicketCreate {
        slug: slug.to_owned(),
        category: None,
        state: None,
        note: None,
        hits: None,
        stock: None,
        weight: None,
        votes: None,
        due_at: None,
        secret: Some("for code alone".to_owned()),
    }
}

/// Creates a ticket with a slug and these members, and returns its path.
pub async fn ticket(s: &Server, slug: &str, more: serde_json::Value) -> String {
    let mut body = serde_json::json!({ "slug": slug });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let reply = s.post("/tickets", body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    format!("/tickets/{}", reply.json()["id"].as_str().unwrap())
}

/// Sends a POST without a body.
pub async fn call(s: &Server, path: &str) -> Reply {
    s.raw("POST", path, &[], "").await
}

/// The slugs of a page.
pub fn slugs(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["slug"].as_str().unwrap().to_owned())
        .collect()
}
