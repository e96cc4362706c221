//! What handlers of custom operations reach their own entity's store by: its pool, and statements
//! under the guard.

// In a build without a database there is nothing to speak to, and the interface stays.
#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(dead_code, unused_variables, clippy::unused_async)
)]

use crate::Error;
use crate::entity::EntityDesc;
use crate::entity::{FieldType, Kind};
use crate::filter::Filter;
#[cfg(feature = "postgres")]
use crate::store::postgres;
#[cfg(feature = "sqlite")]
use crate::store::sqlite;
use crate::{Result, Value};

/// The way into a store for statements that are not the framework's.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Driver {
    /// There is none.
    None,
    /// The pool of the conversation lane.
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::SqlitePool),
    /// The pool of the conversation lane.
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
}

/// A row that a statement of a handler answered.
#[derive(Debug)]
pub struct SqlRow(Row);

#[derive(Debug)]
enum Row {
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::sqlite::SqliteRow),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::postgres::PgRow),
}

impl SqlRow {
    /// The value of a column, as a field of this type holds it; null only for an `Option`.
    ///
    /// # Errors
    /// `internal` when there is no such column, or it holds something else.
    pub fn get<T: FieldType>(&self, column: &str) -> Result<T> {
        let value = self.value(column, T::KIND)?;
        T::from_value(value.as_ref())
            .map_err(|error| Error::internal(format!("column `{column}`: {error}")))
    }

    fn value(&self, column: &str, kind: Kind) -> Result<Value> {
        match self.0 {
            #[cfg(feature = "sqlite")]
            Row::Sqlite(ref row) => sqlite::read(row, column, kind),
            #[cfg(feature = "postgres")]
            Row::Postgres(ref row) => postgres::read(row, column, kind),
        }
    }
}

/// A transaction of a handler's own statements. Dropping it undoes them.
#[derive(Debug)]
pub struct SqlTransaction(Open);

#[derive(Debug)]
enum Open {
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::Transaction<'static, sqlx::Postgres>),
}

impl SqlTransaction {
    /// Makes its statements last.
    ///
    /// # Errors
    /// `unavailable` when they could not be made to last.
    pub async fn commit(self) -> Result<()> {
        match self.0 {
            #[cfg(feature = "sqlite")]
            Open::Sqlite(open) => open.commit().await.map_err(Error::unavailable),
            #[cfg(feature = "postgres")]
            Open::Postgres(open) => open.commit().await.map_err(Error::unavailable),
        }
    }
}

/// A statement with its values.
pub(crate) struct Query {
    pub(crate) entity: &'static EntityDesc,
    pub(crate) text: &'static str,
    pub(crate) values: Vec<(Value, Kind)>,
    /// Which records the caller sees.
    pub(crate) guard: Filter,
}

/// What a statement is run for.
pub(crate) enum Answer {
    Rows(Vec<SqlRow>),
    Count(u64),
}

impl Driver {
    /// The way into a store, by the handle that it gives.
    pub(crate) fn of(store: &dyn super::Store) -> Self {
        let Some(native) = store.native() else {
            return Self::None;
        };
        #[cfg(feature = "sqlite")]
        let native = match native.downcast() {
            Ok(pool) => return Self::Sqlite(*pool),
            Err(native) => native,
        };
        #[cfg(feature = "postgres")]
        let native = match native.downcast() {
            Ok(pool) => return Self::Postgres(*pool),
            Err(native) => native,
        };
        drop(native);
        Self::None
    }

