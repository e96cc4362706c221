//! Tables, indexes and the folding function: created on the first start, compared on later starts.
//!
//! The server rewrites definitions in its own form. So the declaration is also created as a
//! temporary table, which is rolled back at once, and the server describes both.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, Row};

use super::render::{FOLD, direction, literal, only, quote};
use linchpin_core::entity::{EntityDesc, FieldDesc, Kind};
use linchpin_core::filter::eval::fold;
use linchpin_core::store::layout;
use linchpin_core::{Code, Error, Result};

/// Locked while tables are created: several processes of one app may start at once. An index of a
/// large table takes long, also for processes that wait.
const ALONE: [&str; 2] = [
    "SET LOCAL statement_timeout = '10min'",
    "SELECT pg_advisory_xact_lock(1818848867, hashtext(coalesce(current_schema(), '')))",
];

/// Creates missing objects and compares existing ones. If anything differs, nothing is changed.
pub(super) async fn install(pool: &PgPool, entities: &[&'static EntityDesc]) -> Result<()> {
    let mut connection = pool.acquire().await.map_err(Error::unavailable)?;
    let mut transaction = connection.begin().await.map_err(Error::unavailable)?;
    alone(&mut transaction).await.map_err(Error::unavailable)?;
    let mut differences = Vec::new();
    let encoding: String = sqlx::query_scalar("SHOW server_encoding")
        .fetch_one(&mut *transaction)
        .await
        .map_err(Error::unavailable)?;
    if encoding != "UTF8" {
        differences.push(format!(
            "  the database keeps texts as {encoding}, expected UTF8"
        ));
    }
    let mut missing = Vec::new();
    for entity in entities {
        match compare(&mut transaction, entity)
            .await
            .map_err(Error::unavailable)?
        {
            None => match earlier(&mut transaction, entity)
                .await
                .map_err(Error::unavailable)?
            {
                None => missing.push(*entity),
                Some(what) => differences.push(format!("  table {}: {what}", entity.storage_name)),
            },
            Some(found) => differences.extend(
                found
                    .into_iter()
                    .map(|what| format!("  table {}: {what}", entity.storage_name)),
            ),
        }
    }
    if !differences.is_empty() {
        let text = format!(
            "the database differs from what is declared:\n{}\nhelp: until migrations exist, change the declaration back, alter the table by hand, or start with a new database",
            differences.join("\n")
        );
        return Err(Error::new(Code::Internal, text));
    }
    folding(&mut transaction).await.map_err(Error::internal)?;
    for entity in missing {
        for sql in declare(entity, false) {
            execute(&mut transaction, &sql)
                .await
                .map_err(Error::internal)?;
        }
    }
    transaction.commit().await.map_err(Error::unavailable)
}

/// The table under the previous name of an entity's table. An empty new table would look like lost
/// records.
async fn earlier(
    connection: &mut PgConnection,
    entity: &EntityDesc,
) -> sqlx::Result<Option<String>> {
    let Some(name) = entity.rename_from else {
        return Ok(None);
    };
    let found = "SELECT EXISTS (SELECT FROM pg_class WHERE relname = $1 AND relnamespace = current_schema()::regnamespace)";
    let there: bool = sqlx::query_scalar(found)
        .bind(name)
        .fetch_one(connection)
        .await?;
    Ok(there.then(|| format!("missing, but {name}, its earlier name, is there")))
}

/// Takes the lock for creating tables, until the end of the transaction.
pub(super) async fn alone(connection: &mut PgConnection) -> sqlx::Result<()> {
    for sql in ALONE {
        sqlx::query(sql).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Runs a text that consists of quoted names and fixed text only.
async fn execute(connection: &mut PgConnection, sql: &str) -> sqlx::Result<()> {
    sqlx::query(AssertSqlSafe(sql))
        .execute(connection)
        .await
        .map(drop)
}

/// All differences of an entity's table; `None` if it does not exist.
async fn compare(
    connection: &mut PgConnection,
    entity: &EntityDesc,
) -> sqlx::Result<Option<Vec<String>>> {
    let name = quote(entity.storage_name);
    let table: Option<String> = sqlx::query_scalar(
        "SELECT CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' \
         WHEN 'f' THEN 'foreign table' WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' ELSE 'type' END \
         FROM pg_class c WHERE c.relname = $1 AND c.relnamespace = current_schema()::regnamespace",
    )
    .bind(entity.storage_name)
    .fetch_optional(&mut *connection)
    .await?;
    match table.as_deref() {
        None => return Ok(None),
        Some("table") => {}
        Some(other) => {
            return Ok(Some(vec![format!(
                "expected a table, found a {other} of that name"
            )]));
        }
    }
    let schema: String = sqlx::query_scalar("SELECT quote_ident(current_schema())")
        .fetch_one(&mut *connection)
        .await?;
    let have = describe(connection, &format!("{schema}.{name}")).await?;
    let mut model = connection.begin().await?;
    for sql in declare(entity, true) {
        execute(&mut model, &sql).await?;
    }
    let want = describe(&mut model, &format!("pg_temp.{name}")).await?;
    model.rollback().await?;
    Ok(Some(differences(&want, &have)))
}

fn differences(want: &BTreeMap<String, String>, have: &BTreeMap<String, String>) -> Vec<String> {
    let mut all = Vec::new();
    for (name, text) in want {
        match have.get(name) {
            None => all.push(format!("{name} missing: {text}")),
            Some(found) if found != text => {
                all.push(format!("expected {name} {text}\n    found {found}"));
            }
            Some(_) => {}
        }
    }
    // An additional index for speed is harmless; an additional unique index changes which records
    // are accepted.
    let harmless =
        |name: &str, text: &str| name.starts_with("index ") && !text.starts_with("UNIQUE");
    for (name, text) in have
        .iter()
        .filter(|(name, text)| !want.contains_key(*name) && !harmless(name, text))
    {
        all.push(format!("{name} not declared: {text}"));
    }
    all
}

/// The columns, constraints, indexes and triggers of a table, as the server describes them.
async fn describe(
    connection: &mut PgConnection,
    table: &str,
) -> sqlx::Result<BTreeMap<String, String>> {
    const PARTS: &str = "
        SELECT 'column ' || quote_ident(a.attname), format_type(a.atttypid, a.atttypmod)
            || COALESCE(' COLLATE ' || quote_ident(c.collname), '')
            || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
            || CASE a.attidentity WHEN 'a' THEN ' GENERATED ALWAYS AS IDENTITY' WHEN 'd' THEN ' GENERATED BY DEFAULT AS IDENTITY' ELSE '' END
            || COALESCE(CASE a.attgenerated WHEN 's' THEN ' GENERATED ALWAYS AS ' ELSE ' DEFAULT ' END || pg_get_expr(d.adbin, d.adrelid), '')
        FROM pg_attribute a
        LEFT JOIN pg_collation c ON c.oid = a.attcollation AND c.collname <> 'default'
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL
        SELECT 'constraint ' || quote_ident(conname), pg_get_constraintdef(oid)
        FROM pg_constraint WHERE conrelid = $1::regclass AND contype <> 'n'
        UNION ALL
        SELECT 'index ' || quote_ident(c.relname), CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END
            || CASE WHEN i.indisvalid THEN '' ELSE 'INVALID ' END
            || substring(pg_get_indexdef(i.indexrelid) FROM 'USING .*')
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE i.indrelid = $1::regclass AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = i.indrelid)
        UNION ALL
        SELECT 'trigger ' || quote_ident(tgname), pg_get_triggerdef(oid)
        FROM pg_trigger WHERE tgrelid = $1::regclass AND NOT tgisinternal";
    let rows = sqlx::query(PARTS).bind(table).fetch_all(connection).await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect()
}

/// The DDL statements of an entity's table; a temporary one is used for the description.
fn declare(entity: &EntityDesc, temporary: bool) -> Vec<String> {
    let table = quote(entity.storage_name);
    let mut columns: Vec<String> = entity
        .fields
        .iter()
        .enumerate()
        .map(|(i, f)| column(f, i == entity.primary))
        .collect();
    columns.push(format!(
        "CONSTRAINT {} PRIMARY KEY ({})",
        quote(&key_name(entity)),
        quote(entity.primary_field().column)
    ));
    let kind = if temporary {
        "TEMPORARY TABLE"
    } else {
        "TABLE"
    };
    let mut all = vec![format!(
        "CREATE {kind} {table} (\n  {}\n)",
        columns.join(",\n  ")
    )];
    // The server checks them in the order of creation: the first declared unique is reported first.
    for index in layout::indexes(entity) {
        let key = |k: &linchpin_core::entity::SortDesc| {
            let field = &entity.fields[k.field];
            format!(
                "{} {}",
                quote(field.column),
                direction(field.optional, k.desc)
            )
        };
        let keys: Vec<String> = index.keys.iter().map(key).collect();
        let unique = if index.unique { "UNIQUE " } else { "" };
        let name = quote(&index.name(entity));
        all.push(format!(
            "CREATE {unique}INDEX {name} ON {table} ({}){}",
            keys.join(", "),
            only(entity, &index)
        ));
    }
    all
}

fn column(field: &FieldDesc, primary: bool) -> String {
    let name = quote(field.column);
    let kind = match field.kind {
        Kind::String | Kind::Enum(_) => "TEXT COLLATE \"C\"",
        Kind::Boolean => "BOOLEAN",
        Kind::Integer if primary => "BIGINT GENERATED BY DEFAULT AS IDENTITY",
        Kind::Integer => "BIGINT",
        Kind::Number => "DOUBLE PRECISION",
        Kind::Date => "TIMESTAMPTZ(3)",
        Kind::StringArray => "TEXT[]",
        Kind::Json | Kind::Items(_) => "JSONB",
    };
    let mut sql = format!("{name} {kind}");
    if !field.optional {
        sql.push_str(" NOT NULL");
    }
    if let Kind::Enum(desc) = field.kind {
        let values: Vec<String> = desc.variants.iter().map(|v| literal(v)).collect();
        sql.push_str(&format!(" CHECK ({name} IN ({}))", values.join(", ")));
    }
    sql
}

/// `pk_posts`
pub(super) fn key_name(entity: &EntityDesc) -> String {
    layout::shortened(format!("pk_{}", entity.storage_name))
}

/// Creates the function that folds case: the framework's own folding as a character table.
async fn folding(connection: &mut PgConnection) -> sqlx::Result<()> {
    let body = folding_body();
    let text = "SELECT prosrc FROM pg_proc WHERE proname = $1 AND pronamespace = current_schema()::regnamespace AND NOT proisstrict";
    let found: Option<String> = sqlx::query_scalar(text)
        .bind(FOLD)
        .fetch_optional(&mut *connection)
        .await?;
    if found.as_deref() == Some(body) {
        return Ok(());
    }
    // Not STRICT: then the server inlines the body, which is ten times as fast. A null stays null.
    let sql = format!(
        "CREATE OR REPLACE FUNCTION {FOLD}(text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS {}",
        literal(body)
    );
    execute(connection, &sql).await
}

/// Computed once: it examines every Unicode character.
fn folding_body() -> &'static str {
    static BODY: OnceLock<String> = OnceLock::new();
    BODY.get_or_init(fold_all)
}

fn fold_all() -> String {
    let (mut from, mut to) = (String::new(), String::new());
    for c in '\u{1}'..=char::MAX {
        let one = fold(c.encode_utf8(&mut [0; 4]));
        if !one.chars().eq([c]) {
            from.push(c);
            to.push_str(&one);
        }
    }
    // Most texts are ASCII, for which the server is fast; in other texts, too, one character
    // becomes one character.
    format!(
        "SELECT CASE WHEN octet_length($1) = char_length($1) THEN lower($1 COLLATE \"C\") ELSE translate($1, {}, {}) END",
        literal(&from),
        literal(&to)
    )
}
