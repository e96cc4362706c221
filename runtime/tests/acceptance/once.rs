//! `output_once`: values that only the first response contains.

#![allow(missing_docs)] // test entities

use linchpin::http::{Inputs, OverrideCall};
use linchpin::operation::{CustomCall, CustomStore};
use linchpin::prelude::*;
use linchpin::resource::Outcome;
use linchpin::{Code, Route};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};

/// A receiver of webhooks with a shared secret.
#[entity(
    unique(name),
    version(required_on_write = false),
    routes(auth = none, create(idempotent, output_once(secret: String, valid_until: Option<Timestamp>))),
)]
#[derive(Clone, Debug)]
pub struct Hook {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 1..=20)]
    pub name: String,
    pub note: Option<String>,
    #[field(private)]
    pub hash: Option<String>,
}

/// Sets a new secret of the same hook.
#[operation(kind = "field_update", set(name), partial, route(idempotent, output_once(secret: String)))]
pub const ROTATE: Operation<Hook>;

#[operation(kind = "upsert", match(name), set(note), returns = "created", route(output_once(secret: String)))]
pub const ENSURE: Operation<Hook>;

#[operation(
    kind = "custom",
    http(method = "POST", path = "{id}/invite"),
    params(silent: Option<bool>),
    output = Hook,
    handler(memory = invite, sqlite = invite, postgres = invite),
    route(output_once(token: i64)),
)]
pub const INVITE: Operation<Hook>;

#[allow(clippy::unused_async)] // handlers are async
async fn invite<S: CustomStore>(
    call: CustomCall<Hook, S>,
    id: String,
    silent: Option<bool>,
) -> Result<String> {
    if silent.is_none() {
        call.cx().answer_once("token", 77_i64)?;
    }
    Ok(id)
}

pub static HOOKS: Package = package!(
    name = "hooks",
    entities = [entity(Hook, [ROTATE, ENSURE, INVITE])]
);

/// The secret of a hook: derived from its name instead of random, so that tests know it.
fn secret(name: &str) -> String {
    format!("whsec-{name}-\"quoted\"")
}

async fn created(mut call: OverrideCall) -> Result<Outcome> {
    let Inputs::Create(mut draft) =
        std::mem::replace(&mut call.inputs, Inputs::Get(linchpin::Value::Null))
    else {
        return Err(Error::internal("no draft"));
    };
    let name = draft.get(hook::name)?.unwrap_or_default();
    call.cx.answer_once("secret", secret(&name))?;
    call.cx.answer_once("valid_until", None::<Timestamp>)?;
    if name == "refused" {
        return Err(Error::new(Code::Conflict, "is refused"));
    }
    draft.set(hook::hash, Some(format!("#{}", name.len())));
    Ok(Outcome::Record(
        call.table.create(&call.cx, draft, &call.form).await?.0,
    ))
}

async fn rotated(call: OverrideCall) -> Result<Outcome> {
    let id = call.key::<String>()?;
    match call.arg::<Option<String>>(1)?.as_deref() {
        Some("silent") => {}
        Some("mistyped") => call.cx.answer_once("secret", 1_i64)?,
        Some("misnamed") => call.cx.answer_once("secrets", "x".to_owned())?,
        _ => call.cx.answer_once("secret", secret("again"))?,
    }
    call.record(id).await
}

async fn ensured(call: OverrideCall) -> Result<Outcome> {
    let (name, hooks) = (call.arg::<String>(0)?, call.adapter::<Hook>()?);
    call.cx.answer_once("secret", secret(&name))?;
    let hook = hooks
        .create(
            &call.cx,
            HookCreate {
                name,
                note: None,
                hash: None,
            },
        )
        .await?;
    let Outcome::Record(mut rows) = call.record(hook.id).await? else {
        return Err(Error::internal("no record"));
    };
    rows.created = true;
    Ok(Outcome::Upserted(rows))
}

