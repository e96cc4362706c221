//! Overrides, extra routes, hooks of packages, and handles that plugins keep.

#![allow(missing_docs)] // test entities

use axum::Json;
use axum::extract::{Path, Query};
use linchpin::http::{Inputs, OverrideCall};
use linchpin::operation::{CustomCall, CustomStore};
use linchpin::prelude::*;
use linchpin::resource::Outcome;
use linchpin::{BoxFuture, Code, Plugin, Route, RoutesCx};
use serde_json::{Value as Value_, json};

use crate::server::Server;

#[derive(Clone, Debug, Embedded)]
pub struct Member {
    #[field(default = uuid)]
    pub id: String,
    pub name: String,
}

#[entity(unique(name), scope(owner_id = ctx(actor.id)))]
#[derive(Clone, Debug)]
pub struct Club {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    #[field(length = ..=10)]
    pub name: String,
    #[field(default = false)]
    pub open: bool,
    #[field(private, default = 0)]
    pub seen: i64,
    pub members: Vec<Member>,
}

#[operation(kind = "transition", field = open, from = false, to = true)]
pub const OPEN: Operation<Club>;

#[operation(kind = "lookup", fields(name = param(name)), returns = "one")]
pub const BY_NAME: Operation<Club>;

#[operation(kind = "collection", field = members, operations(list, add), max_items = 2)]
pub const MEMBERS: Operation<Club>;

/// Another entity, whose adapter the function gets from a hook.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Setting {
    #[field(primary)]
    pub id: String,
    pub text: String,
}

#[operation(kind = "custom", http(method = "GET"), output = String, handler(memory = motto, sqlite = motto, postgres = motto))]
pub const MOTTO: Operation<Club>;

async fn motto<S: CustomStore>(call: CustomCall<Club, S>) -> Result<String> {
    let settings = call.provided::<SettingAdapter>()?;
    Ok(settings
        .get(call.cx(), "motto")
        .await?
        .ok_or_else(Error::not_found)?
        .text)
}

/// Provides the adapter of the other entity to functions, and writes a record that they need.
async fn connect(adapters: Adapters) -> Result<()> {
    let settings = adapters.get::<Setting>()?;
    settings
        .create(
            &Cx::system("start-up"),
            SettingCreate {
                id: "motto".to_owned(),
                text: "onwards".to_owned(),
            },
        )
        .await?;
    adapters.provide(settings);
    Ok(())
}

#[derive(serde::Deserialize)]
struct Ask {
    times: u8,
}

/// Uses several axum extractors.
#[route(entity = Club, method = "POST", path = "echo/{n}", auth = none, max_body = "64B")]
async fn echo(
    Path(n): Path<u8>,
    Query(ask): Query<Ask>,
    Json(body): Json<Vec<u8>>,
) -> std::result::Result<String, (axum::http::StatusCode, &'static str)> {
    match n {
        0 => Err((axum::http::StatusCode::BAD_REQUEST, "no zero")),
        _ => Ok(format!("{n} {} {}", ask.times, body.len())),
    }
}

pub static CLUBS: Package = package!(
    name = "clubs",
    entities = [
        entity(Club, [OPEN, BY_NAME, MEMBERS, MOTTO, echo]),
        entity(Setting, [])
    ],
    after_adapters = connect,
);

/// A plugin whose handler holds an adapter.
struct Motto;

impl Plugin for Motto {
    fn name(&self) -> &'static str {
        "motto"
    }

    fn setup_routes<'a>(&'a self, cx: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let settings = cx.adapters().get::<Setting>()?;
            cx.route(
                "/motto",
                axum::routing::get(move |cx: Cx| async move {
                    Ok::<_, Error>(
                        settings
                            .get(&cx, "motto")
                            .await?
                            .map(|s| s.text)
                            .unwrap_or_default(),
                    )
                }),
            );
            Ok(())
        })
    }
}

