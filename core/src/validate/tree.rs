//! Strict JSON input: parses bytes to a borrowed tree.
//!
//! General parsers lack some rules for bodies, so this is a separate parser. It refuses duplicate
//! keys at any depth, limits the nesting, and keeps the literals of numbers, so that `1`, `1.0` and
//! `9007199254740993` stay different and doubles are exact to the last bit. A property test
//! compares it with `serde_json`.

use std::borrow::Cow;

use crate::{Code, Error, Result};

/// The maximum nesting of arrays and objects.
const MAX_DEPTH: usize = 64;

/// A JSON value that borrows from the parsed text.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// The literal text of the number, with the syntax of JSON.
    Number(&'a str),
    /// The text with its escapes resolved.
    Text(Cow<'a, str>),
    /// Elements in order.
    Array(Vec<Json<'a>>),
    /// Members in order, without duplicate keys.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl Json<'_> {
    /// Parses exactly one JSON value.
    ///
    /// # Errors
    /// `malformed_json` for text that is not JSON, invalid UTF-8, lone surrogates, duplicate keys,
    /// nesting over 64 and data after the value.
    pub fn parse(bytes: &[u8]) -> Result<Json<'_>> {
        let text = std::str::from_utf8(bytes)
            .map_err(|e| malformed("it is not UTF-8", e.valid_up_to()))?;
        let mut parser = Parser { text, bytes, at: 0 };
        let value = parser.value(0).and_then(|value| {
            parser.space();
            if parser.at == bytes.len() {
                Ok(value)
            } else {
                Err("there is text after the value")
            }
        });
        value.map_err(|reason| malformed(reason, parser.at))
    }

    /// Appends the canonical text: no spaces, sorted keys, numbers in their shortest form, no
    /// negative zero.
    ///
    /// Returns `false` if a number is too large for a double.
    #[doc(hidden)]
    pub fn write_canonical(&self, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(literal) => return write_number(literal, out),
            Self::Text(text) => crate::json::write_str(text, out),
            Self::Array(list) => {
                out.push(b'[');
                for (i, item) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    if !item.write_canonical(out) {
                        return false;
                    }
                }
                out.push(b']');
            }
            Self::Object(members) => {
                let mut sorted: Vec<&(Cow<'_, str>, Json<'_>)> = members.iter().collect();
                sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                out.push(b'{');
                for (i, (key, value)) in sorted.into_iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    crate::json::write_str(key, out);
                    out.push(b':');
                    if !value.write_canonical(out) {
                        return false;
                    }
                }
                out.push(b'}');
            }
        }
        true
    }
}

fn write_number(literal: &str, out: &mut Vec<u8>) -> bool {
    if let Ok(n) = literal.parse::<i64>() {
        out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    } else if let Ok(n) = literal.parse::<u64>() {
        out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    } else {
        match literal.parse::<f64>() {
            // Adding zero turns -0.0 into 0.0 and changes nothing else.
            Ok(n) if n.is_finite() => {
                crate::json::write_value(crate::ValueRef::Float(n + 0.0), out);
            }
            _ => return false,
        }
    }
    true
}

/// Whether a text has the syntax of a JSON number.
#[doc(hidden)]
pub fn is_number(text: &str) -> bool {
    let mut parser = Parser {
        text,
        bytes: text.as_bytes(),
        at: 0,
    };
    parser.number().is_ok() && parser.at == text.len()
}

