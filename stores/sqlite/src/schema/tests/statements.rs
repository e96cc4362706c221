//! Tests of the statements of actions.

use linchpin_conformance::THING;
use linchpin_core::Value;
use linchpin_core::entity::{EntityDesc, SoftDelete};
use linchpin_core::schema::{Action, Dialect, EntitySnapshot, Index, Table, Tables};
use linchpin_core::store::layout;

use crate::render::index_condition;
use crate::schema::dialect::{SqliteDialect, create_index, creation_order};
use crate::schema::sql;

#[test]
fn every_action_is_transactional_and_has_statements() {
    let tables = Tables::new();
    let action = Action::RenameTable {
        from: "a".to_owned(),
        to: "A".to_owned(),
    };
    // The names differ only in case; for SQLite they are equal.
    assert_eq!(
        SqliteDialect.statements(&action, &tables),
        [
            "ALTER TABLE \"a\" RENAME TO \"__lp_A\"",
            "ALTER TABLE \"__lp_A\" RENAME TO \"A\"",
        ]
    );
    assert!(SqliteDialect.is_transactional(&action));
    assert!(SqliteDialect.lock(&action).brief);
}

#[test]
fn renaming_checks_changes_only_their_names() {
    let text = "CREATE TABLE t (a TEXT DEFAULT 'CONSTRAINT x CHECK' CONSTRAINT X CHECK (a = 'x'), \
                x TEXT /* CONSTRAINT x */ CONSTRAINT \"y\" CHECK (x = 'y'))";
    let new_name = |name: &str| name.eq_ignore_ascii_case("x").then(|| "q\"".to_owned());
    assert_eq!(
        sql::rename_constraints(text, new_name),
        text.replace("CONSTRAINT X CHECK", "CONSTRAINT \"q\"\"\" CHECK")
    );
}

#[test]
fn unique_indexes_are_created_from_the_last_to_the_first() {
    let index = |name: &str, unique| Index {
        name: name.to_owned(),
        unique,
        keys: Vec::new(),
        only: Vec::new(),
    };
    let table = Table {
        name: "t".to_owned(),
        primary: "id".to_owned(),
        columns: Vec::new(),
        indexes: vec![
            index("a", true),
            index("b", true),
            index("c", false),
            index("d", false),
        ],
        checks: Vec::new(),
    };
    let names: Vec<&str> = creation_order(&table).map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["b", "a", "c", "d"]);
}

/// An upsert refers to a partial unique index by the condition of the index, so the upsert and the
/// index must render this condition in the same way.
#[test]
fn the_condition_of_an_index_is_rendered_like_in_statements() {
    static MARKED: EntityDesc = EntityDesc {
        soft_delete: Some(SoftDelete::Is(7, || Value::Text("it's".to_owned()))),
        ..THING
    };
    static TITLED: EntityDesc = EntityDesc {
        soft_delete: Some(SoftDelete::Is(2, || Value::Text("gone".to_owned()))),
        ..THING
    };
    static DATED: EntityDesc = EntityDesc {
        soft_delete: Some(SoftDelete::At(6)),
        ..THING
    };
    for (entity, condition) in [
        (&MARKED, " WHERE \"status\" <> 'it''s'"),
        (&TITLED, " WHERE \"order\" IS NOT 'gone'"),
        (&DATED, " WHERE \"due_at\" IS NULL"),
    ] {
        let table = EntitySnapshot::of(entity).table();
        for stored in layout::indexes(entity).iter().filter(|index| index.unique) {
            let name = stored.name(entity);
            let index = table.index(&name).expect("the index");
            let sql = create_index(&table.name, Some(&table), index);
            assert!(sql.ends_with(condition), "{sql}");
            assert_eq!(index_condition(entity, stored), condition);
        }
    }
}
