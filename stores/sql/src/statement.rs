//! SQL statements of custom operations: the row-level filter is inserted into their text.

use linchpin_core::entity::{EntityDesc, Kind};
use linchpin_core::filter::Filter;
use linchpin_core::store::SqlQuery;
use linchpin_core::{Error, Result, Value};

use crate::names::Naming;

/// A statement and the values of its parameters.
pub type Rendered = (String, Vec<(Value, Kind)>);

/// The names in a database and their quoting.
#[derive(Clone, Copy, Debug)]
pub struct Spelling<'a> {
    /// The current names of tables and columns.
    pub naming: &'a Naming,
    /// Quotes a name for SQL.
    pub quote: fn(&str) -> String,
}

impl Spelling<'_> {
    fn table(&self, entity: &EntityDesc) -> String {
        (self.quote)(self.naming.table(entity))
    }

    /// Replaces `{table}` by the table of the entity, and `{column:name}` by the column of a field.
    ///
    /// # Errors
    /// `internal` if the entity has no such field.
    fn spell(&self, text: &str, entity: &EntityDesc) -> Result<String> {
        let mut parts = text.split(COLUMN);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (field, rest) = part.split_once('}').unwrap_or((part, ""));
            let column = self.naming.column_named(entity, field)?;
            out.push_str(&(self.quote)(column));
            out.push_str(rest);
        }
        Ok(out.replace("{table}", &self.table(entity)))
    }
}

/// The start of the name of a column, which ends with `}`.
pub(crate) const COLUMN: &str = "{column:";

