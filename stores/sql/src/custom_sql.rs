//! Custom SQL within a generated statement: a condition and an order.
//!
//! The texts are static and contain no values. But a text that closes its parentheses early could
//! disable the rest of the statement, such as the row-level filter. Each text is therefore
//! tokenized like in the database, and refused unless it stays within its parentheses.

use linchpin_core::entity::EntityDesc;
use linchpin_core::store::CustomSql;
use linchpin_core::{Error, Result};

use crate::statement::COLUMN;

/// The parameter syntax of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite: `?1`. Names may be in brackets or backticks, and parameters have other forms too.
    Sqlite,
    /// Postgres: `$1`.
    Postgres,
}

/// Prepares the condition and the order for embedding. For `{column:name}`, `column` returns the
/// quoted column of the field `name`.
///
/// # Errors
/// `internal` if a text leaves its parentheses, or names parameters or fields that do not exist.
pub fn embedded(
    sql: &CustomSql,
    entity: &EntityDesc,
    dialect: Dialect,
    column: &dyn Fn(&str) -> Result<String>,
) -> Result<(String, String)> {
    let refused = std::cell::Cell::new(None);
    let column = &|field: &str| match column(field) {
        Ok(column) => Some(column),
        Err(error) => {
            refused.set(Some(error));
            None
        }
    };
    let mut used = vec![false; sql.kinds.len()];
    let mut read = |text: &'static str| {
        embed(text, dialect, &mut used, column).map_err(|why| {
            refused.take().unwrap_or_else(|| {
                Error::internal(format!(
                    "the SQL `{text}` of a handler of `{}` {why}",
                    entity.name
                ))
            })
        })
    };
    if sql.condition.trim().is_empty() {
        return Err(Error::internal(format!(
            "a handler of `{}` selects records without a condition: add one",
            entity.name
        )));
    }
    let texts = (read(sql.condition)?, read(sql.order)?);
    match used.iter().position(|used| !used) {
        Some(at) => Err(Error::internal(format!(
            "the SQL of a handler of `{}` does not use `${}`",
            entity.name,
            at + 1
        ))),
        None => Ok(texts),
    }
}

/// A result whose error is the reason why a text cannot be part of a statement.
type EmbedResult<T> = std::result::Result<T, &'static str>;

/// Returns the text with its parameters in the syntax of the dialect, and marks the used
/// parameters.
///
/// # Errors
/// The reason why it cannot be part of a statement.
fn embed(
    text: &'static str,
    dialect: Dialect,
    used: &mut [bool],
    column: &dyn Fn(&str) -> Option<String>,
) -> EmbedResult<String> {
    let mut out = String::with_capacity(text.len());
    let mut open = Vec::new();
    let (mut rest, mut previous) = (text, ' ');
    while let Some(c) = rest.chars().next() {
        // The meaning of a quote or a dollar depends on the previous character.
        let within_word =
            previous.is_alphanumeric() || !previous.is_ascii() || matches!(previous, '_' | '$');
        let taken = match c {
            // In Postgres, a letter before a quote can change where the string ends, as in `E'\''`.
            '\'' | '"' if within_word || previous == '&' => {
                return Err("has a quote directly after a letter, a digit or `&`: insert a space");
            }
            '\'' | '"' => quoted(rest, c)?,
            '{' if rest.starts_with(COLUMN) => {
                let (field, after_name) = rest[COLUMN.len()..]
                    .split_once('}')
                    .ok_or("has a `{column:` without `}`")?;
                let column = column(field);
                out.push_str(&column.ok_or("uses `{column:..}` with an unknown field")?);
                // The column is a quoted name, so the last character is a quote.
                (rest, previous) = (after_name, '"');
                continue;
            }
            '$' if within_word => return Err("has a `$` within a name"),
            '$' => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                let used_flag = rest[1..=digits]
                    .parse::<usize>()
                    .ok()
                    .and_then(|number| used.get_mut(number.checked_sub(1)?));
                *used_flag
                    .ok_or("has a `$` that is not followed by the number of a bound parameter")? =
                    true;
                out.push(dialect.mark());
                out.push_str(&rest[1..=digits]);
                (rest, previous) = (&rest[1 + digits..], '$');
                continue;
            }
            _ => {
                dialect.plain(previous, c, &mut open)?;
                c.len_utf8()
            }
        };
        out.push_str(&rest[..taken]);
        (rest, previous) = (&rest[taken..], c);
    }
    if open.is_empty() {
        Ok(out)
    } else {
        Err("has an unclosed bracket")
    }
}

/// The length in bytes of a quoted text or name; a doubled quote inside is one quote.
fn quoted(text: &str, quote: char) -> EmbedResult<usize> {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\0' => return Err("contains a NUL"),
            c if c != quote => {}
            _ if chars.next_if(|(_, next)| *next == quote).is_some() => {}
            _ => return Ok(at + 1),
        }
    }
    Err("has an unclosed quote")
}

impl Dialect {
    /// The character before the number of a parameter.
    fn mark(self) -> char {
        match self {
            Self::Sqlite => '?',
            Self::Postgres => '$',
        }
    }

