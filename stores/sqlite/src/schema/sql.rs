//! Parses the SQL texts that SQLite stores of its objects, as far as needed for a comparison.

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
    /// Whether it is this keyword.
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

/// The position of a token.
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
pub(super) struct Definition {
    /// The column's name; `None` for a constraint of the table.
    pub(super) column: Option<String>,
    tokens: Vec<Token>,
    /// The original text, with single spaces.
    pub(super) text: String,
}

impl Definition {
    /// Whether both have the same meaning, without their names.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        self.tokens[1..] == other.tokens[1..] || self.meaning() == other.meaning()
    }

    /// The tokens without `column IS NULL OR`, which the JSON check lacks in tables of earlier
    /// versions: it makes no difference for a null.
    fn meaning(&self) -> Vec<&Token> {
        let mut tokens: Vec<&Token> = self.tokens.iter().skip(1).collect();
        if let Some(at) = tokens
            .iter()
            .position(|token| token.is("JSON_VALID"))
            .filter(|at| *at >= 4)
            && tokens[at - 3].is("IS")
            && tokens[at - 2].is("NULL")
            && tokens[at - 1].is("OR")
        {
            tokens.drain(at - 4..at);
        }
        tokens
    }
}

/// A parsed `CREATE TABLE`.
pub(super) struct TableText {
    pub(super) definitions: Vec<Definition>,
    /// The options after the parentheses, such as `STRICT`.
    pub(super) options: Vec<Token>,
    pub(super) options_text: String,
}

/// Parses a `CREATE TABLE`; `None` if it is another statement, such as a virtual table.
pub(super) fn table(sql: &str) -> Option<TableText> {
    let all = tokens(sql);
    let open = all.iter().position(|p| p.token == Token::Symbol('('))?;
    if !(all.first()?.token.is("CREATE") && all.get(1)?.token.is("TABLE")) {
        return None;
    }
    let (mut depth, mut parts, mut part, mut end) = (0_usize, Vec::new(), Vec::new(), all.len());
    for (i, placed) in all.iter().enumerate().skip(open) {
        match placed.token {
            Token::Symbol('(') => depth += 1,
            Token::Symbol(')') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            end = i + 1;
            break;
        }
        match placed.token {
            Token::Symbol(',') if depth == 1 => parts.push(std::mem::take(&mut part)),
            _ if i == open => {}
            _ => part.push(placed),
        }
    }
    parts.push(part);
    let definitions = parts.into_iter().filter_map(|part| {
        let (first, last) = (part.first()?, part.last()?);
        let constraint = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"]
            .iter()
            .any(|word| first.token.is(word));
        let column = first
            .token
            .word()
            .filter(|_| !constraint)
            .map(str::to_owned);
        let text = normal(&sql[first.from..last.to]);
        Some(Definition {
            column,
            tokens: part.iter().map(|p| p.token.clone()).collect(),
            text,
        })
    });
    let definitions = definitions.collect();
    let options = all[end..].iter().map(|p| p.token.clone()).collect();
    let options_text = all
        .get(end)
        .map_or(String::new(), |first| normal(&sql[first.from..]));
    Some(TableText {
        definitions,
        options,
        options_text,
    })
}

/// Whether two `CREATE INDEX` have the same meaning, without the names of the indexes.
pub(super) fn same_index(a: &str, b: &str) -> bool {
    let meaning = |sql: &str| {
        let mut tokens: Vec<Token> = tokens(sql)
            .into_iter()
            .map(|p| p.token)
            .filter(|t| !t.is("ASC"))
            .collect();
        if let Some(on) = tokens.iter().position(|t| t.is("ON")) {
            tokens.remove(on - 1);
        }
        tokens
    };
    meaning(a) == meaning(b)
}

/// Whether it is a `CREATE UNIQUE INDEX`.
pub(super) fn is_unique(sql: &str) -> bool {
    tokens(sql).get(1).is_some_and(|p| p.token.is("UNIQUE"))
}

/// Replaces white space by single spaces.
pub(super) fn normal(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}
