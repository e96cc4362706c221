//! `custom`: functions of the app, for each store.

#![allow(missing_docs)] // test entities
#![allow(clippy::unused_async)] // functions of custom operations are async by their signature

use linchpin::operation::{CustomCall, CustomStore, MemoryCall, SqlStore};
use linchpin::prelude::*;
use linchpin::{Code, Problem};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};

/// A parcel of a tenant.
#[entity(
    tenant(tenant_id),
    soft_delete(deleted_at),
    version(required_on_write = false),
    unique(slug),
    pagination(default = 50, max = 100)
)]
#[derive(Clone, Debug)]
pub struct Parcel {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: String,
    pub slug: String,
    #[field(default = 0)]
    pub weight: i64,
    #[field(private)]
    pub secret: Option<String>,
    pub sent_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

/// The minimum weight, and a note that the response repeats.
#[derive(Clone, Debug, Embedded)]
pub struct Bounds {
    #[field(range = 0..=1000)]
    pub least: i64,
    pub note: Option<String>,
}

/// The number of parcels and their weight.
#[derive(Clone, Debug, PartialEq, Embedded)]
pub struct Weights {
    pub count: i64,
    pub total: i64,
    pub note: Option<String>,
}

/// Returns its parameter.
#[operation(
    kind = "custom",
    http(method = "GET", path = "ping/{who}"),
    params(who: String, times: Option<i64>),
    output = String,
    handler(memory = ping, sqlite = ping, postgres = ping),
    route(auth = none),
)]
pub const PING: Operation<Hello>;

/// The output of an operation; it is not stored.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Hello {
    #[field(primary)]
    pub id: String,
}

async fn ping<S: CustomStore>(
    call: CustomCall<Hello, S>,
    who: String,
    times: Option<i64>,
) -> Result<String> {
    assert_eq!(call.declaration().name, "ping");
    Ok(vec![who; usize::try_from(times.unwrap_or(1)).unwrap_or_default()].join(" "))
}

/// An operation without a route.
#[operation(kind = "custom", params(who: String), output = String, handler(memory = quiet, sqlite = quiet, postgres = quiet))]
pub const QUIET: Operation<Hello>;

async fn quiet<S: CustomStore>(_: CustomCall<Hello, S>, who: String) -> Result<String> {
    Ok(format!("quiet {who}"))
}

/// Fails in the way that its parameter selects.
#[operation(
    kind = "custom",
    http(method = "POST"),
    params(how: String),
    handler(memory = fail, sqlite = fail, postgres = fail),
)]
pub const FAIL: Operation<Hello>;

async fn fail<S: CustomStore>(
    _: CustomCall<Hello, S>,
    how: String,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    match how.as_str() {
        "ours" => Err(Error::new(Code::Conflict, "not now")
            .with_details(vec![Problem::new("how", "reserved", "is taken")]))?,
        "other" => Err(std::io::Error::other("the disk burns"))?,
        "panic" => panic!("the handler gave up"),
        _ => {}
    }
    Ok(())
}

/// Counts the parcels of at least a weight.
#[operation(
    kind = "custom",
    http(method = "POST", path = "weigh"),
    input = Bounds,
    output = Weights,
    handler(memory = weigh_memory, sqlite = weigh, postgres = weigh),
)]
pub const WEIGH: Operation<Parcel>;

async fn weigh_memory(call: MemoryCall<Parcel>, input: Bounds) -> Result<Weights> {
    let heavy: Vec<i64> = call
        .visible()
        .await?
        .iter()
        .map(|p| p.weight)
        .filter(|weight| *weight >= input.least)
        .collect();
    Ok(Weights {
        count: i64::try_from(heavy.len()).unwrap_or_default(),
        total: heavy.iter().sum(),
        note: input.note,
    })
}

async fn weigh<S: SqlStore>(call: CustomCall<Parcel, S>, input: Bounds) -> Result<Weights> {
    let text = "SELECT count(*) AS n, CAST(COALESCE(sum(weight), 0) AS BIGINT) AS total FROM {visible} WHERE weight >= $1";
    let rows = call.sql(text).bind(input.least).rows().await?;
    Ok(Weights {
        count: rows[0].get("n")?,
        total: rows[0].get("total")?,
        note: input.note,
    })
}

