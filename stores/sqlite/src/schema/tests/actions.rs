//! Tests of actions on generated tables: afterwards the database has the tables of the model, and
//! the same rows.

use std::path::PathBuf;

use linchpin_core::schema::{
    Action, Check, CheckRule, Column, ColumnKind, Index, IndexKey, Only, SchemaSession, Table,
    Tables, TransactionMode, check_name,
};
use linchpin_core::{Timestamp, Value};
use proptest::prelude::*;

use crate::render::quote;
use crate::schema::SqliteSchema;
use crate::schema::dialect::literal;
use crate::schema::session::Session;

/// Names that break a statement without correct quoting.
const NAMES: [&str; 20] = [
    "plain",
    "Upper",
    "a\"b",
    "it's",
    "new\nline",
    "two  spaces",
    "éééééééééééééééééééééééééééééé1",
    "日本語日本語日本語日本語日本語日本語日本語",
    "select",
    "check",
    "CONSTRAINT",
    "--comment",
    "/*",
    "a);DROP TABLE b;--",
    "[b]",
    "`c`",
    "?1",
    "$1",
    "rowid",
    " ",
];

const ROWS: i64 = 3;

/// Numbers that choose an action and its parts.
#[derive(Clone, Copy, Debug)]
struct Seed {
    action: usize,
    object: usize,
    name: usize,
    kind: usize,
    flag: bool,
}

fn seed() -> impl Strategy<Value = Seed> {
    let number = || 0..1000_usize;
    (number(), number(), number(), number(), any::<bool>()).prop_map(
        |(action, object, name, kind, flag)| Seed {
            action,
            object,
            name,
            kind,
            flag,
        },
    )
}

/// Returns a name that is not taken.
fn unused_name(seed: usize, taken: impl Fn(&str) -> bool) -> String {
    let base = NAMES[seed % NAMES.len()];
    let numbered = (2..).map(|n| format!("{base}{n}"));
    let mut names = std::iter::once(base.to_owned()).chain(numbered);
    names.find(|name| !taken(name)).expect("a free name")
}

fn kind(seed: usize) -> ColumnKind {
    match seed % 8 {
        0 => ColumnKind::String,
        1 => ColumnKind::Enum(vec![
            "a".to_owned(),
            "it's".to_owned(),
            "two\nlines".to_owned(),
        ]),
        2 => ColumnKind::Boolean,
        3 => ColumnKind::Integer,
        4 => ColumnKind::Number,
        5 => ColumnKind::Date,
        6 => ColumnKind::StringArray,
        _ => ColumnKind::Json,
    }
}

fn sample(kind: &ColumnKind, seed: usize) -> Value {
    match kind {
        ColumnKind::String => Value::Text(format!("text '{seed}'\n")),
        ColumnKind::Enum(values) => Value::Text(values[seed % values.len()].clone()),
        ColumnKind::Boolean => Value::Bool(seed.is_multiple_of(2)),
        ColumnKind::Integer => Value::Int(seed as i64 - 3),
        ColumnKind::Number => Value::Float(seed as f64 / 4.0 - 1.0),
        ColumnKind::Date => Value::Date(Timestamp::from_millis(seed as i64 - 9)),
        ColumnKind::StringArray => Value::Strings(vec![format!("{seed}\"'")]),
        ColumnKind::Json => Value::Json(format!("{{\"a'\":[{seed}]}}")),
    }
}

/// The model and the database.
struct Fixture {
    session: Session,
    tables: Tables,
    name: String,
}

impl Fixture {
    async fn new(path: PathBuf, seed: Seed) -> Self {
        let name = unused_name(seed.name, |_| false);
        let primary = unused_name(seed.object, |_| false);
        let table = Table {
            name: name.clone(),
            primary: primary.clone(),
            columns: vec![Column {
                name: primary.clone(),
                kind: if seed.flag {
                    ColumnKind::Integer
                } else {
                    ColumnKind::String
                },
                optional: false,
                default: None,
            }],
            indexes: Vec::new(),
            checks: Vec::new(),
        };
        let mut fixture = Self {
            session: SqliteSchema::unshared(path).session(),
            tables: Tables::new(),
            name: name.clone(),
        };
        fixture.perform(Action::CreateTable { table }).await;
        for i in 1..=ROWS {
            let key = if seed.flag {
                i.to_string()
            } else {
                format!("'{i}'")
            };
            let (table, primary) = (quote(&name), quote(&primary));
            fixture
                .write(&format!("INSERT INTO {table} ({primary}) VALUES ({key})"))
                .await;
        }
        fixture
    }

    fn table(&self) -> &Table {
        &self.tables[&self.name]
    }

    async fn write(&mut self, sql: &str) {
        let session = &mut self.session;
        session.begin(TransactionMode::Write).await.expect("begun");
        let done = session.execute(sql, &[]).await;
        done.unwrap_or_else(|e| panic!("{sql}: {e}"));
        session.commit().await.expect("committed");
    }

