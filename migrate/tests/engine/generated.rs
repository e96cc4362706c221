//! Tests with generated pairs of snapshots. A database that a plan migrates from the first to the
//! second must have the same schema as a new database of the second.

use std::process::Command;

use linchpin_core::Value;
use linchpin_core::schema::{ColumnKind, Snapshot};
use linchpin_migrate::Phase;
use serde_json::{Map, Value as Json, json};

use crate::support::{App, Db, index, snapshot};

/// The number of pairs on each store. The seed of a pair is its number.
const PAIRS: usize = 16;
/// The names of entities and fields. Some contain characters that statements must quote.
const ENTITIES: [&str; 3] = ["users", "Order", "weird \"name\""];
const FIELDS: [&str; 6] = ["name", "age", "select", "Größe", "a b", "due"];
const KINDS: [&str; 6] = ["string", "integer", "boolean", "number", "date", "enum"];

/// A random number generator with a seed (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("a small number")
    }

    /// True with a probability of one in `of`.
    fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

/// An entity before its conversion to JSON.
#[derive(Clone, Debug)]
struct Entity {
    name: String,
    /// The former names.
    former: Vec<String>,
    fields: Vec<(String, Json)>,
    /// The fields with an index.
    indexed: Vec<String>,
    /// The fields with a unique index.
    unique: Vec<String>,
}

fn literal(kind: &str) -> Json {
    match kind {
        "integer" => json!(7),
        "boolean" => json!(true),
        "number" => json!(2.5),
        "date" => json!("2026-01-02T03:04:05.678Z"),
        "enum" => json!("a"),
        _ => json!("it's \\ \"x\""),
    }
}

fn field(random: &mut Random) -> Json {
    let kind = KINDS[random.below(KINDS.len())];
    let mut field = json!({ "type": kind, "optional": random.one_in(2) });
    if kind == "enum" {
        field["values"] = json!(["a", "b", "c"][..=random.below(3)]);
    }
    // A required field has a default, so that it can be added to records.
    if field["optional"] == false || random.one_in(3) {
        field["default"] = json!({ "literal": literal(kind) });
    }
    field
}

fn entity(random: &mut Random, name: &str) -> Entity {
    let mut fields: Vec<(String, Json)> = Vec::new();
    for name in FIELDS {
        if random.one_in(2) {
            fields.push((name.to_owned(), field(random)));
        }
    }
    let mut entity = Entity {
        name: name.to_owned(),
        former: Vec::new(),
        fields,
        indexed: Vec::new(),
        unique: Vec::new(),
    };
    choose_indexes(random, &mut entity);
    entity
}

/// Chooses the indexes. Only fields with texts or integers can be unique: these fields have a
/// different value in each inserted row.
fn choose_indexes(random: &mut Random, entity: &mut Entity) {
    entity.indexed.clear();
    entity.unique.clear();
    for (name, field) in &entity.fields {
        if random.one_in(3) {
            entity.indexed.push(name.clone());
        }
        let distinct = ["string", "integer"]
            .iter()
            .any(|kind| field["type"] == *kind);
        // A default gives several records the same value, so the field cannot be unique.
        if distinct
            && field["optional"] == true
            && field.get("default").is_none()
            && random.one_in(3)
        {
            entity.unique.push(name.clone());
        }
    }
}

/// Generates the entities of a first snapshot.
fn random_entities(random: &mut Random) -> Vec<Entity> {
    let mut all = vec![entity(random, ENTITIES[0])];
    for name in &ENTITIES[1..] {
        if random.one_in(2) {
            all.push(entity(random, name));
        }
    }
    all
}