    /// Begins a transaction. On SQLite it holds the file's lock from the start, so that it cannot
    /// fail halfway for want of it.
    pub(crate) async fn begin(&self, entity: &EntityDesc) -> Result<SqlTransaction> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => {
                let open = pool
                    .begin_with("BEGIN IMMEDIATE")
                    .await
                    .map_err(|e| sqlite::failed(entity, e))?;
                Ok(SqlTransaction(Open::Sqlite(open)))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => Ok(SqlTransaction(Open::Postgres(
                pool.begin()
                    .await
                    .map_err(|e| postgres::failed(entity, e))?,
            ))),
            Self::None => Err(none(entity)),
        }
    }

    /// Asks the database whether it knows how to run a text of the user's: a statement, or the
    /// condition of one. Nothing is run.
    ///
    /// # Errors
    /// What is wrong with it, or the database cannot be asked.
    pub(crate) async fn judge(
        &self,
        entity: &'static EntityDesc,
        text: &'static str,
    ) -> Result<()> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(pool) => {
                let query = Query::judged(entity, text)?;
                query.numbered()?;
                sqlx::Executor::prepare(pool, query.whole(sqlite::condition)?)
                    .await
                    .map(drop)
                    .map_err(Error::internal)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => {
                let text = Query::judged(entity, text)?.whole(postgres::condition)?;
                match sqlx::Executor::prepare(pool, text).await {
                    // Types of parameters come with their values; without them the server may not
                    // know which are meant.
                    Err(sqlx::Error::Database(error))
                        if matches!(error.code().as_deref(), Some("42P18" | "42725")) =>
                    {
                        Ok(())
                    }
                    other => other.map(drop).map_err(Error::internal),
                }
            }
            Self::None => Ok(()),
        }
    }

    /// Runs a statement, within a transaction when there is one.
    pub(crate) async fn run(
        &self,
        query: Query,
        within: Option<&mut SqlTransaction>,
        rows: bool,
    ) -> Result<Answer> {
        let entity = query.entity;
        /// Both databases are spoken to in the same words.
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        macro_rules! speak {
            ($store:ident, $row:path, $on:expr, $query:expr) => {{
                let (text, values) = $query.render($store::condition)?;
                let statement =
                    sqlx::query_with(sqlx::AssertSqlSafe(text), $store::arguments(values)?);
                let failed = |error| $store::failed(entity, error);
                if rows {
                    let rows = statement.fetch_all($on).await.map_err(failed)?;
                    Ok(Answer::Rows(
                        rows.into_iter().map(|row| SqlRow($row(row))).collect(),
                    ))
                } else {
                    Ok(Answer::Count(
                        statement
                            .execute($on)
                            .await
                            .map_err(failed)?
                            .rows_affected(),
                    ))
                }
            }};
        }
        match (self, within.map(|open| &mut open.0)) {
            #[cfg(feature = "sqlite")]
            (Self::Sqlite(pool), None) => {
                query.numbered()?;
                speak!(sqlite, Row::Sqlite, pool, query)
            }
            #[cfg(feature = "sqlite")]
            (Self::Sqlite(_), Some(Open::Sqlite(open))) => {
                query.numbered()?;
                speak!(sqlite, Row::Sqlite, &mut **open, query)
            }
            #[cfg(feature = "postgres")]
            (Self::Postgres(pool), None) => speak!(postgres, Row::Postgres, pool, query),
            #[cfg(feature = "postgres")]
            (Self::Postgres(_), Some(Open::Postgres(open))) => {
                speak!(postgres, Row::Postgres, &mut **open, query)
            }
            #[allow(unreachable_patterns)] // without a database there is nothing else
            _ => Err(none(entity)),
        }
    }
}

impl Query {
    /// The text with the guard in its places, and all values.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn render(
        self,
        condition: impl Fn(&'static EntityDesc, &Filter, usize) -> Result<(String, Vec<(Value, Kind)>)>,
    ) -> Result<(String, Vec<(Value, Kind)>)> {
        self.bound()?;
        let (guard, further) = condition(self.entity, &self.guard, self.values.len())?;
        let table = format!("\"{}\"", self.entity.storage_name.replace('"', "\"\""));
        let visible = format!("(SELECT * FROM {table} WHERE {guard})");
        if !self.text.contains("{visible}") && !self.text.contains("{guard}") {
            return Err(Error::internal(format!(
                "a statement on `{}` leaves the guard out: it names neither `{{visible}}` nor `{{guard}}`; if it must not, take \
                 `unguarded(\"the reason\")`",
                self.entity.name
            )));
        }
        let text = named(self.text, &visible, &table)
            .replace("{guard}", &format!("({guard})"))
            .replace("{table}", &table);
        Ok((text, self.values.into_iter().chain(further).collect()))
    }