    /// Characters that begin a name or a parameter in this dialect only.
    fn own(self) -> &'static [char] {
        match self {
            Self::Sqlite => &['[', '?', ':', '@', '#'],
            Self::Postgres => &[],
        }
    }

    /// Checks a character outside of quotes; `open` contains the closing brackets that are
    /// expected.
    fn plain(self, previous: char, c: char, open: &mut Vec<char>) -> EmbedResult<()> {
        match (previous, c) {
            (_, '\0') => Err("contains a NUL"),
            (_, ';') => Err("contains a `;`"),
            ('-', '-') | ('/', '*') => Err("contains a comment"),
            (_, '{' | '}' | '`' | '\\') => {
                Err("contains a `{`, a backtick or a backslash outside of quotes")
            }
            (_, c) if self.own().contains(&c) => {
                Err("contains a bracket or a parameter that is not `$1`, `$2` and so on")
            }
            (_, '(') => {
                open.push(')');
                Ok(())
            }
            (_, '[') => {
                open.push(']');
                Ok(())
            }
            (_, ')' | ']') if open.pop() != Some(c) => {
                Err("has a closing bracket without an opening one")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(text: &'static str, values: usize) -> [EmbedResult<String>; 2] {
        [Dialect::Sqlite, Dialect::Postgres]
            .map(|dialect| embed(text, dialect, &mut vec![false; values], &column))
    }

    fn column(field: &str) -> Option<String> {
        (field == "note").then(|| "\"remark\"".to_owned())
    }

    #[test]
    fn a_field_is_written_as_its_column() {
        for text in both("{column:note} LIKE 'a' AND lower({column:note}) = 'b'", 0) {
            let expected = "\"remark\" LIKE 'a' AND lower(\"remark\") = 'b'";
            assert_eq!(text, Ok(expected.to_owned()));
        }
        for text in ["{column:other} = 1", "{column:note", "x{columns}"] {
            for refused in both(text, 0) {
                assert!(refused.is_err(), "{text}: {refused:?}");
            }
        }
    }

    #[test]
    fn self_contained_sql_is_accepted() {
        for (text, values) in [
            ("owner = 'it''s (' OR a - -1 > 2", 0),
            ("\"odd ) name\" IS NOT NULL AND (a / 2) * (b) >= 1.5e3", 0),
            ("note LIKE '%\\_%' ESCAPE '\\'", 0),
            ("a IN (SELECT b FROM c WHERE d = '--;/*')", 0),
            ("", 0),
        ] {
            assert_eq!(
                both(text, values),
                [Ok(text.to_owned()), Ok(text.to_owned())],
                "{text}"
            );
        }
        assert_eq!(
            both("a=$1 AND($2>b OR a<>$1)", 2),
            ["a=?1 AND(?2>b OR a<>?1)", "a=$1 AND($2>b OR a<>$1)"].map(|t| Ok(t.to_owned()))
        );
        assert_eq!(both("$12 = $2", 12)[0], Ok("?12 = ?2".to_owned()));
        // Syntax that only one of the two databases accepts.
        for text in [
            "a @> ARRAY['x'] AND b::text ~ '^[a-z]+$' AND c ? 'd'",
            "tags[1] = 'a' AND b #>> '{c,d}' = 'e'",
        ] {
            assert!(matches!(both(text, 0), [Err(_), Ok(_)]), "{text}");
        }
    }

    #[test]
    fn sql_that_escapes_its_parentheses_is_refused() {
        for (text, why) in [
            ("a = 1) OR (1 = 1", "closing"),
            ("a = 1) --", "closing"),
            ("a = 1 --", "comment"),
            ("a = 1 /* (", "comment"),
            ("(a = 1", "unclosed"),
            ("a = 1; DROP TABLE b", "`;`"),
            ("a = 'b", "quote"),
            ("a = 'b''", "quote"),
            ("a = \"b", "quote"),
            ("a = E'\\') OR (1 = 1) OR (a = '", "quote"),
            ("a = U&'\\0027'", "quote"),
            ("a = $$) OR (1 = 1$$", "parameter"),
            ("a = $b$) OR (1 = 1$b$", "parameter"),
            ("a = $1$b$) OR (1 = 1$b$", "`$`"),
            ("a = $2", "parameter"),
            ("a = $0", "parameter"),
            ("a = $99999999999999999999", "parameter"),
            ("a$1 = 1", "`$`"),
            ("ä$1 = 1", "`$`"),
            ("a = `)`", "backtick"),
            ("a IN {visible}", "`{`"),
            ("a = 1\0", "NUL"),
            ("a = '\0'", "NUL"),
        ] {
            for refused in both(text, 1) {
                assert!(
                    refused.as_ref().is_err_and(|error| error.contains(why)),
                    "{text}: {refused:?}"
                );
            }
        }
        for text in [
            "[a)] = ')'",
            "a = ?",
            "a = ?2",
            "a = :b",
            "a = @b",
            "a = #b",
        ] {
            assert!(both(text, 1)[0].is_err(), "{text}");
        }
        assert!(both("a[1) = ']'", 0)[1].is_err());
    }
}