fn with_overrides(app: App) -> App {
    app.override_route::<Hook, _, _>(Route::Create, created)
        .override_operation(ROTATE, rotated)
        .override_operation(ENSURE, ensured)
}

cases!(&crate::once::HOOKS, super::with_overrides =>
    output_once_is_returned_once, operations_return_one_time_values,
    a_missing_output_is_an_internal_error, the_document_lists_one_time_outputs,
);

async fn send(s: &Server, path: &str, key: &str, body: &Json) -> Reply {
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", key),
    ];
    s.raw(
        "POST",
        path,
        &headers[..if key.is_empty() { 1 } else { 2 }],
        &body.to_string(),
    )
    .await
}

/// A record without its one-time members.
fn without_members(mut record: Json, members: &[&str]) -> Json {
    for member in members {
        record.as_object_mut().unwrap().remove(*member);
    }
    record
}

async fn output_once_is_returned_once(s: &Server) {
    let first = send(s, "/hooks", "k", &json!({"name": "a"})).await;
    assert_eq!(
        (first.status, first.header("cache-control")),
        (201, "no-store".to_owned())
    );
    let record = first.json();
    assert_eq!(
        (&record["secret"], &record["validUntil"]),
        (&json!(secret("a")), &Json::Null)
    );
    assert!(record.get("hash").is_none());
    assert_eq!(
        (first.header("etag"), first.header("idempotency-replayed")),
        ("\"1\"".to_owned(), String::new())
    );
    // The same call again: the same response without the one-time members.
    let again = send(s, "/hooks", "k", &json!({"name": "a"})).await;
    assert_eq!(
        (again.status, again.header("idempotency-replayed")),
        (201, "true".to_owned())
    );
    assert_eq!(
        again.json(),
        without_members(record.clone(), &["secret", "validUntil"])
    );
    for name in ["location", "etag", "x-event-id"] {
        assert_eq!(again.header(name), first.header(name), "{name}");
    }
    let read = s.get(&first.header("location")).await;
    assert_eq!(read.json(), again.json());
    assert_eq!(s.get("/hooks").await.json()["items"], json!([again.json()]));
    // A call without a key, and a call that fails.
    let plain = send(s, "/hooks", "", &json!({"name": "b"})).await;
    assert_eq!(
        (plain.status, &plain.json()["secret"]),
        (201, &json!(secret("b")))
    );
    let refused = send(s, "/hooks", "r", &json!({"name": "refused"})).await;
    assert_eq!(refused.code(), (409, "conflict"));
    assert_eq!(
        send(s, "/hooks", "r", &json!({"name": "refused"}))
            .await
            .json()["code"],
        "conflict"
    );
    let taken = send(s, "/hooks", "t", &json!({"name": "a"})).await;
    assert_eq!(
        (taken.code(), taken.json().get("secret")),
        ((409, "conflict"), None)
    );
    send(s, "/hooks", "", &json!({"name": "c", "secret": "mine"}))
        .await
        .problem("unknown_field", "secret");
    // The secret is stored nowhere.
    if let Some(file) = s.file() {
        for entry in std::fs::read_dir(file.parent().unwrap()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(6).any(|part| part == b"whsec-"));
        }
    }
}