    /// A text as it stands, with as many values as it names.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn judged(entity: &'static EntityDesc, text: &'static str) -> Result<Self> {
        let most = parameters(text).into_iter().max().unwrap_or_default();
        if most > MOST_PARAMETERS {
            return Err(Error::internal(format!(
                "`${most}` is beyond what a statement may name"
            )));
        }
        Ok(Self {
            entity,
            text,
            values: vec![(Value::Null, Kind::String); most],
            guard: Filter::TRUE,
        })
    }

    /// The whole text, also of a condition, as it stands behind `WHERE`.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn whole(
        self,
        condition: impl Fn(&'static EntityDesc, &Filter, usize) -> Result<(String, Vec<(Value, Kind)>)>,
    ) -> Result<sqlx::SqlStr> {
        let first = self
            .text
            .trim_start()
            .split(|c: char| !is_of_word(c))
            .next()
            .unwrap_or_default();
        let is_statement = STATEMENTS
            .iter()
            .any(|word| word.eq_ignore_ascii_case(first));
        let text =
            if is_statement || self.text.contains("{visible}") || self.text.contains("{guard}") {
                self.render(condition)?.0
            } else {
                self.bound()?;
                format!(
                    "SELECT 1 FROM \"{}\" WHERE ({})",
                    self.entity.storage_name.replace('"', "\"\""),
                    self.text
                )
            };
        Ok(sqlx::SqlSafeStr::into_sql_str(sqlx::AssertSqlSafe(text)))
    }

    /// Each parameter has a value and each value a parameter: one without would take the first of
    /// the guard's.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn bound(&self) -> Result<()> {
        let mut named = vec![false; self.values.len()];
        for number in parameters(self.text) {
            let Some(seen) = number.checked_sub(1).and_then(|at| named.get_mut(at)) else {
                return Err(Error::internal(format!(
                    "a statement on `{}` names `${number}` and has {} values: `.bind(..)` adds the next",
                    self.entity.name,
                    self.values.len()
                )));
            };
            *seen = true;
        }
        match named.iter().position(|named| !named) {
            Some(at) => Err(Error::internal(format!(
                "a statement on `{}` does not name `${}`",
                self.entity.name,
                at + 1
            ))),
            None => Ok(()),
        }
    }

    /// Parameters must have numbers, or those of the guard would move them.
    #[cfg(feature = "sqlite")]
    fn numbered(&self) -> Result<()> {
        if self.text.contains('?') {
            return Err(Error::internal(
                "the parameters of a statement are `$1`, `$2` and so on, whatever the store",
            ));
        }
        Ok(())
    }
}

/// Most parameters of a statement: those of Postgres.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
const MOST_PARAMETERS: usize = 65_535;

/// How statements begin; what begins otherwise is the condition of one.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
const STATEMENTS: &[&str] = &[
    "SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE", "VALUES",
];

/// Words that go on with a statement behind a table: all others name it.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
const BEHIND_TABLES: &[&str] = &[
    "WHERE",
    "JOIN",
    "LEFT",
    "RIGHT",
    "FULL",
    "INNER",
    "OUTER",
    "CROSS",
    "NATURAL",
    "ON",
    "USING",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "WINDOW",
    "RETURNING",
    "FOR",
    "SET",
    "TABLESAMPLE",
    "SELECT",
    "VALUES",
    "DO",
];

/// A statement with the records that the caller sees in place of `{visible}`: under the name that
/// stands behind it, else that of the table.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn named(text: &str, visible: &str, table: &str) -> String {
    let mut parts = text.split("{visible}");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for behind in parts {
        let next = behind.trim_start();
        let word: String = next.chars().take_while(|c| is_of_word(*c)).collect();
        let named = next.len() < behind.len()
            && !word.is_empty()
            && !BEHIND_TABLES
                .iter()
                .any(|known| known.eq_ignore_ascii_case(&word));
        out.push_str(visible);
        if !named && !next.starts_with('"') {
            out.push_str(" AS ");
            out.push_str(table);
        }
        out.push_str(behind);
    }
    out
}

