//! The DDL statements for the declarations of entities.

use crate::render::{only, quote};
use linchpin_core::entity::{EntityDesc, FieldDesc, Kind};
use linchpin_core::store::layout;

/// The maximum number of enum variants that a check compares one by one. For `IN` with more than
/// two values SQLite builds a temporary table at each check.
const COMPARED: usize = 64;

/// The DDL statements of an entity's table.
pub(super) struct Declared {
    pub(super) table: String,
    /// Name and DDL, in the order of creation.
    pub(super) indexes: Vec<(String, String)>,
}

pub(super) fn declare(entity: &EntityDesc) -> Declared {
    let columns: Vec<String> = entity
        .fields
        .iter()
        .enumerate()
        .map(|(i, f)| column(f, i == entity.primary))
        .collect();
    let table = quote(entity.storage_name);
    let mut indexes = Vec::new();
    let all = layout::indexes(entity);
    // SQLite checks the newest index first; they are created in reverse, so that the first declared
    // unique is reported first.
    let uniques = all.iter().rev().filter(|index| index.unique);
    for index in uniques.chain(all.iter().filter(|index| !index.unique)) {
        let name = index.name(entity);
        let columns: Vec<String> = index
            .keys
            .iter()
            .map(|k| {
                format!(
                    "{}{}",
                    quote(entity.fields[k.field].column),
                    if k.desc { " DESC" } else { "" }
                )
            })
            .collect();
        let unique = if index.unique { "UNIQUE " } else { "" };
        let sql = format!(
            "CREATE {unique}INDEX {} ON {table} ({}){}",
            quote(&name),
            columns.join(", "),
            only(entity, index)
        );
        indexes.push((name, sql));
    }
    Declared {
        table: format!(
            "CREATE TABLE {table} (\n  {}\n) STRICT",
            columns.join(",\n  ")
        ),
        indexes,
    }
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
            let values = desc
                .variants
                .iter()
                .map(|v| format!("'{}'", v.replace('\'', "''")));
            let check = if desc.variants.len() > COMPARED {
                format!("{name} IN ({})", values.collect::<Vec<_>>().join(", "))
            } else {
                values
                    .map(|v| format!("{name} = {v}"))
                    .collect::<Vec<_>>()
                    .join(" OR ")
            };
            sql.push_str(&format!(" CHECK ({check})"));
        }
        Kind::StringArray | Kind::Json | Kind::Items(_) => {
            // Older versions of SQLite treat null as invalid JSON; their `integrity_check` then
            // reports the record.
            let null = if field.optional {
                format!("{name} IS NULL OR ")
            } else {
                String::new()
            };
            sql.push_str(&format!(" CHECK ({null}json_valid({name}))"));
        }
        _ => {}
    }
    sql
}
