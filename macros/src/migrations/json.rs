//! A strict JSON reader, for files that the macro checks at compile time.
//!
//! `serde_json` is not used: as a dependency of the macros it would delay every build. It also
//! accepts repeated members, and its errors contain no JSON path.

use std::collections::HashSet;
use std::fmt::Write as _;

/// The maximum depth of nested arrays and objects.
const MAX_DEPTH: usize = 64;

/// A JSON value. Numbers keep their text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// An error in a file, with the JSON path of the value: `$.migrations[1].file`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JsonError {
    pub(super) path: String,
    pub(super) message: String,
}

/// Reads a text as one JSON value.
pub(super) fn parse(text: &str) -> Result<Json, JsonError> {
    let mut reader = Reader {
        text,
        at: 0,
        path: vec!["$".to_owned()],
    };
    let value = reader.value()?;
    reader.space();
    if reader.at < text.len() {
        return Err(reader.syntax("expected the end of the file"));
    }
    Ok(value)
}

/// Returns the path of a member of the value at `path`.
pub(super) fn member(path: &str, name: &str) -> String {
    format!("{path}{}", step(name))
}

fn step(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain {
        format!(".{name}")
    } else {
        format!("[{name:?}]")
    }
}

struct Reader<'a> {
    text: &'a str,
    /// The position in bytes.
    at: usize,
    /// The steps to the value that is being read.
    path: Vec<String>,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Json, JsonError> {
        self.space();
        if self.path.len() > MAX_DEPTH {
            return Err(self.problem(format!("more than {MAX_DEPTH} nested levels")));
        }
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [
                    ("null", Json::Null),
                    ("true", Json::Bool(true)),
                    ("false", Json::Bool(false)),
                ];
                for (word, value) in words {
                    if self.text[self.at..].starts_with(word) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err(self.syntax("expected a value"))
            }
        }
    }

    fn object(&mut self) -> Result<Json, JsonError> {
        self.at += 1;
        let (mut members, mut names) = (Vec::new(), HashSet::new());
        if self.closes(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.syntax("expected the name of a member"));
            }
            let name = self.string()?;
            self.path.push(step(&name));
            if !names.insert(name.clone()) {
                return Err(self.problem("the member appears twice"));
            }
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.syntax("expected `:`"));
            }
            self.at += 1;
            let value = self.value()?;
            self.path.pop();
            members.push((name, value));
            if self.closes(b'}') {
                return Ok(Json::Object(members));
            }
            self.comma("expected `,` or `}`")?;
        }
    }

    fn array(&mut self) -> Result<Json, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        if self.closes(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            self.path.push(format!("[{}]", items.len()));
            let value = self.value()?;
            self.path.pop();
            items.push(value);
            if self.closes(b']') {
                return Ok(Json::Array(items));
            }
            self.comma("expected `,` or `]`")?;
        }
    }

    /// Skips white space and, if it follows, the closing bracket `end`. Returns whether the bracket
    /// follows.
    fn closes(&mut self, end: u8) -> bool {
        self.space();
        let closes = self.peek() == Some(end);
        self.at += usize::from(closes);
        closes
    }

    fn comma(&mut self, expected: &str) -> Result<(), JsonError> {
        if self.peek() != Some(b',') {
            return Err(self.syntax(expected));
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let plain = rest
                .iter()
                .position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f))
                .ok_or_else(|| self.syntax("the text has no closing quote"))?;
            out.push_str(&self.text[self.at..self.at + plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    let escaped = self.escape();
                    out.push(escaped.ok_or_else(|| self.syntax("invalid escape in a text"))?);
                }
                _ => return Err(self.syntax("a control character in a text")),
            }
        }
    }

    /// Reads an escape. `None` if it is invalid.
    fn escape(&mut self) -> Option<char> {
        let kind = *self.text.as_bytes().get(self.at + 1)?;
        self.at += 2;
        Some(match kind {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first);
                }
                if !self.text.as_bytes()[self.at..].starts_with(b"\\u") {
                    return None;
                }
                self.at += 2;
                let second = self
                    .unit()?
                    .checked_sub(0xdc00)
                    .filter(|low| *low < 0x400)?;
                return char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + second);
            }
            _ => return None,
        })
    }

    /// Reads four hexadecimal digits.
    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits
            .bytes()
            .all(|b| b.is_ascii_hexdigit())
            .then(|| u32::from_str_radix(digits, 16).ok())?
    }

    fn number(&mut self) -> Result<Json, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        // An integer part of several digits must not begin with 0.
        let mut valid = match self.digits() {
            0 => false,
            1 => true,
            count => self.text.as_bytes()[self.at - count] != b'0',
        };
        if self.peek() == Some(b'.') {
            self.at += 1;
            valid &= self.digits() > 0;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            valid &= self.digits() > 0;
        }
        if valid {
            Ok(Json::Number(self.text[start..self.at].to_owned()))
        } else {
            Err(self.syntax("invalid number"))
        }
    }

    /// Skips digits and returns their number.
    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn problem(&self, message: impl Into<String>) -> JsonError {
        JsonError {
            path: self.path.concat(),
            message: message.into(),
        }
    }

    /// An error with the line and the column of the position.
    fn syntax(&self, message: &str) -> JsonError {
        let before = &self.text.as_bytes()[..self.at.min(self.text.len())];
        let line = before.split(|b| *b == b'\n').count();
        // The column counts characters: continuation bytes of UTF-8 are skipped.
        let line_so_far = before.iter().rev().take_while(|b| **b != b'\n');
        let column = line_so_far.filter(|b| **b & 0xc0 != 0x80).count() + 1;
        let mut text = message.to_owned();
        let _ = write!(text, " (line {line}, column {column})");
        self.problem(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_type_are_read() {
        let text =
            " {\"a\" : [1, -0.5e+3, true,false , null, []],\"\\u00e9\\n\\ud83d\\ude00\":{}}\n";
        let number = |text: &str| Json::Number(text.to_owned());
        let list = vec![
            number("1"),
            number("-0.5e+3"),
            Json::Bool(true),
            Json::Bool(false),
            Json::Null,
            Json::Array(Vec::new()),
        ];
        let expected = Json::Object(vec![
            ("a".to_owned(), Json::Array(list)),
            ("é\n😀".to_owned(), Json::Object(Vec::new())),
        ]);
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn mistakes_have_a_path_and_a_position() {
        let cases = [
            ("", "$", "expected a value (line 1, column 1)"),
            (
                "{}{}",
                "$",
                "expected the end of the file (line 1, column 3)",
            ),
            (
                "{\n  \"a\": [1,\n  ]}",
                "$.a[1]",
                "expected a value (line 3, column 3)",
            ),
            (
                "{\"a\":1,\"b\":{\"c d\":1,\"c d\":2}}",
                "$.b[\"c d\"]",
                "the member appears twice",
            ),
            ("{\"a\":1,\"\\u0061\":2}", "$.a", "the member appears twice"),
            ("{\"a\" 1}", "$.a", "expected `:` (line 1, column 6)"),
            (
                "{a:1}",
                "$",
                "expected the name of a member (line 1, column 2)",
            ),
            (
                "{\"a\":1 \"b\":2}",
                "$",
                "expected `,` or `}` (line 1, column 8)",
            ),
            ("[01]", "$[0]", "invalid number (line 1, column 4)"),
            ("[-]", "$[0]", "invalid number (line 1, column 3)"),
            ("[1.]", "$[0]", "invalid number (line 1, column 4)"),
            ("[1e]", "$[0]", "invalid number (line 1, column 4)"),
            (
                "[\"a",
                "$[0]",
                "the text has no closing quote (line 1, column 3)",
            ),
            (
                "[\"a\nb\"]",
                "$[0]",
                "a control character in a text (line 1, column 4)",
            ),
            (
                "[\"\\x\"]",
                "$[0]",
                "invalid escape in a text (line 1, column 5)",
            ),
            (
                "[\"\\ud800\"]",
                "$[0]",
                "invalid escape in a text (line 1, column 9)",
            ),
            (
                "[\"\\udc00\"]",
                "$[0]",
                "invalid escape in a text (line 1, column 9)",
            ),
            (
                "[\"\\u00é\"]",
                "$[0]",
                "invalid escape in a text (line 1, column 8)",
            ),
            ("[tru]", "$[0]", "expected a value (line 1, column 2)"),
            ("<<<<<<< HEAD", "$", "expected a value (line 1, column 1)"),
        ];
        for (text, path, message) in cases {
            let error = parse(text).expect_err(text);
            assert_eq!(
                (error.path.as_str(), error.message.as_str()),
                (path, message),
                "{text}"
            );
        }
    }

    #[test]
    fn nesting_deeper_than_64_levels_is_refused() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        let error = parse(&nested(MAX_DEPTH + 1)).expect_err("too deep");
        assert_eq!(error.message, "more than 64 nested levels");
        assert!(parse(&"[".repeat(1_000_000)).is_err());
    }

    /// Reads every prefix of a text, and the text with every byte replaced: the reader must not
    /// panic.
    #[test]
    fn broken_texts_never_panic() {
        let text =
            "{\"format\": 2, \"a\": [\"\\ud83d\\ude00é\", -1.5e3, null], \"b\": {\"c\": true}}";
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            assert!(parse(&text[..end]).is_err(), "{}", &text[..end]);
        }
        for at in 0..text.len() {
            for byte in *b"{}[]\",:\\0-eu \n\x7f" {
                let mut bytes = text.as_bytes().to_vec();
                bytes[at] = byte;
                if let Ok(text) = String::from_utf8(bytes) {
                    let _ = parse(&text);
                }
            }
        }
    }
}