/// The numbers behind `$` in a statement, outside of quotes and comments.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn parameters(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    // What stands before, and before that.
    let (mut rest, mut before, mut earlier) = (text, ' ', ' ');
    while let Some(c) = rest.chars().next() {
        let skipped = match c {
            // The letter stands alone: in `date'..'` it ends a word.
            '\'' if matches!(before, 'e' | 'E') && !is_of_word(earlier) => escaped(rest),
            '\'' | '"' => rest[1..].find(c).map(|end| end + 2),
            '-' if rest.starts_with("--") => rest.find('\n'),
            '/' if rest.starts_with("/*") => rest[2..].find("*/").map(|end| end + 4),
            '$' if !is_of_word(before) => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                // More digits than a number holds are the number of no value.
                found.extend((digits > 0).then(|| rest[1..=digits].parse().unwrap_or(usize::MAX)));
                Some(1 + digits)
            }
            c => Some(c.len_utf8()),
        };
        // What nothing closes ends the text; the database says so.
        rest = &rest[skipped.unwrap_or(rest.len())..];
        (earlier, before) = (before, c);
    }
    found
}

/// Whether a letter behind it goes on with a word.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// How many bytes a text of Postgres takes in which a backslash keeps a quote from ending it.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn escaped(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '\'' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn none(entity: &EntityDesc) -> Error {
    Error::internal(format!(
        "the store of `{}` takes no statements",
        entity.name
    ))
}

#[cfg(all(test, any(feature = "sqlite", feature = "postgres")))]
mod tests {
    use super::{named, parameters};

    #[test]
    fn the_name_behind_the_records_is_theirs() {
        for (text, expected) in [
            ("SELECT 1 FROM {visible}", "SELECT 1 FROM (v) AS \"t\""),
            (
                "SELECT p.id FROM {visible} AS p WHERE p.a = 1",
                "SELECT p.id FROM (v) AS p WHERE p.a = 1",
            ),
            (
                "SELECT p.id FROM {visible} p, x",
                "SELECT p.id FROM (v) p, x",
            ),
            (
                "SELECT \"P\".id FROM {visible} \"P\"",
                "SELECT \"P\".id FROM (v) \"P\"",
            ),
            ("FROM {visible} where a", "FROM (v) AS \"t\" where a"),
            (
                "FROM {visible}\nLEFT JOIN x ON true",
                "FROM (v) AS \"t\"\nLEFT JOIN x ON true",
            ),
            (
                "FROM {visible} one JOIN {visible} two ON one.a = two.b",
                "FROM (v) one JOIN (v) two ON one.a = two.b",
            ),
            (
                "id IN (SELECT id FROM {visible}) AND b",
                "id IN (SELECT id FROM (v) AS \"t\") AND b",
            ),
        ] {
            assert_eq!(named(text, "(v)", "\"t\""), expected, "{text}");
        }
    }

    #[test]
    fn parameters_stand_outside_of_quotes_and_comments() {
        for (text, found) in [
            ("SELECT 1", vec![]),
            ("a = $1 AND b IN ($2, $12)", vec![1, 2, 12]),
            ("a = '$1 it''s $2' AND \"$3\" = $4", vec![4]),
            (
                "a = $1 -- it's $2\nAND b = $3 /* $4 ' */ AND c=$5",
                vec![1, 3, 5],
            ),
            ("a = $0", vec![0]),
            ("a = $99999999999999999999999", vec![usize::MAX]),
            ("price$1 = $ 2 AND ä$3 = '", vec![]),
            ("/* $1", vec![]),
            (r"a = date'\' AND b = $1 AND c = $2E'\'", vec![1, 2]),
            (
                r"a = E'it\'s $1' AND b = $2 AND c = e'\\' AND d = $3",
                vec![2, 3],
            ),
        ] {
            assert_eq!(parameters(text), found, "{text}");
        }
    }
}