fn malformed(reason: &'static str, at: usize) -> Error {
    Error::new(
        Code::MalformedJson,
        format!("The body is not valid JSON: {reason} (byte {at})"),
    )
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

type Parsed<T> = std::result::Result<T, &'static str>;

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &'static str, value: Json<'a>) -> Parsed<Json<'a>> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(value)
        } else {
            Err("a value was expected")
        }
    }

    fn value(&mut self, depth: usize) -> Parsed<Json<'a>> {
        self.space();
        match self.peek() {
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Json::Number),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(_) => Err("a value was expected"),
            None => Err("the text ends too early"),
        }
    }

    fn array(&mut self, depth: usize) -> Parsed<Json<'a>> {
        if depth > MAX_DEPTH {
            return Err("it is nested too deeply");
        }
        self.at += 1;
        let mut list = Vec::new();
        self.space();
        if self.eat(b']') {
            return Ok(Json::Array(list));
        }
        loop {
            list.push(self.value(depth)?);
            self.space();
            if self.eat(b']') {
                return Ok(Json::Array(list));
            }
            if !self.eat(b',') {
                return Err("`,` or `]` was expected");
            }
        }
    }

    fn object(&mut self, depth: usize) -> Parsed<Json<'a>> {
        if depth > MAX_DEPTH {
            return Err("it is nested too deeply");
        }
        self.at += 1;
        let mut members = Vec::new();
        self.space();
        if self.eat(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err("a key was expected");
            }
            let key = self.string()?;
            self.space();
            if !self.eat(b':') {
                return Err("`:` was expected");
            }
            members.push((key, self.value(depth)?));
            self.space();
            if self.eat(b'}') {
                break;
            }
            if !self.eat(b',') {
                return Err("`,` or `}` was expected");
            }
        }
        if has_duplicates(&members) {
            Err("an object contains a key twice")
        } else {
            Ok(Json::Object(members))
        }
    }

    fn string(&mut self) -> Parsed<Cow<'a, str>> {
        self.at += 1;
        let mut start = self.at;
        let mut owned: Option<String> = None;
        loop {
            // Most texts have no escapes: one fast scan to the end.
            let plain = self.bytes[self.at..]
                .iter()
                .position(|&b| b == b'"' || b == b'\\' || b < 0x20);
            self.at += plain.ok_or("a string has no closing quote")?;
            match self.peek() {
                Some(b'"') => {
                    let rest = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(match owned {
                        None => Cow::Borrowed(rest),
                        Some(mut text) => {
                            text.push_str(rest);
                            Cow::Owned(text)
                        }
                    });
                }
                Some(b'\\') => {
                    let text = owned.get_or_insert_with(String::new);
                    text.push_str(&self.text[start..self.at]);
                    self.at += 1;
                    let c = self.escape()?;
                    if let Some(text) = &mut owned {
                        text.push(c);
                    }
                    start = self.at;
                }
                _ => return Err("a string contains a control character"),
            }
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        let byte = self.peek().ok_or("a string has no closing quote")?;
        self.at += 1;
        Ok(match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex4()?;
                let code = match first {
                    0xd800..0xdc00 => {
                        if !(self.eat(b'\\') && self.eat(b'u')) {
                            return Err("a string contains an unpaired surrogate");
                        }
                        match self.hex4()? {
                            second @ 0xdc00..0xe000 => {
                                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                            }
                            _ => return Err("a string contains an unpaired surrogate"),
                        }
                    }
                    code => code,
                };
                char::from_u32(code).ok_or("a string contains an unpaired surrogate")?
            }
            _ => return Err("a string contains an unknown escape"),
        })
    }

    fn hex4(&mut self) -> Parsed<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self
                .peek()
                .and_then(|b| char::from(b).to_digit(16))
                .ok_or("four hex digits were expected")?;
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn digits(&mut self) -> Parsed<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > start {
            Ok(())
        } else {
            Err("a digit was expected")
        }
    }

    fn number(&mut self) -> Parsed<&'a str> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }
}

fn has_duplicates(members: &[(Cow<'_, str>, Json<'_>)]) -> bool {
    // Comparing all pairs is fastest for typical bodies. Sorting limits the cost of hostile ones.
    if members.len() <= 16 {
        return members
            .iter()
            .enumerate()
            .any(|(i, (key, _))| members[..i].iter().any(|(other, _)| other == key));
    }
    let mut keys: Vec<&str> = members.iter().map(|(key, _)| key.as_ref()).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
