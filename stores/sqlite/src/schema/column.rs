//! Parses the columns and the constraints of a `CREATE TABLE`.

use std::collections::BTreeSet;

use super::sql::{Definition, Token};

/// The keywords that begin a constraint of a column.
const STARTS: [&str; 11] = [
    "CONSTRAINT",
    "PRIMARY",
    "NOT",
    "NULL",
    "UNIQUE",
    "CHECK",
    "DEFAULT",
    "COLLATE",
    "REFERENCES",
    "GENERATED",
    "AS",
];

/// A piece of a definition.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) tokens: Vec<Token>,
    /// The original text, with single spaces.
    pub(super) text: String,
}

/// A check.
#[derive(Clone, Debug)]
pub(super) struct CheckText {
    pub(super) name: Option<String>,
    /// The condition, without its parentheses.
    condition: Vec<Token>,
    /// The original text with the name.
    pub(super) text: String,
}

/// The parsed definition of a column.
#[derive(Debug, Default)]
pub(super) struct ColumnText {
    pub(super) kind: String,
    pub(super) not_null: bool,
    pub(super) primary: Option<Piece>,
    pub(super) default: Option<Piece>,
    pub(super) collation: Option<String>,
    pub(super) checks: Vec<CheckText>,
    /// Everything else: unique constraints, foreign keys, computed columns.
    pub(super) others: Vec<String>,
}

impl ColumnText {
    /// Reads the definition of a column.
    pub(super) fn of(definition: &Definition<'_>) -> Self {
        let mut reader = Reader { definition, at: 1 };
        let mut column = Self::default();
        let kind = reader.until_start();
        column.kind = definition.part(kind).to_uppercase();
        while reader.at < definition.tokens.len() {
            column.constraint(&mut reader);
        }
        column
    }

    /// Reads the next constraint.
    fn constraint(&mut self, reader: &mut Reader<'_, '_>) {
        let from = reader.at;
        let name = reader.name();
        if reader.take("NOT") {
            // The next word is `NULL`.
            reader.at += 1;
            self.not_null = true;
        } else if reader.take("NULL") {
        } else if reader.take("CHECK") {
            let group = reader.group();
            self.checks.push(reader.check(name, from, group));
        } else if reader.take("DEFAULT") {
            let value = reader.at;
            if reader.is_symbol('(') {
                reader.group();
            } else {
                // The value itself may be `NULL`, which is also the beginning of a constraint.
                reader.at += 1;
                reader.until_start();
            }
            self.default = Some(reader.piece(value));
        } else if reader.take("COLLATE") {
            let word = reader.token().and_then(Token::word);
            self.collation = word.map(str::to_owned);
            reader.at += 1;
        } else if reader.take("PRIMARY") {
            let end = reader.until_start().end;
            reader.at = end;
            self.primary = Some(reader.piece(from));
        } else if reader.take("UNIQUE") {
            reader.until_start();
            self.others.push(reader.piece(from).text);
        } else {
            // The clauses of a foreign key and of a computed column have words that begin other
            // constraints.
            reader.at = reader.definition.tokens.len();
            self.others.push(reader.piece(from).text);
        }
        if reader.token().is_some_and(|token| token.is("ON")) {
            let from = reader.at;
            reader.until_start();
            self.others.push(reader.piece(from).text);
        }
    }
}

impl CheckText {
    /// Reads a check of a table; `None` if the definition is something else.
    pub(super) fn of(definition: &Definition<'_>) -> Option<Self> {
        let mut reader = Reader { definition, at: 0 };
        let name = reader.name();
        let group = reader.take("CHECK").then(|| reader.group())?;
        let is_complete = reader.at == definition.tokens.len();
        is_complete.then(|| reader.check(name, 0, group))
    }