async fn operations_return_one_time_values(s: &Server) {
    let hook = without_members(
        send(s, "/hooks", "", &json!({"name": "a"})).await.json(),
        &["secret", "validUntil"],
    );
    let path = format!("/hooks/{}", hook["id"].as_str().unwrap());
    let rotate = async |key: &str, body: Json| {
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", key),
        ];
        s.raw(
            "PATCH",
            &format!("{path}/rotate"),
            &headers,
            &body.to_string(),
        )
        .await
    };
    let first = rotate("k", json!({})).await;
    assert_eq!(
        (first.status, &first.json()["secret"]),
        (200, &json!(secret("again")))
    );
    assert_eq!(rotate("k", json!({})).await.json(), hook);
    // In the response of an upsert, the value is next to the record, not in it.
    let ensured = send(s, "/hooks/ensure", "", &json!({"name": "e"})).await;
    let answer = ensured.json();
    assert_eq!(
        (ensured.status, &answer["secret"], &answer["created"]),
        (201, &json!(secret("e")), &json!(true))
    );
    assert!(answer["entity"].get("secret").is_none());
    let invited = send(s, &format!("{path}/invite"), "", &json!({})).await;
    assert_eq!(
        (
            invited.status,
            &invited.json()["token"],
            &invited.json()["name"]
        ),
        (200, &json!(77), &json!("a"))
    );
    // A call from code returns the record without the one-time value.
    let hooks = s.running().adapter::<Hook>().unwrap();
    let id = hook["id"].as_str().unwrap();
    assert_eq!(
        hooks
            .invite(&Cx::system("test"), id.to_owned(), None::<bool>)
            .await
            .unwrap()
            .name,
        "a"
    );
}

async fn a_missing_output_is_an_internal_error(s: &Server) {
    let hook = send(s, "/hooks", "", &json!({"name": "a"})).await.json();
    let path = format!("/hooks/{}", hook["id"].as_str().unwrap());
    for (wish, key) in [("silent", "a"), ("mistyped", "b"), ("misnamed", "c")] {
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", key),
        ];
        let reply = s
            .raw(
                "PATCH",
                &format!("{path}/rotate"),
                &headers,
                &json!({"name": wish}).to_string(),
            )
            .await;
        assert_eq!(reply.code(), (500, "internal"), "{wish}");
        assert!(
            !String::from_utf8_lossy(&reply.body).contains("secret"),
            "{wish}"
        );
    }
    assert_eq!(
        send(s, &format!("{path}/invite"), "", &json!({"silent": true}))
            .await
            .code(),
        (500, "internal")
    );
}

async fn the_document_lists_one_time_outputs(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let schema = |path: &str, method: &str, status: &str| {
        let reference = &document["paths"][path][method]["responses"][status]["content"]["application/json"]
            ["schema"]["$ref"];
        document["components"]["schemas"][reference.as_str().unwrap().rsplit('/').next().unwrap()]
            .clone()
    };
    let created = schema("/hooks", "post", "201");
    assert_eq!(
        (
            &created["properties"]["secret"]["type"],
            &created["properties"]["secret"]["readOnly"]
        ),
        (&json!("string"), &json!(true))
    );
    assert_eq!(
        created["properties"]["validUntil"]["type"],
        json!(["string", "null"])
    );
    // A replay has no one-time value.
    assert!(
        !created["required"]
            .as_array()
            .unwrap()
            .contains(&json!("secret"))
    );
    let ensured = schema("/hooks/ensure", "post", "201");
    assert!(
        ensured["required"]
            .as_array()
            .unwrap()
            .contains(&json!("secret")),
        "{ensured}"
    );
    let read = schema("/hooks/{id}", "get", "200");
    assert!(read["properties"].get("secret").is_none());
    assert!(
        schema("/hooks/{id}", "patch", "200")["properties"]
            .get("secret")
            .is_none()
    );
}

/// A declaration whose value is never set is a start-up error.
#[tokio::test]
async fn a_value_that_is_never_set_is_a_start_up_error() {
    let config = Config::new()
        .signing_secret(crate::server::SECRET)
        .port(0)
        .database("memory:");
    let app = App::new(config)
        .plugin(JwtAuth::new())
        .package(&HOOKS)
        .override_operation(ROTATE, rotated);
    let text = app.start().await.unwrap_err().to_string();
    assert!(text.contains("`create` of `Hook` declares `output_once` for `secret`, `valid_until`, but no code sets it: override the route"), "{text}");
    assert!(
        text.contains("`ensure` of `Hook`")
            && !text.contains("`rotate`")
            && !text.contains("`invite`"),
        "{text}"
    );
}