/// Returns the text with the row-level filter inserted, and all values. `condition` renders a
/// filter: its last argument is the number of values before those of the filter.
///
/// # Errors
/// `internal` if the text omits the filter, names an unknown field, or if its parameters and values
/// do not match.
pub fn render(
    query: SqlQuery,
    spelling: Spelling<'_>,
    condition: impl Fn(&'static EntityDesc, &Filter, usize) -> Result<Rendered>,
) -> Result<Rendered> {
    check_parameters(&query)?;
    let SqlQuery {
        entity,
        text,
        values,
        filter,
    } = query;
    let (filter, further) = condition(entity, &filter, values.len())?;
    let table = spelling.table(entity);
    let visible = format!("(SELECT * FROM {table} WHERE {filter})");
    if !text.contains("{visible}") && !text.contains("{guard}") {
        return Err(Error::internal(format!(
            "a statement on `{}` has no row-level filter: write `{{visible}}` or `{{guard}}` in it, or call \
             `unguarded(\"the reason\")`",
            entity.name
        )));
    }
    let text = replace_visible(&spelling.spell(text, entity)?, &visible, &table)
        .replace("{guard}", &format!("({filter})"));
    Ok((text, values.into_iter().chain(further).collect()))
}

/// Returns a whole statement, which the database can check: the text itself, or a `SELECT` with the
/// text as its condition. The row-level filter is empty.
///
/// # Errors
/// `internal` if the number of a parameter is above 65,535, or `{column:name}` names no field.
pub fn checked(
    entity: &'static EntityDesc,
    text: &'static str,
    spelling: Spelling<'_>,
    condition: impl Fn(&'static EntityDesc, &Filter, usize) -> Result<Rendered>,
) -> Result<String> {
    let highest = parameters(text).into_iter().max().unwrap_or_default();
    if highest > MAX_PARAMETERS {
        return Err(Error::internal(format!(
            "`${highest}` is above {MAX_PARAMETERS}, the maximum number of parameters"
        )));
    }
    let query = SqlQuery {
        entity,
        text,
        values: vec![(Value::Null, Kind::String); highest],
        filter: Filter::TRUE,
    };
    let first = text
        .trim_start()
        .split(|c: char| !is_of_word(c))
        .next()
        .unwrap_or_default();
    let is_statement = STATEMENTS
        .iter()
        .any(|word| word.eq_ignore_ascii_case(first));
    if is_statement || text.contains("{visible}") || text.contains("{guard}") {
        return Ok(render(query, spelling, condition)?.0);
    }
    check_parameters(&query)?;
    let (table, text) = (spelling.table(entity), spelling.spell(text, entity)?);
    Ok(format!("SELECT 1 FROM {table} WHERE ({text})"))
}

/// Refuses `?` parameters: they have no number, so the parameters of the filter would shift them.
///
/// # Errors
/// `internal` if the text contains `?`.
pub fn refuse_unnumbered(text: &str) -> Result<()> {
    if text.contains('?') {
        return Err(Error::internal(
            "a statement contains `?`: write parameters as `$1`, `$2` and so on",
        ));
    }
    Ok(())
}

/// Checks that each parameter has a value and each value has a parameter. A parameter without a
/// value would get the first value of the row-level filter.
fn check_parameters(query: &SqlQuery) -> Result<()> {
    let entity = query.entity.name;
    let mut named = vec![false; query.values.len()];
    for number in parameters(query.text) {
        let Some(seen) = number.checked_sub(1).and_then(|at| named.get_mut(at)) else {
            return Err(Error::internal(format!(
                "a statement on `{entity}` uses `${number}` but has {} values: add one with \
                 `.bind(..)`",
                query.values.len()
            )));
        };
        *seen = true;
    }
    match named.iter().position(|named| !named) {
        Some(at) => Err(Error::internal(format!(
            "a statement on `{entity}` does not use `${}`",
            at + 1
        ))),
        None => Ok(()),
    }
}

/// The maximum number of parameters of a statement, as in Postgres.
const MAX_PARAMETERS: usize = 65_535;

/// The first words of statements; any other text is the condition of a statement.
const STATEMENTS: &[&str] = &[
    "SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE", "VALUES",
];

/// Keywords that may follow a table name; any other word there is an alias.
const KEYWORDS_AFTER_TABLE: &[&str] = &[
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

/// Replaces `{visible}` in a statement by a subquery of the records that the caller may read. The
/// alias of the subquery is the name after `{visible}`, or the name of the table if there is none.
fn replace_visible(text: &str, visible: &str, table: &str) -> String {
    let mut parts = text.split("{visible}");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for following in parts {
        let next = following.trim_start();
        let word: String = next.chars().take_while(|c| is_of_word(*c)).collect();
        let named = next.len() < following.len()
            && !word.is_empty()
            && !KEYWORDS_AFTER_TABLE
                .iter()
                .any(|known| known.eq_ignore_ascii_case(&word));
        out.push_str(visible);
        if !named && !next.starts_with('"') {
            out.push_str(" AS ");
            out.push_str(table);
        }
        out.push_str(following);
    }
    out
}

/// The numbers after `$` in a statement, outside of quotes and comments.
fn parameters(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    // The previous character, and the one before it.
    let (mut rest, mut before, mut earlier) = (text, ' ', ' ');
    while let Some(c) = rest.chars().next() {
        let skipped = match c {
            // `E` must be a separate token: in `date'..'` it is the end of a word.
            '\'' if matches!(before, 'e' | 'E') && !is_of_word(earlier) => escaped(rest),
            '\'' | '"' => rest[1..].find(c).map(|end| end + 2),
            '-' if rest.starts_with("--") => rest.find('\n'),
            '/' if rest.starts_with("/*") => rest[2..].find("*/").map(|end| end + 4),
            '$' if !is_of_word(before) => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                // A number with too many digits matches no value.
                found.extend((digits > 0).then(|| rest[1..=digits].parse().unwrap_or(usize::MAX)));
                Some(1 + digits)
            }
            c => Some(c.len_utf8()),
        };
        // An unclosed quote ends the text; the database reports it.
        rest = &rest[skipped.unwrap_or(rest.len())..];
        (earlier, before) = (before, c);
    }
    found
}

/// Whether a character can be inside a word.
fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// The length in bytes of a Postgres string in which a backslash escapes a quote.
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

#[cfg(test)]
mod tests {
    use super::{parameters, replace_visible};

    #[test]
    fn an_alias_after_visible_is_kept() {
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
            assert_eq!(replace_visible(text, "(v)", "\"t\""), expected, "{text}");
        }
    }

    #[test]
    fn parameters_in_quotes_and_comments_are_ignored() {
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
