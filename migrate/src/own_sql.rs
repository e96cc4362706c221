//! The SQL of custom operations during a rename.

use linchpin_core::schema::Snapshot;

use crate::lower::entity::is_replaced;
use crate::pairs::{self, EntityPair, FieldPair};

/// SQL that the functions of a custom operation run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnSql {
    /// The storage name of the entity of the operation.
    pub entity: &'static str,
    /// The name of the operation.
    pub operation: &'static str,
    /// The SQL texts.
    pub texts: &'static [&'static str],
}

/// A table, and those of its names that a rename changes.
struct Renamed<'s> {
    /// The storage name in the later snapshot.
    entity: &'s str,
    /// The earlier and the later name of the table.
    tables: [&'s str; 2],
    /// Old and new names of the table and its columns, each with the placeholder that follows the
    /// rename.
    names: Vec<(&'s str, String)>,
}

/// Returns the reason why two binaries cannot serve together during a rename: an SQL text contains
/// the name of a renamed table or column. The placeholders `{table}` and `{column:name}` follow a
/// rename.
///
/// A column of another entity than that of the operation counts only if the text names its table.
pub(crate) fn fence(sql: &[OwnSql], before: &Snapshot, after: &Snapshot) -> Option<String> {
    if sql.is_empty() {
        return None;
    }
    let renamed = renamed(before, after);
    sql.iter().find_map(|own| {
        let mut found = own.texts.iter().flat_map(|text| {
            let words = words(text);
            let has = move |name: &str| words.iter().any(|word| word.eq_ignore_ascii_case(name));
            renamed
                .iter()
                .filter(|table| {
                    table.entity == own.entity || table.tables.iter().any(|name| has(name))
                })
                .flat_map(|table| &table.names)
                .filter(|(name, _)| has(name))
                .collect::<Vec<_>>()
        });
        let (name, placeholder) = found.next()?;
        Some(format!(
            "the SQL of operation `{}` names `{name}`, which is renamed; write `{placeholder}`, \
             which follows the rename",
            own.operation
        ))
    })
}

/// Returns the operation whose SQL names a field, by a column name or by a placeholder.
pub(crate) fn operation_with_field(
    sql: &[OwnSql],
    tables: [&str; 2],
    field: &str,
    columns: [&str; 2],
) -> Option<&'static str> {
    let braces = format!("{{column:{field}}}");
    let found = sql.iter().find(|own| {
        own.texts.iter().any(|text| {
            let words = words(text);
            let has = |name: &str| words.iter().any(|word| word.eq_ignore_ascii_case(name));
            let reads_table = tables.contains(&own.entity) || tables.iter().any(|name| has(name));
            reads_table && (text.contains(&braces) || columns.iter().any(|name| has(name)))
        })
    });
    found.map(|own| own.operation)
}

fn renamed<'s>(before: &'s Snapshot, after: &'s Snapshot) -> Vec<Renamed<'s>> {
    let mut all = Vec::new();
    for pair in pairs::entities(before, after) {
        let EntityPair::Kept { before, after } = pair else {
            continue;
        };
        let tables = [before.storage_name.as_str(), after.storage_name.as_str()];
        let mut names = Vec::new();
        if before.storage_name != after.storage_name {
            names.extend(tables.map(|name| (name, "{table}".to_owned())));
        }
        for pair in pairs::fields(before, after) {
            if let FieldPair::Kept {
                before: (_, was),
                after: (field, is),
            } = pair
                && was.column != is.column
                && !is_replaced(was, is)
            {
                let placeholder = format!("{{column:{field}}}");
                names.extend([&was.column, &is.column].map(|c| (c.as_str(), placeholder.clone())));
            }
        }
        all.push(Renamed {
            entity: &after.storage_name,
            tables,
            names,
        });
    }
    all
}

/// The words of a text outside of braces. Words in quotes are included, because they may be names.
fn words(text: &str) -> Vec<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((outside, inside)) = rest.split_once('{') {
        plain.push_str(outside);
        plain.push(' ');
        rest = inside.split_once('}').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let words = plain.split(|c| !is_part(c)).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn snapshot(table: &str, former: &[&str], field: &str, earlier: &[&str]) -> Snapshot {
        let plain =
            json!({ "type": "string", "column": "id", "optional": false, "formerNames": [] });
        let renamed = json!({
            "type": "string", "column": field, "optional": false, "formerNames": earlier,
        });
        serde_json::from_value(json!({ "format": 2, "entities": { table: {
            "name": "Post", "storageName": table, "formerNames": former, "primary": "id",
            "fields": { "id": plain, field: renamed },
            "indexes": [], "uniques": [], "counters": [], "checks": [],
        } } }))
        .expect("a snapshot")
    }

    fn reason(text: &'static str) -> Option<String> {
        reason_of("articles", text)
    }

    fn reason_of(entity: &'static str, text: &'static str) -> Option<String> {
        let before = snapshot("posts", &[], "title", &[]);
        let after = snapshot("articles", &["posts"], "headline", &["title"]);
        let texts: &'static [&'static str] = Box::leak(Box::new([text]));
        let own = OwnSql {
            entity,
            operation: "best",
            texts,
        };
        fence(&[own], &before, &after)
    }

    #[test]
    fn sql_that_names_a_renamed_column_ends_the_overlap() {
        let text = "SELECT id FROM {table} WHERE \"Headline\" = $1";
        assert_eq!(
            reason(text).expect("a reason"),
            "the SQL of operation `best` names `headline`, which is renamed; write \
             `{column:headline}`, which follows the rename"
        );
        assert!(reason("SELECT count(*) FROM posts").is_some());
    }

    #[test]
    fn sql_of_another_entity_ends_the_overlap_if_it_names_the_table() {
        let text = "SELECT title FROM {visible}";
        assert!(reason(text).is_some());
        assert_eq!(reason_of("books", text), None);
        assert!(reason_of("books", "EXISTS (SELECT 1 FROM Posts WHERE title = $1)").is_some());
    }

    #[test]
    fn placeholders_in_sql_follow_a_rename() {
        assert_eq!(
            reason("SELECT id FROM {table} WHERE {column:title} = $1"),
            None
        );
        assert_eq!(reason("{column:headline} > 'subtitle'"), None);
    }
}