    /// Whether both have the same name.
    pub(super) fn same_name(&self, other: &Self) -> bool {
        match (&self.name, &other.name) {
            (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether both accept the same values.
    pub(super) fn same_condition(&self, other: &Self) -> bool {
        if let (Some(a), Some(b)) = (self.values(), other.values()) {
            return a == b;
        }
        self.without_null() == other.without_null()
    }

    /// The column and its values, if the condition is `c = 'a' OR c = 'b'` or `c IN ('a', 'b')`.
    fn values(&self) -> Option<(String, BTreeSet<&str>)> {
        let name = self.condition.first()?.word()?;
        let column = |token: &Token| token.word().is_some_and(|w| w.eq_ignore_ascii_case(name));
        let mut values = BTreeSet::new();
        if self.condition.get(1)?.is("IN") {
            let [_, _, Token::Symbol('('), list @ .., Token::Symbol(')')] = &*self.condition else {
                return None;
            };
            for each in list.split(|token| *token == Token::Symbol(',')) {
                let [Token::Text(value)] = each else {
                    return None;
                };
                values.insert(value.as_str());
            }
        } else {
            for each in self.condition.split(|token| token.is("OR")) {
                let [name_token, Token::Symbol('='), Token::Text(value)] = each else {
                    return None;
                };
                column(name_token).then_some(())?;
                values.insert(value.as_str());
            }
        }
        Some((name.to_ascii_lowercase(), values))
    }

    /// The condition without `column IS NULL OR`, which has no effect: a check accepts null anyway.
    fn without_null(&self) -> &[Token] {
        match &*self.condition {
            [_, is, null, or, rest @ ..]
                if is.is("IS")
                    && null.is("NULL")
                    && or.is("OR")
                    && rest.first().is_some_and(|token| token.is("json_valid")) =>
            {
                rest
            }
            all => all,
        }
    }
}

impl Piece {
    /// Whether both are the same value. Parentheses around a value are ignored.
    pub(super) fn same_value(&self, other: &Self) -> bool {
        fn bare(mut tokens: &[Token]) -> &[Token] {
            while let [Token::Symbol('('), inner @ .., Token::Symbol(')')] = tokens {
                tokens = inner;
            }
            tokens
        }
        bare(&self.tokens) == bare(&other.tokens)
    }
}

/// Reads the tokens of a definition.
struct Reader<'d, 's> {
    definition: &'d Definition<'s>,
    at: usize,
}

impl<'d> Reader<'d, '_> {
    fn token(&self) -> Option<&'d Token> {
        self.definition
            .tokens
            .get(self.at)
            .map(|placed| &placed.token)
    }

    fn is_symbol(&self, symbol: char) -> bool {
        self.token() == Some(&Token::Symbol(symbol))
    }

    fn take(&mut self, keyword: &str) -> bool {
        let found = self.token().is_some_and(|token| token.is(keyword));
        self.at += usize::from(found);
        found
    }

    /// Takes `CONSTRAINT name`.
    fn name(&mut self) -> Option<String> {
        if !self.take("CONSTRAINT") {
            return None;
        }
        let name = self.token().and_then(Token::word).map(str::to_owned);
        self.at += 1;
        name
    }

    /// Takes the tokens before the next constraint.
    fn until_start(&mut self) -> std::ops::Range<usize> {
        let from = self.at;
        while let Some(token) = self.token() {
            if STARTS.iter().any(|start| token.is(start)) {
                break;
            }
            if self.is_symbol('(') {
                self.group();
            } else {
                self.at += 1;
            }
        }
        from..self.at
    }

    /// Takes a group in parentheses and returns its inner tokens.
    fn group(&mut self) -> std::ops::Range<usize> {
        let (from, mut depth) = (self.at + 1, 0_usize);
        while let Some(token) = self.token() {
            match token {
                Token::Symbol('(') => depth += 1,
                Token::Symbol(')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return from..(self.at - 1).max(from);
            }
        }
        from..self.at.max(from)
    }

    /// The tokens from a position to the current one.
    fn piece(&self, from: usize) -> Piece {
        let to = self.at.min(self.definition.tokens.len());
        Piece {
            tokens: self.tokens(from..to),
            text: self.definition.part(from..to),
        }
    }

    fn tokens(&self, range: std::ops::Range<usize>) -> Vec<Token> {
        let found = self.definition.tokens.get(range).unwrap_or_default();
        found.iter().map(|placed| placed.token.clone()).collect()
    }

    fn check(&self, name: Option<String>, from: usize, group: std::ops::Range<usize>) -> CheckText {
        CheckText {
            name,
            condition: self.tokens(group),
            text: self.piece(from).text,
        }
    }
}