    async fn assert_equal(&mut self, when: &str) {
        let tables: Vec<&Table> = self.tables.values().collect();
        let found = self.session.compare(&tables).await.expect("compared");
        assert_eq!(found, [], "{when}");
    }

    /// Performs an action twice: first it is rolled back, then committed.
    async fn perform(&mut self, action: Action) {
        let before = self.tables.clone();
        for commit in [false, true] {
            let session = &mut self.session;
            session.begin(TransactionMode::Write).await.expect("begun");
            let done = session.perform(&action, &before).await;
            done.unwrap_or_else(|e| panic!("{action:?}: {e}"));
            if commit {
                session.commit().await.expect("committed");
                action.apply(&mut self.tables);
                if let Action::RenameTable { to, .. } = &action {
                    self.name.clone_from(to);
                }
            } else {
                session.rollback().await;
            }
            self.assert_equal(&format!("{action:?}, committed: {commit}"))
                .await;
        }
    }

    /// Sets the nulls of a column to a value that fits.
    async fn fill(&mut self, column: &Column) {
        let (table, name) = (quote(&self.name), quote(&column.name));
        let value = literal(&sample(&column.kind, 1));
        let sql = format!("UPDATE {table} SET {name} = {value} WHERE {name} IS NULL");
        self.write(&sql).await;
    }

    fn unused_column_name(&self, seed: usize) -> String {
        let columns = &self.table().columns;
        unused_name(seed, |name| {
            columns.iter().any(|c| c.name.eq_ignore_ascii_case(name))
        })
    }

    fn unused_index_name(&self, seed: usize) -> String {
        let (table, indexes) = (self.table(), &self.table().indexes);
        unused_name(seed, |name| {
            table.name.eq_ignore_ascii_case(name)
                || indexes.iter().any(|i| i.name.eq_ignore_ascii_case(name))
        })
    }

    async fn drop_indexes_on(&mut self, column: &str) {
        let indexes = self.table().indexes.clone();
        for index in indexes.iter().filter(|index| index.reads(column)) {
            self.perform(Action::DropIndex {
                table: self.name.clone(),
                index: index.name.clone(),
            })
            .await;
        }
    }

    async fn add_column(&mut self, name: String, kind: ColumnKind, required: bool) {
        let default = required.then(|| sample(&kind, name.len()));
        let column = Column {
            name,
            kind,
            optional: !required,
            default,
        };
        let table = self.name.clone();
        self.perform(Action::AddColumn { table, column }).await;
    }

    /// Runs the action that the numbers choose.
    async fn step(&mut self, seed: Seed) {
        let table = self.name.clone();
        let columns = self.table().columns.clone();
        let column = columns[seed.object % columns.len()].clone();
        let is_primary = column.name == self.table().primary;
        match seed.action % 12 {
            0 | 1 => {
                let name = self.unused_column_name(seed.name);
                self.add_column(name, kind(seed.kind), seed.flag).await;
            }
            2 if !is_primary => {
                self.drop_indexes_on(&column.name).await;
                let column = column.name;
                self.perform(Action::DropColumn { table, column }).await;
            }
            3 => {
                let other_case = column.name.to_ascii_uppercase();
                let to = if seed.flag && other_case != column.name {
                    other_case
                } else {
                    self.unused_column_name(seed.name)
                };
                let from = column.name;
                self.perform(Action::RenameColumn { table, from, to }).await;
            }
            4 => {
                let other_case = table.to_ascii_lowercase();
                let to = if seed.flag && other_case != table {
                    other_case
                } else {
                    self.unused_index_name(seed.name)
                };
                self.perform(Action::RenameTable { from: table, to }).await;
            }
            5 => self.create_index(&column, seed).await,
            6 => self.change_index(seed).await,
            7 => {
                let default = seed.flag.then(|| sample(&column.kind, seed.kind));
                let column = column.name;
                self.perform(Action::SetDefault {
                    table,
                    column,
                    default,
                })
                .await;
            }
            8 if !is_primary => {
                let name = column.name.clone();
                let action = if column.optional {
                    self.fill(&column).await;
                    Action::SetNotNull {
                        table,
                        column: name,
                    }
                } else {
                    Action::DropNotNull {
                        table,
                        column: name,
                    }
                };
                self.perform(action).await;
            }
            9 => self.check(&column, seed).await,
            10 if !is_primary => self.swap(&column, seed).await,
            11 => self.rebuild(seed).await,
            _ => {}
        }
    }