/// A changed version of the same entities.
fn changed(random: &mut Random, before: &[Entity]) -> Vec<Entity> {
    let mut after = Vec::new();
    for (at, known) in before.iter().enumerate() {
        if at > 0 && random.one_in(4) {
            continue;
        }
        let mut entity = known.clone();
        if random.one_in(3) {
            entity.former = vec![known.name.clone()];
            entity.name = format!("{} 2", known.name);
        }
        entity.fields.retain(|_| !random.one_in(4));
        for (name, field) in &mut entity.fields {
            alter(random, field);
            if random.one_in(4) {
                field["formerNames"] = json!([name]);
                *name = format!("{name}_2");
            }
        }
        for name in FIELDS {
            let known = known.fields.iter().any(|(known, _)| known == name);
            if !known && random.one_in(3) {
                entity.fields.push((name.to_owned(), field(random)));
            }
        }
        choose_indexes(random, &mut entity);
        after.push(entity);
    }
    if random.one_in(2) {
        after.push(entity(random, "added"));
    }
    after
}

/// Changes whether a field is optional, its default, or its values.
fn alter(random: &mut Random, field: &mut Json) {
    let kind = field["type"].as_str().expect("a kind").to_owned();
    if random.one_in(3) {
        let optional = field["optional"] == true;
        field["optional"] = json!(!optional);
    }
    let members = field.as_object_mut().expect("an object");
    if members["optional"] == false || random.one_in(3) {
        members.insert("default".to_owned(), json!({ "literal": literal(&kind) }));
    } else if random.one_in(3) {
        members.remove("default");
    }
    if kind == "enum" {
        let values = json!(["a", "b", "c"][..=random.below(3)]);
        members.insert("values".to_owned(), values);
    }
}

fn snapshot_of(entities: &[Entity]) -> Snapshot {
    let parts: Vec<(String, Json, Json)> = entities
        .iter()
        .map(|entity| {
            let fields: Map<String, Json> = entity.fields.iter().cloned().collect();
            let named = |prefix: &str, fields: &[String]| -> Vec<Json> {
                let mut all: Vec<Json> = fields
                    .iter()
                    .map(|field| index(&format!("{prefix}_{}_{field}", entity.name), &[field]))
                    .collect();
                all.sort_by_key(|index| index["name"].to_string());
                all
            };
            let others = json!({
                "formerNames": entity.former,
                "indexes": named("ix", &entity.indexed),
                "uniques": named("ux", &entity.unique),
            });
            (entity.name.clone(), Json::Object(fields), others)
        })
        .collect();
    let parts: Vec<(&str, Json, Json)> = parts
        .iter()
        .map(|(name, fields, others)| (name.as_str(), fields.clone(), others.clone()))
        .collect();
    snapshot(&parts)
}

