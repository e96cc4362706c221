//! A plan of many entities, each of which changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use linchpin::migrate::cli::{online, parse};
use linchpin::migrate::{Chain, Declared, Migration, Options, apply, digest_of};
use linchpin::schema::{SchemaStore, Snapshot};
use linchpin::store::postgres::PostgresProvider;
use linchpin::store::sqlite::SqliteProvider;
use linchpin::store::{DatabaseUrl, StoreProvider as _};
use serde_json::{Map, Value as Json, json};

use crate::Outcome;
use crate::databases::{Databases, Kind};
use crate::table::{Table, median};

const ENTITIES: usize = 300;
/// The number of plans; the median counts.
const ROUNDS: usize = 5;
const BOUND: Duration = Duration::from_secs(1);

pub(crate) fn measure(databases: &Databases<'_>, kind: Kind, table: &mut Table) -> Outcome<()> {
    let url = databases.new_database(kind, "plans")?;
    let database = DatabaseUrl::new(&url);
    let schema = match kind {
        Kind::Sqlite => SqliteProvider::default().schema(&database)?,
        Kind::Postgres => PostgresProvider::default().schema(&database)?,
    };
    let store: Arc<dyn SchemaStore> = schema.ok_or("the store has no schema")?;
    let times = databases.runtime.block_on(plans(&*store))?;
    drop(store);
    databases.remove(kind, "plans")?;
    let what = format!("{}: plan of {ENTITIES} changed entities", kind.name());
    table.at_most(&what, median(times), BOUND);
    Ok(())
}

/// Installs the entities, and plans their change.
async fn plans(store: &dyn SchemaStore) -> Outcome<Vec<Duration>> {
    let (before, after) = (snapshot(false)?, snapshot(true)?);
    let installed = app(vec![before.clone()])?;
    let chain_and_declared = (&installed.0, &installed.1);
    apply(store, chain_and_declared, &Options::default(), &mut |_| ())
        .await
        .map_err(|refusal| refusal.to_string())?;
    let words = ["migrate", "plan"].map(str::to_owned);
    let command = parse(&words).map_err(|refusal| refusal.to_string())?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let (chain, declared) = app(vec![before.clone(), after.clone()])?;
        let plan = online(&command, store, (&chain, &declared), &mut |_| ())
            .await
            .map_err(|refusal| refusal.to_string())?;
        times.push(started.elapsed());
        let steps = plan.result["migrations"][0]["steps"].as_array();
        // Each entity gets a column and an index.
        if steps.map(Vec::len) != Some(2 * ENTITIES) {
            return Err(format!("another plan: {:?}", steps.map(Vec::len)).into());
        }
    }
    Ok(times)
}

/// A chain of these snapshots, and the app that declares the last one.
fn app(snapshots: Vec<Snapshot>) -> Outcome<(Chain, Declared)> {
    let mut parent = None;
    let migrations = snapshots.into_iter().zip(1..).map(|(snapshot, seq)| {
        let digest = digest_of(&snapshot);
        Migration {
            format: Snapshot::FORMAT,
            seq,
            name: format!("change_{seq}"),
            parent: parent.replace(digest.clone()),
            snapshot,
            snapshot_digest: digest,
            changes: Vec::new(),
            transforms: Vec::new(),
        }
    });
    let chain = Chain::new(migrations.collect()).map_err(|refusal| refusal.to_string())?;
    let declared = Declared {
        own_sql: Vec::new(),
        operations: Vec::new(),
        app: "bench".to_owned(),
        entities: Vec::new(),
        system: Vec::new(),
        transforms: Vec::new(),
        snapshot: chain.snapshot(),
    };
    Ok((chain, declared))
}

/// Entities with eight fields and two indexes. If `changed` is true, each entity has one more field
/// and one more index.
fn snapshot(changed: bool) -> Outcome<Snapshot> {
    let mut entities = Map::new();
    for n in 0..ENTITIES {
        let name = format!("things_{n:03}");
        let mut fields = Map::new();
        let mut add = |field: &str, mut facts: Json| {
            facts["column"] = json!(field);
            facts["formerNames"] = json!([]);
            facts["optional"] = json!(field == "note");
            fields.insert(field.to_owned(), facts);
        };
        add(
            "id",
            json!({ "type": "string", "default": { "kind": "uuid" } }),
        );
        add("title", json!({ "type": "string" }));
        add("body", json!({ "type": "string" }));
        add(
            "state",
            json!({ "type": "enum", "values": ["done", "open"] }),
        );
        add(
            "views",
            json!({ "type": "integer", "default": { "literal": 0 } }),
        );
        add("ratio", json!({ "type": "number" }));
        add("tags", json!({ "type": "string_array" }));
        add(
            "created_at",
            json!({ "type": "date", "default": { "kind": "now" } }),
        );
        let mut indexes = vec![index(&name, "created_at"), index(&name, "state")];
        if changed {
            add("note", json!({ "type": "string" }));
            indexes.push(index(&name, "views"));
        }
        let entity = json!({
            "name": name, "storageName": name, "formerNames": [], "primary": "id",
            "fields": fields, "indexes": indexes, "uniques": [], "counters": [], "checks": [],
        });
        entities.insert(name, entity);
    }
    let snapshot = json!({ "format": Snapshot::FORMAT, "entities": entities });
    Ok(serde_json::from_value(snapshot)?)
}

fn index(entity: &str, field: &str) -> Json {
    json!({
        "name": format!("ix_{entity}_{field}"),
        "keys": [{ "field": field, "desc": false }],
        "live": false,
    })
}