    async fn create_index(&mut self, column: &Column, seed: Seed) {
        let key = |column: &str, desc| IndexKey {
            column: column.to_owned(),
            desc,
        };
        let primary = self.table().primary.clone();
        let mut keys = vec![key(&column.name, seed.flag)];
        if column.name != primary {
            keys.push(key(&primary, false));
        }
        let only = match (&column.kind, seed.kind % 3) {
            (_, 0) => vec![Only::Null(column.name.clone())],
            (ColumnKind::String | ColumnKind::Enum(_), 1) => {
                vec![Only::Differs(column.name.clone(), "it's".to_owned())]
            }
            _ => Vec::new(),
        };
        let index = Index {
            name: self.unused_index_name(seed.name),
            unique: seed.flag,
            keys,
            only,
        };
        self.perform(Action::CreateIndex {
            table: self.name.clone(),
            index,
            concurrently: seed.flag,
        })
        .await;
    }

    async fn change_index(&mut self, seed: Seed) {
        let indexes = self.table().indexes.clone();
        let Some(index) = indexes.get(seed.object % indexes.len().max(1)) else {
            return;
        };
        let (table, from) = (self.name.clone(), index.name.clone());
        let action = if seed.flag {
            Action::DropIndex { table, index: from }
        } else {
            let to = self.unused_index_name(seed.name);
            Action::RenameIndex { table, from, to }
        };
        self.perform(action).await;
    }

    async fn check(&mut self, column: &Column, seed: Seed) {
        let table = self.name.clone();
        let rule = match &column.kind {
            ColumnKind::Enum(values) => {
                let more = format!("more {}", values.len());
                CheckRule::Values(values.iter().cloned().chain([more]).collect())
            }
            _ => {
                self.fill(column).await;
                CheckRule::NotNull
            }
        };
        let name = format!("{}__next", check_name(&table, &column.name));
        let check = Check {
            name: name.clone(),
            column: column.name.clone(),
            rule,
            valid: true,
        };
        let replaces = matches!(check.rule, CheckRule::Values(_));
        self.perform(Action::AddCheck {
            table: table.clone(),
            check,
        })
        .await;
        self.perform(Action::ValidateCheck {
            table: table.clone(),
            check: name.clone(),
        })
        .await;
        if replaces && seed.flag {
            self.perform(Action::ReplaceCheck {
                table,
                column: column.name.clone(),
                check: name,
            })
            .await;
            return;
        }
        let to = format!("{name} 'renamed'");
        self.perform(Action::RenameCheck {
            table: table.clone(),
            from: name,
            to: to.clone(),
        })
        .await;
        self.perform(Action::DropCheck { table, check: to }).await;
    }

    async fn swap(&mut self, column: &Column, seed: Seed) {
        self.drop_indexes_on(&column.name).await;
        let next = self.unused_column_name(seed.name);
        self.add_column(next.clone(), kind(seed.kind), seed.flag)
            .await;
        let source = self.unused_column_name(seed.name + 1);
        self.add_column(source.clone(), column.kind.clone(), false)
            .await;
        self.perform(Action::SwapColumn {
            table: self.name.clone(),
            old: column.name.clone(),
            next,
            source,
            name: column.name.clone(),
        })
        .await;
    }

    /// Several changes in one rebuild: a column renamed, one added, and a new order.
    async fn rebuild(&mut self, seed: Seed) {
        let from = self.table().clone();
        let old = from.columns[seed.object % from.columns.len()].name.clone();
        let new = self.unused_column_name(seed.name);
        let mut after = Tables::from([(from.name.clone(), from.clone())]);
        let table = from.name.clone();
        Action::RenameColumn {
            table,
            from: old.clone(),
            to: new.clone(),
        }
        .apply(&mut after);
        let mut to = after.remove(&from.name).expect("the table");
        to.columns.reverse();
        let source = |name: &str| {
            if name == new {
                old.clone()
            } else {
                name.to_owned()
            }
        };
        let columns = to.columns.iter();
        let columns = columns.map(|c| (c.name.clone(), source(&c.name))).collect();
        let taken = |name: &str| to.columns.iter().any(|c| c.name.eq_ignore_ascii_case(name));
        let added = Column {
            name: unused_name(seed.name + 7, taken),
            kind: kind(seed.kind),
            optional: seed.flag,
            default: (!seed.flag).then(|| sample(&kind(seed.kind), 5)),
        };
        to.columns.push(added);
        self.perform(Action::Rebuild { from, to, columns }).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn performed_actions_give_the_tables_of_the_model(
        first in seed(),
        seeds in prop::collection::vec(seed(), 1..12),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("test.db");
        let run = async {
            let mut fixture = Fixture::new(path, first).await;
            for seed in seeds {
                fixture.step(seed).await;
            }
            let key = quote(&fixture.table().primary);
            let query = format!("SELECT CAST({key} AS TEXT) FROM {} ORDER BY 1", quote(&fixture.name));
            let rows = fixture.session.query(&query, &[], &[ColumnKind::String]).await;
            let keys: Vec<_> = rows.expect("the rows").concat();
            let expected: Vec<_> = (1..=ROWS).map(|i| Value::Text(i.to_string())).collect();
            assert_eq!(keys, expected);
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(run);
    }
}
