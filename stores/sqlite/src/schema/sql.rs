//! Parses the SQL texts that SQLite stores for its objects, as far as needed for a comparison.

use std::ops::Range;

/// A token of SQL.
#[derive(Clone, Debug)]
pub(super) enum Token {
    /// A keyword or a name. SQLite ignores case and quoting in both.
    Word { text: String, quoted: bool },
    /// A text literal; every character counts.
    Text(String),
    /// Anything else.
    Symbol(char),
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Word { text: a, .. }, Self::Word { text: b, .. }) => a.eq_ignore_ascii_case(b),
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Symbol(a), Self::Symbol(b)) => a == b,
            _ => false,
        }
    }
}

impl Token {
    /// Whether the token is this keyword.
    pub(super) fn is(&self, keyword: &str) -> bool {
        matches!(self, Self::Word { text, quoted: false } if text.eq_ignore_ascii_case(keyword))
    }

    /// A name or keyword in its original form.
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// A token and its position.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The tokens of a text, without white space and comments.
pub(super) fn tokens(sql: &str) -> Vec<Placed> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = sql[at..].chars().next() {
        let rest = &sql[at..];
        let (token, length) = match c {
            c if c.is_whitespace() => (None, c.len_utf8()),
            '-' if rest.starts_with("--") => (None, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => {
                (None, rest[2..].find("*/").map_or(rest.len(), |end| end + 4))
            }
            '\'' => {
                let (text, length) = quoted(rest, '\'');
                (Some(Token::Text(text)), length)
            }
            '"' | '`' | '[' => {
                let (text, length) = quoted(rest, if c == '[' { ']' } else { c });
                (Some(Token::Word { text, quoted: true }), length)
            }
            c if is_word(c) => {
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                (
                    Some(Token::Word {
                        text: rest[..length].to_owned(),
                        quoted: false,
                    }),
                    length,
                )
            }
            c => (Some(Token::Symbol(c)), c.len_utf8()),
        };
        found.extend(token.map(|token| Placed {
            token,
            from: at,
            to: at + length,
        }));
        at += length;
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii() && !c.is_whitespace()
}

/// The text between quotes, and the length including the quotes; a doubled quote is one quote.
fn quoted(rest: &str, end: char) -> (String, usize) {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != end {
            text.push(c);
        } else if end != ']' && chars.peek().is_some_and(|(_, next)| *next == end) {
            text.push(c);
            chars.next();
        } else {
            return (text, at + c.len_utf8());
        }
    }
    (text, rest.len())
}

/// A column or a constraint of a table.
pub(super) struct Definition<'s> {
    sql: &'s str,
    /// The column's name; `None` for a constraint of the table.
    pub(super) column: Option<String>,
    pub(super) tokens: Vec<Placed>,
}

impl Definition<'_> {
    /// The original text, with single spaces.
    pub(super) fn text(&self) -> String {
        self.part(0..self.tokens.len())
    }

    /// The original text of some tokens, with single spaces.
    pub(super) fn part(&self, range: Range<usize>) -> String {
        match self.tokens.get(range) {
            Some([first, .., last]) => normal(&self.sql[first.from..last.to]),
            Some([one]) => normal(&self.sql[one.from..one.to]),
            _ => String::new(),
        }
    }
}

/// A parsed `CREATE TABLE`.
pub(super) struct TableText<'s> {
    pub(super) definitions: Vec<Definition<'s>>,
    /// The options after the parentheses, such as `STRICT`.
    pub(super) options: Vec<Token>,
    pub(super) options_text: String,
}

/// Parses a `CREATE TABLE`; `None` if it is another statement, such as a virtual table.
pub(super) fn table(sql: &str) -> Option<TableText<'_>> {
    let mut all = tokens(sql);
    let open = all.iter().position(|p| p.token == Token::Symbol('('))?;
    if !(all.first()?.token.is("CREATE") && all.get(1)?.token.is("TABLE")) {
        return None;
    }
    let (mut depth, mut end, mut commas) = (0_usize, all.len(), Vec::new());
    for (i, placed) in all.iter().enumerate().skip(open) {
        match placed.token {
            Token::Symbol('(') => depth += 1,
            Token::Symbol(')') => depth -= 1,
            Token::Symbol(',') if depth == 1 => commas.push(i),
            _ => {}
        }
        if depth == 0 {
            end = i;
            break;
        }
    }
    let options = all.split_off(all.len().min(end + 1));
    all.truncate(end);
    // The list is built from the last token to the first.
    commas.insert(0, open);
    let parts = commas.into_iter().rev().map(|comma| {
        let part = all.split_off(comma + 1);
        all.truncate(comma);
        part
    });
    let definitions = parts.filter_map(|tokens| {
        let first = &tokens.first()?.token;
        let constraint = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"]
            .iter()
            .any(|word| first.is(word));
        let column = first.word().filter(|_| !constraint).map(str::to_owned);
        Some(Definition {
            sql,
            column,
            tokens,
        })
    });
    let mut definitions: Vec<_> = definitions.collect();
    definitions.reverse();
    let options_text = options
        .first()
        .map_or(String::new(), |first| normal(&sql[first.from..]));
    Some(TableText {
        definitions,
        options: options.into_iter().map(|p| p.token).collect(),
        options_text,
    })
}

/// Whether two `CREATE INDEX` have the same meaning, apart from the names of the indexes.
pub(super) fn same_index(a: &str, b: &str) -> bool {
    let meaning = |sql: &str| {
        let mut tokens: Vec<Token> = tokens(sql)
            .into_iter()
            .map(|p| p.token)
            .filter(|t| !t.is("ASC"))
            .collect();
        if let Some(on) = tokens.iter().position(|t| t.is("ON")).filter(|on| *on > 0) {
            tokens.remove(on - 1);
        }
        tokens
    };
    meaning(a) == meaning(b)
}

/// Whether the text is a `CREATE UNIQUE INDEX`.
pub(super) fn is_unique(sql: &str) -> bool {
    tokens(sql).get(1).is_some_and(|p| p.token.is("UNIQUE"))
}

/// Renames constraints: `new_name` returns the new name of a constraint, or `None` to keep it.
pub(super) fn rename_constraints(sql: &str, new_name: impl Fn(&str) -> Option<String>) -> String {
    let all = tokens(sql);
    let (mut renamed, mut copied) = (String::with_capacity(sql.len()), 0);
    for pair in all.windows(2) {
        let new = pair[1]
            .token
            .word()
            .filter(|_| pair[0].token.is("CONSTRAINT"));
        if let Some(new) = new.and_then(&new_name) {
            renamed.push_str(&sql[copied..pair[1].from]);
            renamed.push_str(&crate::render::quote(&new));
            copied = pair[1].to;
        }
    }
    renamed.push_str(&sql[copied..]);
    renamed
}

/// Replaces white space by single spaces.
pub(super) fn normal(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}
