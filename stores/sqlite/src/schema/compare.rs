//! Compares declarations with the existing schema.

use super::declare::Declared;
use super::sql::{self, Definition, normal};
use linchpin_core::entity::EntityDesc;

/// An object of the database.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// `table`, `index`, `view` or `trigger`.
    pub(super) kind: String,
    pub(super) name: String,
    /// The table it belongs to.
    pub(super) table: String,
    pub(super) sql: String,
}

/// The state of the database for one entity.
pub(super) enum State {
    /// None of its objects exists.
    Missing,
    /// Its table exists; every difference has been noted.
    Present,
}

/// Notes every difference of an entity's objects.
pub(super) fn compare(
    entity: &EntityDesc,
    declared: &Declared,
    objects: &[Object],
    out: &mut Vec<String>,
) -> State {
    let name = entity.storage_name;
    let mut differs = |what: String| out.push(format!("  table {name}: {what}"));
    // SQLite ignores case in names.
    let Some(found) = objects.iter().find(|o| o.name.eq_ignore_ascii_case(name)) else {
        if let Some(earlier) = entity
            .rename_from
            .and_then(|old| objects.iter().find(|o| o.name.eq_ignore_ascii_case(old)))
        {
            differs(format!(
                "missing, but the {} {}, its earlier name, is there",
                earlier.kind, earlier.name
            ));
        }
        for (index, _) in &declared.indexes {
            if let Some(other) = objects.iter().find(|o| o.name.eq_ignore_ascii_case(index)) {
                differs(format!(
                    "the name of its index {index} belongs to {}",
                    place(other)
                ));
            }
        }
        return State::Missing;
    };
    if found.kind != "table" {
        differs(format!(
            "expected a table, found {}: {}",
            place(found),
            normal(&found.sql)
        ));
        return State::Present;
    }
    if found.name != name {
        differs(format!("is called {} in the database", found.name));
    }
    match sql::table(&found.sql) {
        Some(text) => columns(declared, &text, &mut differs),
        None => differs(format!(
            "expected an ordinary table, found {}",
            normal(&found.sql)
        )),
    }
    let own: Vec<&Object> = objects
        .iter()
        .filter(|o| o.table.eq_ignore_ascii_case(name))
        .collect();
    indexes(declared, &own, objects, &mut differs);
    for trigger in own.iter().filter(|o| o.kind == "trigger") {
        differs(format!("trigger not declared: {}", normal(&trigger.sql)));
    }
    State::Present
}

fn place(object: &Object) -> String {
    if object.name == object.table {
        format!("a {} of that name", object.kind)
    } else {
        format!("the {} {} of {}", object.kind, object.name, object.table)
    }
}

fn columns(declared: &Declared, have: &sql::TableText, differs: &mut impl FnMut(String)) {
    // The declared text is our own and always parses.
    let Some(want) = sql::table(&declared.table) else {
        return;
    };
    let same = |a: &Definition, b: &Definition| match (&a.column, &b.column) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        _ => false,
    };
    for column in &want.definitions {
        match have.definitions.iter().find(|found| same(column, found)) {
            None => differs(format!("column missing: {}", column.text)),
            Some(found) if found.column != column.column || !found.agrees(column) => {
                differs(format!(
                    "expected the column {}\n    found {}",
                    column.text, found.text
                ));
            }
            Some(_) => {}
        }
    }
    for found in have
        .definitions
        .iter()
        .filter(|found| !want.definitions.iter().any(|column| same(column, found)))
    {
        let what = if found.column.is_some() {
            "column"
        } else {
            "constraint"
        };
        differs(format!("{what} not declared: {}", found.text));
    }
    if have.options != want.options {
        let found = if have.options_text.is_empty() {
            "nothing"
        } else {
            &have.options_text
        };
        differs(format!(
            "expected {} after its columns, found {found}",
            want.options_text
        ));
    }
}

fn indexes(declared: &Declared, own: &[&Object], all: &[Object], differs: &mut impl FnMut(String)) {
    for (index, sql) in &declared.indexes {
        match all.iter().find(|o| o.name.eq_ignore_ascii_case(index)) {
            None => differs(format!("index missing: {sql}")),
            Some(other) if other.kind != "index" || !own.iter().any(|o| o.name == other.name) => {
                differs(format!(
                    "index missing: {sql}\n    its name belongs to {}",
                    place(other)
                ));
            }
            Some(found) if !sql::same_index(&found.sql, sql) => {
                differs(format!("expected {sql}\n    found {}", normal(&found.sql)));
            }
            Some(_) => {}
        }
    }
    let ours = |o: &Object| {
        declared
            .indexes
            .iter()
            .any(|(index, _)| o.name.eq_ignore_ascii_case(index))
    };
    // An additional index for speed is harmless; an additional unique index changes which records
    // are accepted.
    for extra in own
        .iter()
        .filter(|o| o.kind == "index" && !ours(o) && sql::is_unique(&o.sql))
    {
        differs(format!("unique index not declared: {}", normal(&extra.sql)));
    }
}