/// The heaviest parcels.
#[operation(
    kind = "custom",
    http(method = "GET"),
    params(most: i64),
    output = Vec<Parcel>,
    handler(memory = heaviest_memory, sqlite = heaviest, postgres = heaviest),
)]
pub const HEAVIEST: Operation<Parcel>;

async fn heaviest_memory(call: MemoryCall<Parcel>, most: i64) -> Result<Vec<String>> {
    let mut all = call.visible().await?;
    all.sort_by_key(|p| std::cmp::Reverse((p.weight, p.slug.clone())));
    Ok(all
        .into_iter()
        .take(usize::try_from(most).unwrap_or_default())
        .map(|p| p.id)
        .collect())
}

async fn heaviest<S: SqlStore>(call: CustomCall<Parcel, S>, most: i64) -> Result<Vec<String>> {
    call.sql("SELECT id FROM {visible} ORDER BY weight DESC, slug DESC LIMIT $1")
        .bind(most)
        .column("id")
        .await
}

/// Sends a parcel and all lighter ones: with the adapter, or with SQL.
#[operation(
    kind = "custom",
    http(method = "POST", path = "{id}/send"),
    output = Parcel,
    handler(memory = send_memory, sqlite = send, postgres = send),
)]
pub const SEND: Operation<Parcel>;

async fn send_memory(call: MemoryCall<Parcel>, id: String) -> Result<String> {
    let now = call.cx().now();
    let parcels = call.adapter();
    let own = parcels
        .get(call.cx(), &*id)
        .await?
        .ok_or_else(Error::not_found)?;
    for lighter in call
        .visible()
        .await?
        .into_iter()
        .filter(|p| p.weight <= own.weight)
    {
        let version = call.version().filter(|_| lighter.id == id);
        parcels
            .update(
                call.cx(),
                lighter.id,
                ParcelPatch {
                    sent_at: Some(Some(now)),
                    ..ParcelPatch::default()
                },
                version,
            )
            .await?;
    }
    Ok(id)
}

async fn send<S: SqlStore>(call: CustomCall<Parcel, S>, id: String) -> Result<String> {
    let mut open = call.begin().await?;
    let own = call
        .sql("SELECT weight, version FROM {visible} WHERE id = $1")
        .bind(id.clone())
        .within(&mut open)
        .rows()
        .await?;
    let own = own.first().ok_or_else(Error::not_found)?;
    if call
        .version()
        .is_some_and(|expected| own.get::<i64>("version").ok() != Some(expected))
    {
        return Err(Error::new(
            Code::PreconditionFailed,
            "The record has another version",
        ));
    }
    let text =
        "UPDATE {table} SET sent_at = $2, version = version + 1 WHERE weight <= $1 AND {guard}";
    let sent = call
        .sql(text)
        .bind(own.get::<i64>("weight")?)
        .bind(call.cx().now())
        .within(&mut open);
    assert!(sent.execute().await? >= 1);
    open.commit().await?;
    Ok(id)
}

/// Tries to leave out the row-level filter, in the way that its parameter selects.
#[operation(
    kind = "custom",
    http(method = "GET"),
    params(how: String),
    output = Option<Parcel>,
    handler(memory = leak_memory, sqlite = leak, postgres = leak),
)]
pub const LEAK: Operation<Parcel>;

async fn leak_memory(call: MemoryCall<Parcel>, how: String) -> Result<Option<String>> {
    match how.as_str() {
        "forgets" => Err(Error::internal("as the others")),
        "stranger" => Ok(call
            .adapter()
            .list(&Cx::system("a leak"), ListQuery::default())
            .await?
            .items
            .pop()
            .map(|p| p.id)),
        _ => Ok(None),
    }
}

