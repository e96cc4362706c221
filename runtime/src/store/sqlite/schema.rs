//! Tables and indexes: created on first start, compared ever after.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, Row, SqlitePool};

use super::render::quote;
use crate::entity::{EntityDesc, FieldDesc, Kind};
use crate::{Code, Error, Result};

/// The statements that make an entity's table: name of the object to its DDL.
struct Declared {
    table: String,
    /// Name and DDL, in the order of creation.
    indexes: Vec<(String, String)>,
}

/// Creates what is missing and compares what is there.
pub(super) async fn install(pool: &SqlitePool, entities: &[&'static EntityDesc]) -> Result<()> {
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.map_err(Error::unavailable)?;
    let mut differences = Vec::new();
    for entity in entities {
        let declared = declare(entity);
        let found = sqlx::query("SELECT type, name, sql FROM sqlite_schema WHERE tbl_name = ? AND sql IS NOT NULL")
            .bind(entity.storage_name)
            .fetch_all(&mut *transaction)
            .await
            .map_err(Error::unavailable)?;
        if found.is_empty() {
            for sql in std::iter::once(declared.table).chain(declared.indexes.into_iter().map(|(_, sql)| sql)) {
                // Made of quoted names and fixed words only.
                sqlx::query(AssertSqlSafe(sql)).execute(&mut *transaction).await.map_err(Error::internal)?;
            }
            continue;
        }
        let mut table = String::new();
        let mut indexes = BTreeMap::new();
        for row in found {
            let (kind, name, sql): (String, String, String) = (row.get(0), row.get(1), row.get(2));
            match kind.as_str() {
                "table" => table = sql,
                "index" => drop(indexes.insert(name, sql)),
                _ => {}
            }
        }
        compare(entity, &declared, &table, &indexes, &mut differences);
    }
    if !differences.is_empty() {
        let text = format!(
            "the database differs from what is declared:\n{}\nhelp: until migrations exist, change the declaration back, alter the table by hand, or start with a new file",
            differences.join("\n")
        );
        return Err(Error::new(Code::Internal, text));
    }
    transaction.commit().await.map_err(Error::unavailable)
}

fn declare(entity: &EntityDesc) -> Declared {
    let columns: Vec<String> = entity.fields.iter().enumerate().map(|(i, f)| column(f, i == entity.primary)).collect();
    let table = quote(entity.storage_name);
    let mut indexes = Vec::new();
    // SQLite checks the youngest index first; created in reverse, the first unique declared is the first one reported.
    for unique in entity.uniques.iter().rev() {
        let names: Vec<&str> = unique.fields.iter().map(|f| entity.fields[*f].column).collect();
        let name = index_name("ux", entity.storage_name, &names);
        let columns: Vec<String> = names.iter().map(|n| quote(n)).collect();
        indexes.push((name.clone(), format!("CREATE UNIQUE INDEX {} ON {table} ({})", quote(&name), columns.join(", "))));
    }
    for index in entity.indexes {
        let names: Vec<&str> = index.fields.iter().map(|k| entity.fields[k.field].column).collect();
        let name = index_name("ix", entity.storage_name, &names);
        let mut columns: Vec<String> =
            index.fields.iter().map(|k| format!("{}{}", quote(entity.fields[k.field].column), if k.desc { " DESC" } else { "" })).collect();
        if !index.fields.iter().any(|k| k.field == entity.primary) {
            // Ties are broken by the key in the direction of the sort, so the index must continue with it.
            let desc = index.fields.last().is_some_and(|k| k.desc);
            columns.push(format!("{}{}", quote(entity.primary_field().column), if desc { " DESC" } else { "" }));
        }
        indexes.push((name.clone(), format!("CREATE INDEX {} ON {table} ({})", quote(&name), columns.join(", "))));
    }
    Declared { table: format!("CREATE TABLE {table} (\n  {}\n) STRICT", columns.join(",\n  ")), indexes }
}

fn column(field: &FieldDesc, primary: bool) -> String {
    let name = quote(field.column);
    let kind = match field.kind {
        Kind::Boolean | Kind::Integer | Kind::Date => "INTEGER",
        Kind::Number => "REAL",
        Kind::String | Kind::Enum(_) | Kind::StringArray | Kind::Json | Kind::Items(_) => "TEXT",
    };
    let mut sql = format!("{name} {kind}");
    if !field.optional {
        sql.push_str(" NOT NULL");
    }
    if primary {
        sql.push_str(" PRIMARY KEY");
    }
    match field.kind {
        Kind::Boolean => sql.push_str(&format!(" CHECK ({name} IN (0, 1))")),
        Kind::Enum(desc) => {
            let values: Vec<String> = desc.variants.iter().map(|v| format!("'{}'", v.replace('\'', "''"))).collect();
            sql.push_str(&format!(" CHECK ({name} IN ({}))", values.join(", ")));
        }
        Kind::StringArray | Kind::Json | Kind::Items(_) => sql.push_str(&format!(" CHECK (json_valid({name}))")),
        _ => {}
    }
    sql
}

/// `ix_posts_title`, shortened to 63 bytes with a hash.
fn index_name(prefix: &str, table: &str, columns: &[&str]) -> String {
    let name = format!("{prefix}_{table}_{}", columns.join("_"));
    if name.len() <= 63 {
        return name;
    }
    // FNV-1a: stable across builds and machines.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    let cut = (0..=54).rev().find(|i| name.is_char_boundary(*i)).unwrap_or(0);
    format!("{}_{hash:08x}", &name[..cut])
}

fn compare(entity: &EntityDesc, declared: &Declared, table: &str, indexes: &BTreeMap<String, String>, out: &mut Vec<String>) {
    let name = entity.storage_name;
    let (want, have) = (definitions(&declared.table), definitions(table));
    for (column, sql) in &want {
        match have.iter().find(|(c, _)| c == column) {
            None => out.push(format!("  table {name}: column missing: {sql}")),
            Some((_, found)) if found != sql => out.push(format!("  table {name}: expected {sql}\n    found {found}")),
            Some(_) => {}
        }
    }
    for (column, sql) in &have {
        if !want.iter().any(|(c, _)| c == column) {
            out.push(format!("  table {name}: column not declared: {sql}"));
        }
    }
    for (index, sql) in &declared.indexes {
        match indexes.get(index) {
            None => out.push(format!("  table {name}: index missing: {sql}")),
            Some(found) if normal(found) != normal(sql) => out.push(format!("  table {name}: expected {sql}\n    found {}", normal(found))),
            Some(_) => {}
        }
    }
    for (index, sql) in indexes {
        // An index that somebody added for speed does no harm; a unique one changes what may be written.
        if !declared.indexes.iter().any(|(name, _)| name == index) && normal(sql).to_uppercase().starts_with("CREATE UNIQUE") {
            out.push(format!("  table {name}: unique index not declared: {}", normal(sql)));
        }
    }
}

/// The column definitions of a `CREATE TABLE`, by column name, however they are laid out.
fn definitions(sql: &str) -> Vec<(String, String)> {
    let inner = sql.find('(').and_then(|from| Some(&sql[from + 1..sql.rfind(')')?])).unwrap_or_default();
    let (mut depth, mut quoted, mut start) = (0_i32, None, 0);
    let mut parts = Vec::new();
    for (i, c) in inner.char_indices() {
        match (quoted, c) {
            (Some(q), c) if c == q => quoted = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quoted = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(&inner[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    parts
        .into_iter()
        .map(normal)
        .filter(|p| !p.is_empty())
        .map(|definition| {
            let name = match definition.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
                Some((name, _)) => name.to_owned(),
                None => definition.split(' ').next().unwrap_or_default().to_owned(),
            };
            (name, definition)
        })
        .collect()
}

/// One blank between words.
fn normal(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}
