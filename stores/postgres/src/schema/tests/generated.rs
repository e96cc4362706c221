//! Tests with generated pairs of tables, whose names need quotes: an action makes the same change
//! in the database as in the model, and the comparison finds every difference.

use std::collections::BTreeSet;

use linchpin_core::schema::{
    Action, Check, CheckRule, Column, ColumnKind, Index, IndexKey, Only, Table, Tables,
};
use linchpin_core::{Timestamp, Value};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{compare, create, perform, session, store};
use crate::schema::session::Session;

/// Names that are hard to quote, some of them with the maximum length.
const NAMES: [&str; 14] = [
    "plain",
    "CamelCase",
    "select",
    "a\"b",
    "it's",
    "new\nline",
    "\\",
    "$1",
    " USING btree (",
    "%I %s",
    "; -- x",
    "\u{1F600}\u{1F600}\u{1F600}\u{1F600}\u{1F600}\u{1F600}\u{1F600}\u{1F600}\u{1F600}\u{1F600}\u{1F600}\u{1F600}\u{1F600}\u{1F600}\u{1F600}abc",
    "ééééééééééééééééééééééééééééééé1",
    "ARRAY['a'::text]",
];

/// The names of the tables.
const FROM: &str = "a \"table\"";
const TO: &str = "Zéééééééééééééééééééééééééééééé\"\n";

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

fn values() -> impl Strategy<Value = Vec<String>> {
    let all: &'static [&str] = &["a", "b", "it's", "x, 'y'::text", "\\", ""];
    prop::sample::subsequence(all, 1..4).prop_map(|found| {
        let mut values: Vec<String> = found.into_iter().map(str::to_owned).collect();
        values.sort();
        values
    })
}

fn kind() -> impl Strategy<Value = ColumnKind> {
    prop_oneof![
        Just(ColumnKind::String),
        values().prop_map(ColumnKind::Enum),
        Just(ColumnKind::Boolean),
        Just(ColumnKind::Integer),
        Just(ColumnKind::Number),
        Just(ColumnKind::Date),
        Just(ColumnKind::StringArray),
        Just(ColumnKind::Json),
    ]
}

/// One of a few defaults of a kind.
fn default(kind: &ColumnKind, n: usize) -> Value {
    match kind {
        ColumnKind::String => Value::Text(NAMES[n].to_owned()),
        ColumnKind::Enum(values) => Value::Text(values[n % values.len()].clone()),
        ColumnKind::Boolean => Value::Bool(n.is_multiple_of(2)),
        ColumnKind::Integer => Value::Int(n as i64 - 5),
        ColumnKind::Number => Value::Float(n as f64 / 3.0),
        ColumnKind::Date => Value::Date(Timestamp::from_millis(n as i64 * 1_234_567_890_123)),
        ColumnKind::StringArray => Value::Strings(vec![NAMES[n].to_owned(); n % 3]),
        ColumnKind::Json => Value::Json(format!("{{\"n\":[{n}.5,null]}}")),
    }
}

fn column(name: String) -> impl Strategy<Value = Column> {
    let default_of = prop::option::of(0..NAMES.len());
    (kind(), any::<bool>(), default_of).prop_map(move |(kind, optional, n)| Column {
        name: name.clone(),
        default: n.map(|n| default(&kind, n)),
        kind,
        optional,
    })
}