async fn opened(call: OverrideCall) -> Result<Outcome> {
    let clubs = call.adapter::<Club>()?;
    let club = clubs.open(&call.cx, call.key::<String>()?).await?;
    clubs
        .update(
            &call.cx,
            &*club.id,
            ClubPatch {
                seen: Some(7),
                ..ClubPatch::default()
            },
            None,
        )
        .await?;
    call.record(club.id).await
}

async fn created(mut call: OverrideCall) -> Result<Outcome> {
    let Inputs::Create(mut draft) =
        std::mem::replace(&mut call.inputs, Inputs::Get(linchpin::Value::Null))
    else {
        return Err(Error::internal("no draft"));
    };
    let name = draft.get(club::name)?.unwrap_or_default();
    if name == "taken" {
        return Err(Error::new(Code::Conflict, "is taken"));
    }
    draft.set(club::name, name.to_uppercase());
    Ok(Outcome::Record(
        call.table.create(&call.cx, draft, &call.form).await?.0,
    ))
}

async fn found(call: OverrideCall) -> Result<Outcome> {
    let name = call.arg::<String>(0)?.to_uppercase();
    let memory = format!("{:?}", call.adapters).contains("memory");
    let id = if memory {
        call.adapter::<Club>()?
            .by_name(&call.cx, name)
            .await?
            .map(|club| club.id)
    } else {
        call.sql("SELECT id FROM {visible} WHERE name = $1")
            .bind(name)
            .column::<String>("id")
            .await?
            .pop()
    };
    match id {
        Some(id) => call.record(id).await,
        None => call.record(String::new()).await,
    }
}

async fn members(call: OverrideCall) -> Result<Outcome> {
    Ok(Outcome::Json(format!("[\"{}\"]", call.route).into_bytes()))
}

fn with_overrides(app: App) -> App {
    app.plugin(Motto)
        .override_operation(OPEN, opened)
        .override_operation(BY_NAME, found)
        .override_operation(MEMBERS, members)
        .override_route::<Club, _, _>(Route::Create, created)
}

macro_rules! on_each_store {
    ($($name:ident),*) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                super::$name(&crate::server::Server::memory_with(&super::CLUBS, super::with_overrides).await).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(&crate::server::Server::sqlite_with(&super::CLUBS, super::with_overrides).await).await;
            })*
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name(&crate::server::Server::postgres_with(&super::CLUBS, super::with_overrides).await).await;
            })*
        }
    };
}
on_each_store!(
    overrides_replace_the_executor_only,
    hooks_provide_adapters,
    rejections_of_extractors_have_the_standard_body
);

async fn call(
    s: &Server,
    user: &str,
    method: &str,
    path: &str,
    body: &Value_,
) -> crate::server::Reply {
    let token = s.token(user, &[]);
    s.raw(
        method,
        path,
        &[
            ("authorization", &token),
            ("content-type", "application/json"),
        ],
        &body.to_string(),
    )
    .await
}