/// Inserts three records into every table.
async fn insert_records(db: &Db, snapshot: &Snapshot) {
    for table in snapshot.tables().into_values() {
        for n in 1..=3_i64 {
            let value = |kind: &ColumnKind, optional: bool| match kind {
                _ if optional && n == 3 => Value::Null,
                ColumnKind::Integer => Value::Int(n),
                ColumnKind::Boolean => Value::Bool(n == 1),
                ColumnKind::Number => Value::Float(1.5),
                ColumnKind::Date => Value::Date(linchpin_core::Timestamp::from_millis(n)),
                // Every version of the enum has this value.
                ColumnKind::Enum(_) => Value::Text("a".to_owned()),
                _ => Value::Text(format!("v{n}")),
            };
            let quote = |name: &str| db.store.dialect().quote(name);
            let names: Vec<String> = table.columns.iter().map(|c| quote(&c.name)).collect();
            let placeholders: Vec<String> = (1..=names.len()).map(|n| format!("${n}")).collect();
            let (table_name, names, placeholders) = (
                quote(&table.name),
                names.join(", "),
                placeholders.join(", "),
            );
            let sql = format!("INSERT INTO {table_name} ({names}) VALUES ({placeholders})");
            let values: Vec<(Value, ColumnKind)> = table
                .columns
                .iter()
                .map(|column| (value(&column.kind, column.optional), column.kind.clone()))
                .collect();
            let mut session = db.session().await;
            let done = session.execute(&sql, &values).await;
            done.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
}

/// The statements that create the schema, without the tables of the framework. Columns are sorted,
/// because a column that was added later is the last one.
async fn schema(db: &Db) -> Vec<String> {
    let text = if db.is_sqlite() {
        let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL \
                   AND tbl_name NOT LIKE 'linchpin\\_%' ESCAPE '\\'";
        let rows = db.query(sql, &[ColumnKind::String]).await;
        let rows = rows.into_iter().flatten();
        let texts: Vec<String> = rows
            .map(|sql| format!("{};", sql.as_text().expect("a text")))
            .collect();
        texts.join("\n")
    } else {
        let output = Command::new("pg_dump")
            .args(["--schema-only", "--no-owner", "--exclude-table=linchpin_*"])
            .arg(format!("--dbname={}", db.url))
            .output()
            .expect("pg_dump is installed with the server");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let lines = text.lines().filter(|line| {
        !(line.starts_with("--") || line.starts_with("SET ") || line.starts_with('\\'))
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let mut all: Vec<String> = text.split(";\n").map(sorted).collect();
    all.retain(|statement| !statement.is_empty());
    all.sort();
    all
}

/// A statement with single spaces. In a `CREATE TABLE`, the parts between the outermost parentheses
/// are sorted.
fn sorted(statement: &str) -> String {
    let words = statement.trim().trim_end_matches(';');
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let (Some(open), Some(close)) = (words.find('('), words.rfind(')')) else {
        return words;
    };
    if !words.starts_with("CREATE TABLE") {
        return words;
    }
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in words[open + 1..close].chars() {
        match c {
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        parts.last_mut().expect("a part").push(c);
    }
    let mut parts: Vec<&str> = parts.iter().map(|part| part.trim()).collect();
    parts.sort_unstable();
    format!(
        "{}({}){}",
        &words[..open],
        parts.join(", "),
        &words[close + 1..]
    )
}

/// Migrates a database through each generated pair, and asserts that its schema equals that of a
/// new database.
async fn assert_migrated_equals_new(make: fn() -> Db) {
    let mut steps = 0;
    for seed in 0..PAIRS {
        let mut random = Random(seed as u64);
        let first = random_entities(&mut random);
        let second = changed(&mut random, &first);
        let (before, after) = (snapshot_of(&first), snapshot_of(&second));
        let (migrated, new_database) = (make(), make());
        let start = App::new(std::slice::from_ref(&before));
        migrated
            .apply(&start, Phase::Contract)
            .await
            .unwrap_or_else(|r| panic!("seed {seed}: {r} {:?}", r.facts));
        insert_records(&migrated, &before).await;
        let app = App::new(&[before, after.clone()]);
        let done = migrated.apply(&app, Phase::Contract).await;
        let done = done.unwrap_or_else(|r| panic!("seed {seed}: {r} {:?}\n{second:#?}", r.facts));
        steps += done.steps.len();
        let new = App::new(&[after]);
        let installed = new_database.apply(&new, Phase::Contract).await;
        installed.unwrap_or_else(|r| panic!("seed {seed}: {r} {:?}", r.facts));
        migrated.assert_at_head(&app).await;
        let (found, expected) = (schema(&migrated).await, schema(&new_database).await);
        assert!(expected.iter().any(|one| one.starts_with("CREATE TABLE")));
        assert_eq!(found, expected, "seed {seed}");
    }
    assert!(steps > 4 * PAIRS, "the pairs hardly differ: {steps} steps");
}

#[tokio::test(flavor = "multi_thread")]
async fn migrated_and_new_databases_have_one_schema_on_sqlite() {
    assert_migrated_equals_new(Db::sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn migrated_and_new_databases_have_one_schema_on_postgres() {
    assert_migrated_equals_new(Db::postgres).await;
}