/// Indexes of some columns; at most one with each name.
fn indexes(columns: &[Column]) -> impl Strategy<Value = Vec<Index>> + use<> {
    let all: Vec<Column> = columns.to_vec();
    let count = all.len();
    let one = (
        prop::collection::vec((0..count, any::<bool>()), 1..3),
        prop::option::of(0..count),
        any::<bool>(),
        name(),
    );
    prop::collection::vec(one, 0..4).prop_map(move |found| {
        let mut taken = BTreeSet::new();
        let index =
            |(keys, only, unique, name): (Vec<(usize, bool)>, Option<usize>, bool, String)| {
                let mut seen = BTreeSet::new();
                let keys = keys.into_iter().filter(|(at, _)| seen.insert(*at));
                let only = only.map(|at| {
                    let column = all[at].name.clone();
                    match &all[at].kind {
                        ColumnKind::String | ColumnKind::Enum(_) if !unique => {
                            Only::Differs(column, name.clone())
                        }
                        _ => Only::Null(column),
                    }
                });
                Index {
                    // The replacement never makes a name longer, so it stays within the maximum
                    // length.
                    name: name.replacen(['p', 'e', 'é'], "X", 1),
                    unique,
                    keys: keys
                        .map(|(at, desc)| IndexKey {
                            column: all[at].name.clone(),
                            desc,
                        })
                        .collect(),
                    only: only.into_iter().collect(),
                }
            };
        let found = found.into_iter().map(index);
        found
            .filter(|index| taken.insert(index.name.clone()))
            .collect()
    })
}

fn table(name: &'static str, primary: ColumnKind) -> impl Strategy<Value = Table> {
    prop::sample::subsequence(&NAMES[..], 1..6)
        .prop_flat_map(|names| {
            let columns = names.into_iter().map(|name| column(name.to_owned()));
            columns.collect::<Vec<_>>()
        })
        .prop_flat_map(move |mut columns| {
            let key = Column {
                name: "the \"id\"".to_owned(),
                kind: primary.clone(),
                optional: false,
                default: None,
            };
            columns.insert(0, key);
            let indexes = indexes(&columns);
            (Just(columns), indexes)
        })
        .prop_map(move |(columns, indexes)| Table {
            name: name.to_owned(),
            primary: "the \"id\"".to_owned(),
            columns,
            indexes,
            checks: Vec::new(),
        })
}

/// Two tables with a primary key of the same kind.
fn pair() -> impl Strategy<Value = (Table, Table)> {
    let kinds = [ColumnKind::String, ColumnKind::Integer, ColumnKind::Date];
    prop::sample::select(kinds.to_vec())
        .prop_flat_map(|kind| (table(FROM, kind.clone()), table(TO, kind)))
}

/// The table with sorted columns and indexes, because their order has no meaning.
fn sorted(table: &Table) -> Table {
    let mut table = table.clone();
    table.columns.sort_by(|a, b| a.name.cmp(&b.name));
    table.indexes.sort_by(|a, b| a.name.cmp(&b.name));
    table
}

/// The actions from one table to another.
fn actions(from: &Table, to: &Table) -> Vec<Action> {
    let table = || from.name.clone();
    let mut all = Vec::new();
    let untouched = |index: &Index| {
        to.index(&index.name) == Some(index)
            && from
                .columns
                .iter()
                .filter(|column| index.reads(&column.name))
                .all(|column| to.column(&column.name) == Some(column))
    };
    for index in from.indexes.iter().filter(|index| !untouched(index)) {
        all.push(Action::DropIndex {
            table: table(),
            index: index.name.clone(),
        });
    }
    let kinds_differ =
        |a: &ColumnKind, b: &ColumnKind| std::mem::discriminant(a) != std::mem::discriminant(b);
    for column in &from.columns {
        let kept = to.column(&column.name);
        if kept.is_none_or(|to| kinds_differ(&to.kind, &column.kind)) {
            all.push(Action::DropColumn {
                table: table(),
                column: column.name.clone(),
            });
        }
    }
    for (n, column) in to.columns.iter().enumerate() {
        let before = from.column(&column.name);
        let Some(before) = before.filter(|before| !kinds_differ(&before.kind, &column.kind)) else {
            all.push(Action::AddColumn {
                table: table(),
                column: column.clone(),
            });
            continue;
        };
        all.extend(alter(&from.name, n, before, column));
    }
    for (n, index) in to.indexes.iter().enumerate() {
        if from
            .index(&index.name)
            .is_none_or(|before| !untouched(before))
        {
            all.push(Action::CreateIndex {
                table: table(),
                index: index.clone(),
                concurrently: n % 2 == 0,
            });
        }
    }
    if from.name != to.name {
        all.push(Action::RenameTable {
            from: table(),
            to: to.name.clone(),
        });
    }
    all
}