async fn leak<S: SqlStore>(call: CustomCall<Parcel, S>, how: String) -> Result<Option<String>> {
    match how.as_str() {
        "forgets" => Ok(call.sql("SELECT id FROM {table}").column("id").await?.pop()),
        // Without the check, the first value of the row-level filter would be bound to `$1`.
        "unbound" => call
            .sql("SELECT id FROM {visible} WHERE slug <> $1")
            .column("id")
            .await
            .map(|mut ids| ids.pop()),
        "spare" => call
            .sql("SELECT id FROM {visible} WHERE slug <> '$1'")
            .bind("a".to_owned())
            .column("id")
            .await
            .map(|mut ids| ids.pop()),
        // A key of another caller's record: the response contains it only if the caller may see it.
        "stranger" => Ok(call
            .adapter()
            .list(&Cx::system("a leak"), ListQuery::default())
            .await?
            .items
            .pop()
            .map(|p| p.id)),
        "taken" => {
            let taken = call
                .sql("UPDATE {table} SET slug = 'a' WHERE {guard}")
                .execute()
                .await;
            taken.map(|_| None)
        }
        _ => Ok(None),
    }
}

pub static PARCELS: Package = package!(
    name = "parcels",
    entities = [
        entity(Parcel, [WEIGH, HEAVIEST, SEND, LEAK]),
        entity(Hello, [PING, QUIET, FAIL])
    ],
);

cases!(
    &crate::custom::PARCELS =>
    custom_returns_the_result_of_its_function, custom_validates_its_inputs,
    custom_without_http_has_no_route, errors_of_a_function_become_responses,
    custom_sql_applies_the_guard, custom_returns_visible_records_in_order,
    custom_by_id_checks_the_version, custom_sql_cannot_bypass_the_guard,
    code_calls_custom_operations, the_document_describes_custom_operations,
);

async fn get_as(s: &Server, token: &str, path: &str) -> Reply {
    s.raw("GET", path, &[("authorization", token)], "").await
}

async fn post_as(s: &Server, token: &str, path: &str, body: Json) -> Reply {
    s.raw(
        "POST",
        path,
        &[
            ("authorization", token),
            ("content-type", "application/json"),
        ],
        &body.to_string(),
    )
    .await
}

async fn custom_returns_the_result_of_its_function(s: &Server) {
    let reply = s.get("/hellos/ping/bob").await;
    assert_eq!((reply.status, reply.json()), (200, json!("bob")));
    assert_eq!(
        s.get("/hellos/ping/a%2Fb?times=2").await.json(),
        json!("a/b a/b")
    );
    assert_eq!(
        s.get("/hellos/ping/a?times[null]=true").await.json(),
        json!("a")
    );
}

async fn custom_validates_its_inputs(s: &Server) {
    s.get("/hellos/ping/bob?times=x")
        .await
        .problem("type", "query:times");
    s.get("/hellos/ping/bob?times=1&times=2")
        .await
        .problem("duplicate", "query:times");
    assert_eq!(
        s.get("/hellos/ping/bob?Times=1").await.code(),
        (400, "unknown_parameter")
    );
    s.post("/hellos/fail", json!({}))
        .await
        .problem("required", "how");
    s.post("/hellos/fail", json!({"how": 1}))
        .await
        .problem("type", "how");
    s.post("/hellos/fail", json!({"how": "x", "more": 1}))
        .await
        .problem("unknown_field", "more");
    assert_eq!(
        s.raw(
            "POST",
            "/hellos/fail",
            &[("content-type", "text/plain")],
            "{}"
        )
        .await
        .status,
        415
    );
    assert_eq!(
        s.post("/hellos/fail", json!({"how": "no"})).await.status,
        204
    );
}

async fn custom_without_http_has_no_route(s: &Server) {
    assert_eq!(
        s.post("/hellos/quiet", json!({"who": "x"})).await.status,
        405,
        "the path is taken as that of a record"
    );
    let hellos = s.running().adapter::<Hello>().unwrap();
    assert_eq!(
        hellos
            .quiet(&Cx::actor(Actor::anonymous()), "mouse")
            .await
            .unwrap(),
        "quiet mouse"
    );
}