async fn overrides_replace_the_executor_only(s: &Server) {
    // Auth, parsing, validation, the status and `Location` still apply.
    assert_eq!(s.post("/clubs", json!({"name": "a"})).await.status, 401);
    call(s, "u", "POST", "/clubs", &json!({"name": "much too long"}))
        .await
        .problem("max_length", "name");
    assert_eq!(
        call(s, "u", "POST", "/clubs", &json!({"name": "taken"}))
            .await
            .code(),
        (409, "conflict")
    );
    let club = call(s, "u", "POST", "/clubs", &json!({"name": "chess"})).await;
    assert_eq!(
        (club.status, &club.json()["name"]),
        (201, &json!("CHESS")),
        "{club:?}"
    );
    let path = club.header("location");
    let opened = call(s, "u", "POST", &format!("{path}/open"), &json!({})).await;
    assert_eq!(
        (opened.status, &opened.json()["open"]),
        (200, &json!(true)),
        "{opened:?}"
    );
    assert!(
        opened.json().get("seen").is_none(),
        "hidden fields stay hidden"
    );
    assert_eq!(
        call(s, "other", "POST", &format!("{path}/open"), &json!({}))
            .await
            .status,
        404
    );
    assert_eq!(
        call(s, "u", "POST", &format!("{path}/open"), &json!({}))
            .await
            .code(),
        (400, "invalid_transition")
    );
    // Both forms of a lookup apply the row-level filter of the caller.
    for form in ["/clubs/by-name?name=chess", "/clubs/by-name/chess"] {
        let token = s.token("u", &[]);
        assert_eq!(
            s.raw("GET", form, &[("authorization", &token)], "")
                .await
                .json()["name"],
            "CHESS",
            "{form}"
        );
        let token = s.token("other", &[]);
        assert_eq!(
            s.raw("GET", form, &[("authorization", &token)], "")
                .await
                .json(),
            Value_::Null,
            "{form}"
        );
    }
    // A collection has one route for each of its operations.
    let token = s.token("u", &[]);
    let list = s
        .raw(
            "GET",
            &format!("{path}/members-list"),
            &[("authorization", &token)],
            "",
        )
        .await;
    assert_eq!(list.json(), json!(["members_list"]));
    let added = call(
        s,
        "u",
        "POST",
        &format!("{path}/members-add"),
        &json!({"name": "x"}),
    )
    .await;
    assert_eq!((added.status, added.json()), (201, json!(["members_add"])));
}

async fn hooks_provide_adapters(s: &Server) {
    let token = s.token("u", &[]);
    assert_eq!(
        s.raw("GET", "/clubs/motto", &[("authorization", &token)], "")
            .await
            .json(),
        json!("onwards")
    );
    assert_eq!(&s.get("/motto").await.body[..], b"onwards");
    assert!(s.running().adapters().provided::<SettingAdapter>().is_ok());
    let missing = s.running().adapters().provided::<String>().unwrap_err();
    assert_eq!(missing.code(), Code::Internal);
}

// Errors of axum's extractors get the standard body; responses of the function are unchanged.
async fn rejections_of_extractors_have_the_standard_body(s: &Server) {
    let post_echo = async |path: &str, kind: &str, body: &str| {
        s.raw("POST", path, &[("content-type", kind)], body).await
    };
    let kind = "application/json";
    assert_eq!(
        &post_echo("/clubs/echo/3?times=2", kind, "[1]").await.body[..],
        b"3 2 1"
    );
    let own = post_echo("/clubs/echo/0?times=2", kind, "[1]").await;
    assert_eq!((own.status, &own.body[..]), (400, &b"no zero"[..]));
    for (path, sent, body, expected) in [
        (
            "/clubs/echo/x?times=2",
            kind,
            "[1]",
            (400, "validation_failed"),
        ),
        ("/clubs/echo/3", kind, "[1]", (400, "validation_failed")),
        (
            "/clubs/echo/3?times=x",
            kind,
            "[1]",
            (400, "validation_failed"),
        ),
        ("/clubs/echo/3?times=2", kind, "[", (400, "malformed_json")),
        (
            "/clubs/echo/3?times=2",
            kind,
            "{}",
            (400, "validation_failed"),
        ),
        (
            "/clubs/echo/3?times=2",
            "text/plain",
            "[1]",
            (415, "unsupported_media_type"),
        ),
    ] {
        let reply = post_echo(path, sent, body).await;
        assert_eq!(reply.code(), expected, "{path} {body}");
        assert_eq!(
            reply.json()["requestId"],
            json!(reply.header("x-request-id")),
            "{path} {body}"
        );
    }
    let long = format!("[{}1]", "1,".repeat(40));
    assert_eq!(
        post_echo("/clubs/echo/3?times=2", kind, &long).await.code(),
        (413, "body_too_large")
    );
}