/// The actions from one column to another.
fn alter(table: &str, n: usize, before: &Column, after: &Column) -> Vec<Action> {
    let (table, column) = (|| table.to_owned(), || after.name.clone());
    let mut all = Vec::new();
    let add_check = |rule, actions: &mut Vec<Action>| {
        let name = format!("lp \"{n}\"");
        actions.push(Action::AddCheck {
            table: table(),
            check: Check {
                name: name.clone(),
                column: column(),
                rule,
                valid: false,
            },
        });
        actions.push(Action::ValidateCheck {
            table: table(),
            check: name.clone(),
        });
        name
    };
    if let ColumnKind::Enum(values) = &after.kind
        && before.kind != after.kind
    {
        let check = add_check(CheckRule::Values(values.clone()), &mut all);
        all.push(Action::ReplaceCheck {
            table: table(),
            column: column(),
            check,
        });
    }
    if before.default != after.default {
        all.push(Action::SetDefault {
            table: table(),
            column: column(),
            default: after.default.clone(),
        });
    }
    match (before.optional, after.optional) {
        (false, true) => all.push(Action::DropNotNull {
            table: table(),
            column: column(),
        }),
        (true, false) => {
            let check = add_check(CheckRule::NotNull, &mut all);
            all.push(Action::SetNotNull {
                table: table(),
                column: column(),
            });
            all.push(Action::DropCheck {
                table: table(),
                check,
            });
        }
        _ => {}
    }
    all
}

async fn check(session: &mut Session, from: &Table, to: &Table) {
    for name in [FROM, TO] {
        let drop = format!("DROP TABLE IF EXISTS {}", crate::render::quote(name));
        session.run(&drop).await.expect("absent");
    }
    let mut tables = Tables::new();
    create(session, from, &mut tables).await;
    assert_eq!(compare(session, &tables).await, [], "{from:#?}");
    let same_name = Table {
        name: from.name.clone(),
        ..to.clone()
    };
    let differs = session.compare(&[&same_name]).await.expect("compared");
    assert_eq!(
        differs.is_empty(),
        sorted(from) == sorted(&same_name),
        "{from:#?}\n{to:#?}\n{differs:#?}"
    );
    for action in actions(from, to) {
        perform(session, &action, &mut tables)
            .await
            .unwrap_or_else(|error| panic!("{action:?}: {error}\n{tables:#?}"));
        assert_eq!(compare(session, &tables).await, [], "{action:?}");
    }
    assert_eq!(sorted(&tables[&to.name]), sorted(to));
    assert_eq!(session.compare(&[to]).await.expect("compared"), []);
    // Renames every column, and compares again.
    for column in &to.columns {
        let action = Action::RenameColumn {
            table: to.name.clone(),
            from: column.name.clone(),
            to: format!(
                "{} ",
                &column.name.chars().rev().take(12).collect::<String>()
            ),
        };
        perform(session, &action, &mut tables)
            .await
            .expect("renamed");
    }
    assert_eq!(compare(session, &tables).await, [], "after renames");
    let drop = Action::DropTable {
        table: to.name.clone(),
    };
    perform(session, &drop, &mut tables).await.expect("dropped");
    assert_eq!(
        session.compare(&[to]).await.expect("compared").len(),
        1,
        "it is gone"
    );
}

#[test]
fn actions_change_the_database_like_the_model() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    let store = store();
    let own = parking_lot::Mutex::new(runtime.block_on(session(&store)));
    let mut runner = TestRunner::new(Config::with_cases(40));
    runner
        .run(&pair(), |(from, to)| {
            runtime.block_on(check(&mut own.lock(), &from, &to));
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(linchpin_core::store::Store::close(&store));
}