async fn errors_of_a_function_become_responses(s: &Server) {
    let ours = s.post("/hellos/fail", json!({"how": "ours"})).await;
    assert_eq!(ours.code(), (409, "conflict"));
    assert_eq!(ours.problems(), [("how".to_owned(), "reserved".to_owned())]);
    for how in ["other", "panic"] {
        let reply = s.post("/hellos/fail", json!({"how": how})).await;
        assert_eq!(
            (reply.status, reply.json()["error"].clone()),
            (500, json!("Internal error")),
            "{how}"
        );
        assert!(!String::from_utf8_lossy(&reply.body).contains("burns"));
    }
}

async fn parcels(s: &Server) {
    for (tenant, slug, weight) in [
        ("t1", "a", 1),
        ("t1", "b", 5),
        ("t1", "c", 9),
        ("t1", "gone", 7),
        ("t2", "a", 50),
        ("t2", "z", 70),
    ] {
        let reply = post_as(
            s,
            &s.token_in("u", tenant),
            "/parcels",
            json!({"slug": slug, "weight": weight}),
        )
        .await;
        assert_eq!(reply.status, 201, "{reply:?}");
        if slug == "gone" {
            let path = format!("/parcels/{}", reply.json()["id"].as_str().unwrap());
            assert_eq!(
                s.raw(
                    "DELETE",
                    &path,
                    &[("authorization", &s.token_in("u", tenant))],
                    ""
                )
                .await
                .status,
                204
            );
        }
    }
}

async fn custom_sql_applies_the_guard(s: &Server) {
    parcels(s).await;
    let (one, two) = (s.token_in("u", "t1"), s.token_in("u", "t2"));
    let weigh = async |token: &str, body: Json| post_as(s, token, "/parcels/weigh", body).await;
    let reply = weigh(&one, json!({"least": 5, "note": "n"})).await;
    assert_eq!(
        (reply.status, reply.json()),
        (200, json!({"count": 2, "total": 14, "note": "n"})),
        "{reply:?}"
    );
    assert_eq!(
        weigh(&two, json!({"least": 0})).await.json(),
        json!({"count": 2, "total": 120, "note": null})
    );
    assert_eq!(
        weigh(&s.token_in("u", "t3"), json!({"least": 0}))
            .await
            .json()["count"],
        0
    );
    assert_eq!(
        s.post("/parcels/weigh", json!({"least": 0})).await.status,
        401
    );
    assert_eq!(
        weigh(&s.token("u", &[]), json!({"least": 0})).await.status,
        403,
        "a caller without a tenant"
    );
    weigh(&one, json!({"least": 1001}))
        .await
        .problem("range", "least");
    weigh(&one, json!({"least": "1", "x": 1}))
        .await
        .problem("unknown_field", "x");
    weigh(&one, json!({})).await.problem("required", "least");
}

async fn custom_returns_visible_records_in_order(s: &Server) {
    parcels(s).await;
    let one = s.token_in("u", "t1");
    let reply = get_as(s, &one, "/parcels/heaviest?most=2").await;
    let records = reply.json();
    let slugs: Vec<&str> = records
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["slug"].as_str().unwrap())
        .collect();
    assert_eq!(
        (reply.status, slugs),
        (200, vec!["c", "b"]),
        "in the order of the function"
    );
    assert!(records[0].get("secret").is_none());
    get_as(s, &one, "/parcels/heaviest")
        .await
        .problem("required", "query:most");
    assert_eq!(
        get_as(s, &one, "/parcels/heaviest?most=1&limit=1")
            .await
            .code(),
        (400, "unknown_parameter")
    );
}

