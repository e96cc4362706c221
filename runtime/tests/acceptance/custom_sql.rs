//! SQL of custom operations: the placeholder for visible records, and the checks of SQL texts at
//! start-up.

#![allow(missing_docs)] // a fixture

use linchpin::operation::{CustomCall, MemoryCall, SqlStore};
use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{SECRET, Server};

/// A trunk of an owner.
#[entity(scope(owner_id = ctx(actor.id)), routes(auth = "userAuth"))]
#[derive(Clone, Debug)]
pub struct Trunk {
    #[field(primary)]
    pub id: String,
    pub owner_id: String,
    pub weight: i64,
}

/// Uses the placeholder `{visible}` twice, each time with an alias. The server replaces it with the
/// records that the caller may see.
const HEAVIER: &str = "SELECT t.id FROM {visible} AS t WHERE t.weight > (SELECT avg(o.weight) FROM {visible} o) ORDER BY t.id";

/// The trunks that are heavier than the mean.
#[operation(
    kind = "custom",
    http(method = "GET"),
    output = Vec<Trunk>,
    sql(HEAVIER, "weight > $1 AND id <> $2"),
    handler(memory = heavier_memory, sqlite = heavier, postgres = heavier),
)]
pub const HEAVIER_ONES: Operation<Trunk>;

async fn heavier_memory(call: MemoryCall<Trunk>) -> Result<Vec<String>> {
    let mut all = call.visible().await?;
    let sum: i64 = all.iter().map(|trunk| trunk.weight).sum();
    let count = i64::try_from(all.len()).unwrap_or_default();
    all.retain(|trunk| trunk.weight * count > sum);
    all.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(all.into_iter().map(|trunk| trunk.id).collect())
}

async fn heavier<S: SqlStore>(call: CustomCall<Trunk, S>) -> Result<Vec<String>> {
    call.sql(HEAVIER).column("id").await
}

static TRUNKS: Package = package!(name = "trunks", entities = [entity(Trunk, [HEAVIER_ONES])]);

cases!(&crate::custom_sql::TRUNKS => visible_records_can_have_an_alias);

async fn visible_records_can_have_an_alias(s: &Server) {
    for (who, id, weight) in [
        ("ada", "a", 1),
        ("ada", "b", 5),
        ("ada", "c", 9),
        ("ada", "d", 7),
        ("bob", "e", 50),
        ("bob", "f", 70),
    ] {
        let headers = [
            ("authorization", &*s.token(who, &[])),
            ("content-type", "application/json"),
        ];
        let made = s
            .raw(
                "POST",
                "/trunks",
                &headers,
                &json!({ "id": id, "weight": weight }).to_string(),
            )
            .await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    for (who, expected) in [("ada", vec!["c", "d"]), ("bob", vec!["f"]), ("cem", vec![])] {
        let answer = s
            .raw(
                "GET",
                "/trunks/heavier-ones",
                &[("authorization", &*s.token(who, &[]))],
                "",
            )
            .await
            .json();
        let ids: Vec<&Json> = answer
            .as_array()
            .unwrap()
            .iter()
            .map(|trunk| &trunk["id"])
            .collect();
        assert_eq!(ids, expected, "{who}");
    }
}

/// An entity whose operation lists invalid SQL.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Chest {
    #[field(primary)]
    pub id: String,
    pub weight: i64,
}

#[operation(
    kind = "custom",
    output = i64,
    sql(
        "SELECT count(*) FROM {visible} WHERE weight > $1",
        "SELECT wieght FROM {visible}",
        "SELECT id FROM chests",
        "SELECT id FROM {visible} WHERE weight = $2",
        "weight = wieght",
    ),
    handler(memory = chests_memory, sqlite = chests, postgres = chests),
)]
pub const COUNT_CHESTS: Operation<Chest>;

async fn chests_memory(call: MemoryCall<Chest>) -> Result<i64> {
    Ok(i64::try_from(call.visible().await?.len()).unwrap_or_default())
}

async fn chests<S: SqlStore>(call: CustomCall<Chest, S>) -> Result<i64> {
    let rows = call
        .sql("SELECT count(*) AS n FROM {visible}")
        .rows()
        .await?;
    rows.first().map_or(Ok(0), |row| row.get("n"))
}

static CHESTS: Package = package!(name = "chests", entities = [entity(Chest, [COUNT_CHESTS])]);

/// The start-up error; empty if the app starts.
async fn start_error(url: String) -> String {
    let config = Config::new().signing_secret(SECRET).port(0).database(url);
    match App::new(config)
        .plugin(JwtAuth::new())
        .package(&CHESTS)
        .start()
        .await
    {
        Ok(running) => running.stop().await.map(|()| String::new()).unwrap(),
        Err(error) => error.to_string(),
    }
}

/// All mistakes are reported together.
fn has_all_problems(text: &str) {
    assert_eq!(
        (
            text.matches("custom operation `count_chests`").count(),
            text.matches("\n  in: ").count()
        ),
        (4, 4),
        "{text}"
    );
    for part in [
        "wieght",
        "has no row-level filter",
        "does not use `$1`",
        "in: weight = wieght",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_texts_are_checked_at_start_up() {
    assert_eq!(
        start_error("memory:".to_owned()).await,
        "",
        "it has no statements"
    );
    let folder = tempfile::tempdir().unwrap();
    has_all_problems(
        &start_error(format!(
            "sqlite:{}",
            folder.path().join("test.db").display()
        ))
        .await,
    );
    #[cfg(feature = "postgres")]
    has_all_problems(&start_error(crate::server::postgres_server::fresh_url()).await);
}