async fn custom_by_id_checks_the_version(s: &Server) {
    parcels(s).await;
    let one = s.token_in("u", "t1");
    let list = get_as(s, &one, "/parcels?slug=b").await.json();
    let id = list["items"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/parcels/{id}/send");
    let reply = s
        .raw(
            "POST",
            &path,
            &[("authorization", &one), ("if-match", "\"7\"")],
            "",
        )
        .await;
    assert_eq!(reply.status, 412, "{reply:?}");
    let reply = s
        .raw(
            "POST",
            &path,
            &[("authorization", &one), ("if-match", "\"1\"")],
            "",
        )
        .await;
    assert_eq!(
        (reply.status, reply.json()["sentAt"].clone()),
        (200, json!("2026-03-04T05:06:07.008Z")),
        "{reply:?}"
    );
    assert_eq!(reply.headers["etag"], "\"2\"");
    let sent = |tenant: &str| {
        let token = s.token_in("u", tenant);
        async move {
            let items = get_as(s, &token, "/parcels").await.json();
            let items = items["items"].as_array().unwrap().clone();
            items.iter().filter(|p| !p["sentAt"].is_null()).count()
        }
    };
    assert_eq!(
        (sent("t1").await, sent("t2").await),
        (2, 0),
        "only visible records were changed"
    );
    assert_eq!(
        s.raw(
            "POST",
            &path,
            &[("authorization", &s.token_in("u", "t2"))],
            ""
        )
        .await
        .status,
        404
    );
    assert_eq!(
        s.raw(
            "POST",
            "/parcels/nobody/send",
            &[("authorization", &one)],
            ""
        )
        .await
        .status,
        404
    );
    assert_eq!(
        s.raw(
            "POST",
            &path,
            &[
                ("authorization", &one),
                ("content-type", "application/json")
            ],
            "{\"x\":1}"
        )
        .await
        .status,
        400
    );
}

fn speaks_sql(s: &Server) -> bool {
    !format!("{:?}", s.running().adapters()).contains("memory")
}

async fn custom_sql_cannot_bypass_the_guard(s: &Server) {
    parcels(s).await;
    let one = s.token_in("u", "t1");
    assert_eq!(
        get_as(s, &one, "/parcels/leak?how=forgets").await.status,
        500,
        "a text without the guard is refused"
    );
    let stranger = get_as(s, &s.token_in("u", "t3"), "/parcels/leak?how=stranger").await;
    assert_eq!(
        (stranger.status, stranger.json()),
        (200, Json::Null),
        "a key does not make a hidden record visible"
    );
    if speaks_sql(s) {
        let taken = get_as(s, &one, "/parcels/leak?how=taken").await;
        assert_eq!(taken.code(), (409, "conflict"));
        assert_eq!(taken.problems(), [("slug".to_owned(), "unique".to_owned())]);
        for how in ["unbound", "spare"] {
            assert_eq!(
                get_as(s, &one, &format!("/parcels/leak?how={how}"))
                    .await
                    .status,
                500,
                "{how}"
            );
        }
    }
    assert_eq!(
        get_as(s, &one, "/parcels/leak?how=no").await.json(),
        Json::Null
    );
}

async fn code_calls_custom_operations(s: &Server) {
    parcels(s).await;
    let parcels = s.running().adapter::<Parcel>().unwrap();
    let actor = Actor {
        tenant_id: Some("t1".to_owned()),
        ..Actor::user("u")
    };
    let cx = Cx::actor(actor).at(s.now());
    let weights = parcels
        .weigh(
            &cx,
            Bounds {
                least: 9,
                note: None,
            },
        )
        .await
        .unwrap();
    assert_eq!(
        weights,
        Weights {
            count: 1,
            total: 9,
            note: None
        }
    );
    let heaviest = parcels.heaviest(&cx, 1).await.unwrap();
    assert_eq!(heaviest[0].slug, "c");
    let sent: Parcel = parcels.send(&cx, &*heaviest[0].id).await.unwrap();
    assert_eq!(sent.sent_at, Some(s.now()));
    assert!(parcels.leak(&cx, "no").await.unwrap().is_none());
    let refused = parcels
        .weigh(
            &cx,
            Bounds {
                least: -1,
                note: None,
            },
        )
        .await
        .unwrap_err();
    assert_eq!(refused.details()[0].code, "range");
    let anonymous = parcels
        .weigh(
            &Cx::actor(Actor::anonymous()),
            Bounds {
                least: 0,
                note: None,
            },
        )
        .await
        .unwrap_err();
    assert_eq!(anonymous.code(), Code::Unauthorized);
    let in_transaction = cx
        .transaction(async |cx| parcels.heaviest(cx, 1).await)
        .await;
    assert_eq!(
        in_transaction.is_err(),
        speaks_sql(s),
        "SQL of a custom operation is refused within a transaction"
    );
}

async fn the_document_describes_custom_operations(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    let ping = &paths["/hellos/ping/{who}"]["get"];
    assert_eq!(
        (&ping["x-linchpin-kind"], &ping["parameters"][0]["name"]),
        (&json!("custom"), &json!("who"))
    );
    let weigh = &paths["/parcels/weigh"]["post"];
    assert_eq!(
        weigh["requestBody"]["content"]["application/json"]["schema"],
        json!({"$ref": "#/components/schemas/ParcelWeighInput"})
    );
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["ParcelWeighInput"]["required"], json!(["least"]));
    assert_eq!(
        schemas["ParcelWeighInput"]["properties"]["least"]["maximum"],
        json!(1000)
    );
    assert_eq!(
        schemas["ParcelWeighOutput"]["required"],
        json!(["count", "total", "note"])
    );
    assert_eq!(schemas["HelloPingOutput"], json!({"type": "string"}));
    let records = &paths["/parcels/heaviest"]["get"]["responses"]["200"]["content"]["application/json"]
        ["schema"];
    assert_eq!(
        records,
        &json!({"type": "array", "items": {"$ref": "#/components/schemas/Parcel"}})
    );
    assert!(
        paths["/parcels/{id}/send"]["post"]["responses"]["200"]["headers"]
            .get("ETag")
            .is_some()
    );
    assert!(!paths.keys().any(|path| path.contains("quiet")));
}

/// An app without a function for the configured store does not start.
mod start {
    use linchpin::StartupError;
    use linchpin::prelude::*;

    use super::{CustomCall, CustomStore};
    use crate::server::SECRET;

    #[entity(routes(auth = none))]
    #[derive(Clone, Debug)]
    pub struct Ledger {
        #[field(primary)]
        pub id: String,
    }

    #[operation(kind = "custom", http(method = "GET"), output = i64, handler(sqlite = export))]
    pub const EXPORT: Operation<Ledger>;

    async fn export<S: CustomStore>(_: CustomCall<Ledger, S>) -> Result<i64> {
        Ok(1)
    }

    static LEDGERS: Package = package!(name = "ledgers", entities = [entity(Ledger, [EXPORT])]);

    async fn start(url: &str) -> Result<linchpin::Running> {
        let config = Config::new().signing_secret(SECRET).port(0).database(url);
        App::new(config)
            .plugin(JwtAuth::new())
            .package(&LEDGERS)
            .start()
            .await
    }

    async fn refused(url: &str, store: &str) {
        let error = start(url).await.unwrap_err();
        let Some(StartupError::Capabilities(gaps)) = error.startup() else {
            panic!("{error:?}")
        };
        assert_eq!(
            (gaps.len(), gaps[0].entity, gaps[0].missing[0].capability),
            (1, "Ledger", "custom.factory")
        );
        let text = error.message();
        for wanted in [
            format!(
                "entity `Ledger` on store `{store}`:\n  no function for {store} (`custom.factory`)\n    required by operation `export` (custom) at "
            ),
            format!(
                "\n    reason: its `handler(..)` names no function for {store}\n  help: write a function, and name it in the operation: `handler({store} = ..)`; or use sqlite\n"
            ),
        ] {
            assert!(text.contains(&wanted), "{text}");
        }
    }

    mod memory {
        #[tokio::test]
        async fn custom_without_a_function_for_the_store_does_not_start() {
            super::refused("memory:", "memory").await;
        }
    }

    /// The store that has a function.
    mod sqlite {
        #[tokio::test]
        async fn custom_without_a_function_for_the_store_does_not_start() {
            let folder = tempfile::tempdir().unwrap();
            let running = super::start(&format!(
                "sqlite:{}",
                folder.path().join("test.db").display()
            ))
            .await
            .unwrap();
            running.stop().await.unwrap();
        }
    }

    #[cfg(feature = "postgres")]
    mod postgres {
        // The server does not exist, and the app never connects to it.
        #[tokio::test]
        async fn custom_without_a_function_for_the_store_does_not_start() {
            super::refused("postgres://nobody@127.0.0.1:1/none", "postgres").await;
        }
    }
}
