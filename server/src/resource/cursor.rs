//! Cursors: the position where a page ended, encrypted and signed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::{Code, Error, Result, Value};

/// The key that seals cursors, and earlier keys that can still open them.
#[derive(Clone)]
pub struct CursorKey {
    keys: Vec<Key>,
}

/// The two keys of one signing secret.
#[derive(Clone)]
struct Key {
    /// Signs cursors. Its padded key is hashed in advance, not once per cursor.
    mac: Hmac<Sha256>,
    /// Encrypts cursors.
    stream: [u8; 32],
}

impl std::fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CursorKey(..)")
    }
}

/// The type of a cursor that contains the sort values of the last record.
const BY_VALUES: u8 = 3;
/// The type of a cursor that contains the key of the last record and a digest of its sort values,
/// because the sort values are too long for a URL.
const BY_KEY: u8 = 4;
/// The length of the authentication tag at the end of a cursor, in bytes.
const TAG_LENGTH: usize = 16;
/// The maximum length of an accepted cursor, in characters.
const MAX_LENGTH: usize = 2048;

/// The content of a cursor.
#[derive(Debug, PartialEq)]
pub struct Opened {
    /// The values that the first page has fixed.
    pub fixed: Vec<Value>,
    /// The position where the previous page ended.
    pub position: Position,
}

/// The position where a page ended.
#[derive(Debug, PartialEq)]
pub enum Position {
    /// The sort values of the last record.
    Values(Vec<Value>),
    /// The key of the last record, whose sort values must be read, and their [`digest`].
    Key(Value, Value),
}

/// A short digest of sort values. Cursors are encrypted, so the digest needs no key.
pub(super) fn digest(values: &[Value]) -> Value {
    let mut bytes = Vec::new();
    for value in values {
        encode(value, &mut bytes);
    }
    Value::Text(URL_SAFE_NO_PAD.encode(&Sha256::digest(bytes)[..TAG_LENGTH]))
}

impl CursorKey {
    /// Derives the keys of each signing secret, newest first.
    pub fn derive<S: AsRef<[u8]>>(secrets: &[S]) -> Self {
        let key = |secret: &S| {
            let expand = hkdf::Hkdf::<Sha256>::new(None, secret.as_ref());
            let (mut mac, mut stream) = ([0; 32], [0; 32]);
            // Neither call can fail: 32 bytes are below HKDF's limit of 255 blocks, and HMAC
            // accepts keys of any length.
            expand.expand(b"linchpin cursor", &mut mac).ok()?;
            expand
                .expand(b"linchpin cursor encryption", &mut stream)
                .ok()?;
            Some(Key {
                mac: Hmac::new_from_slice(&mac).ok()?,
                stream,
            })
        };
        Self {
            keys: secrets.iter().filter_map(key).collect(),
        }
    }

    /// Seals a position; its last value is the record's key. `fixed` contains the values that later
    /// pages read from the cursor. `context` contains everything that must be equal in the request
    /// that uses the cursor. Equal positions give equal cursors.
    pub fn seal(&self, fixed: &[Value], position: &[Value], context: &[u8]) -> String {
        let by_values = self.sealed(BY_VALUES, &[fixed, position], context);
        match position.last() {
            Some(key) if by_values.len() > MAX_LENGTH => self.sealed(
                BY_KEY,
                &[fixed, std::slice::from_ref(key), &[digest(position)]],
                context,
            ),
            _ => by_values,
        }
    }

    fn sealed(&self, version: u8, values: &[&[Value]], context: &[u8]) -> String {
        // Without a key, no cursor can be opened and none is created.
        let Some(key) = self.keys.first() else {
            return String::new();
        };
        let mut body = Vec::with_capacity(128);
        body.push(version);
        for value in values.iter().copied().flatten() {
            encode(value, &mut body);
        }
        let tag = key.tag(&body, context);
        key.crypt(tag, &mut body);
        body.extend_from_slice(&tag);
        URL_SAFE_NO_PAD.encode(body)
    }

    /// Opens a cursor with the given numbers of fixed values and of sort values.
    ///
    /// # Errors
    /// `invalid_cursor` when it is forged, truncated, or was made for another context.
    pub fn open(
        &self,
        cursor: &str,
        (fixed, count): (usize, usize),
        context: &[u8],
    ) -> Result<Opened> {
        let invalid = || Error::new(Code::InvalidCursor, "The cursor does not fit this request");
        if cursor.len() > MAX_LENGTH {
            return Err(invalid());
        }
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| invalid())?;
        let (sealed, tag) = bytes.split_last_chunk::<TAG_LENGTH>().ok_or_else(invalid)?;
        let opened = self.keys.iter().find_map(|key| {
            let mut body = sealed.to_vec();
            key.crypt(*tag, &mut body);
            let expected = key.tag(&body, context);
            // Compares the tag in constant time.
            let good = expected
                .iter()
                .zip(tag)
                .fold(0, |acc, (a, b)| acc | (a ^ b))
                == 0;
            good.then_some(body)
        });
        let body = opened.ok_or_else(invalid)?;
        let (version, mut rest) = body.split_first().ok_or_else(invalid)?;
        let mut values = Vec::with_capacity(fixed + count);
        while !rest.is_empty() {
            values.push(decode(&mut rest).ok_or_else(invalid)?);
        }
        if values.len() < fixed {
            return Err(invalid());
        }
        let rest = values.split_off(fixed);
        let position = match *version {
            BY_VALUES if rest.len() == count => Position::Values(rest),
            BY_KEY => {
                let [key, digest] = <[Value; 2]>::try_from(rest).map_err(|_| invalid())?;
                Position::Key(key, digest)
            }
            _ => return Err(invalid()),
        };
        Ok(Opened {
            fixed: values,
            position,
        })
    }
}

impl Key {
    fn tag(&self, body: &[u8], context: &[u8]) -> [u8; TAG_LENGTH] {
        let mut mac = self.mac.clone();
        mac.update(&(body.len() as u64).to_le_bytes());
        mac.update(body);
        mac.update(context);
        let mut out = [0; TAG_LENGTH];
        out.copy_from_slice(&mac.finalize().into_bytes()[..TAG_LENGTH]);
        out
    }

    /// Encrypts or decrypts in place. The tag serves as the nonce: it differs for each body and
    /// context.
    fn crypt(&self, tag: [u8; TAG_LENGTH], body: &mut [u8]) {
        for (block, chunk) in (0_u32..).zip(body.chunks_mut(32)) {
            let input = [&self.stream[..], &tag, &block.to_le_bytes()].concat();
            for (byte, mask) in chunk.iter_mut().zip(Sha256::digest(input)) {
                *byte ^= mask;
            }
        }
    }
}

/// Appends a value in an unambiguous binary form; also used for fingerprints.
pub(crate) fn encode(value: &Value, out: &mut Vec<u8>) {
    let mut text = |tag: u8, t: &str| {
        out.push(tag);
        out.extend_from_slice(&(t.len() as u32).to_le_bytes());
        out.extend_from_slice(t.as_bytes());
    };
    match value {
        Value::Null => out.push(0),
        Value::Bool(b) => out.extend_from_slice(&[1, u8::from(*b)]),
        Value::Int(i) => {
            out.push(2);
            out.extend_from_slice(&i.to_le_bytes());
        }
        Value::Float(f) => {
            out.push(3);
            out.extend_from_slice(&f.to_bits().to_le_bytes());
        }
        Value::Text(t) => text(4, t),
        Value::Date(d) => {
            out.push(5);
            out.extend_from_slice(&d.millis().to_le_bytes());
        }
        Value::Strings(list) => {
            out.push(6);
            out.extend_from_slice(&(list.len() as u32).to_le_bytes());
            for item in list {
                out.extend_from_slice(&(item.len() as u32).to_le_bytes());
                out.extend_from_slice(item.as_bytes());
            }
        }
        Value::Json(t) => text(7, t),
    }
}

fn decode(rest: &mut &[u8]) -> Option<Value> {
    let (tag, tail) = rest.split_first()?;
    *rest = tail;
    let take_8_bytes = |rest: &mut &[u8]| -> Option<[u8; 8]> {
        let (head, tail) = rest.split_first_chunk::<8>()?;
        *rest = tail;
        Some(*head)
    };
    Some(match tag {
        0 => Value::Null,
        1 => {
            let (b, tail) = rest.split_first()?;
            *rest = tail;
            Value::Bool(*b == 1)
        }
        2 => Value::Int(i64::from_le_bytes(take_8_bytes(rest)?)),
        3 => Value::Float(f64::from_bits(u64::from_le_bytes(take_8_bytes(rest)?))),
        4 => {
            let (head, tail) = rest.split_first_chunk::<4>()?;
            let (text, tail) = tail.split_at_checked(u32::from_le_bytes(*head) as usize)?;
            *rest = tail;
            Value::Text(std::str::from_utf8(text).ok()?.to_owned())
        }
        5 => Value::Date(crate::Timestamp::from_millis(i64::from_le_bytes(
            take_8_bytes(rest)?,
        ))),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{CursorKey, Engine, MAX_LENGTH, Position, URL_SAFE_NO_PAD, digest};
    use crate::{Timestamp, Value};

    #[test]
    fn a_changed_cursor_or_one_of_another_context_is_refused() {
        let key = CursorKey::derive(&["0123456789abcdef0123456789abcdef"]);
        let values = [
            Value::Text("a\u{1F600}".into()),
            Value::Null,
            Value::Int(-7),
            Value::Date(Timestamp::from_millis(5)),
            Value::Float(0.5),
            Value::Bool(true),
        ];
        let cursor = key.seal(&[], &values, b"posts");
        assert_eq!(
            key.open(&cursor, (0, 6), b"posts").ok().map(|o| o.position),
            Some(Position::Values(values.to_vec()))
        );
        assert!(key.open(&cursor, (0, 6), b"users").is_err());
        assert!(key.open(&cursor, (0, 5), b"posts").is_err());
        assert!(key.open("", (0, 0), b"posts").is_err());
        for i in 0..cursor.len() {
            let mut forged = cursor.clone().into_bytes();
            forged[i] = if forged[i] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap_or_default();
            // The last character has unused bits. The decoder accepts them only if they are zero.
            assert!(key.open(&forged, (0, 6), b"posts").is_err(), "{i}");
            assert!(key.open(&cursor[..i], (0, 6), b"posts").is_err());
        }
    }

    #[test]
    fn a_cursor_of_long_values_contains_the_key() {
        let key = CursorKey::derive(&["0123456789abcdef0123456789abcdef"]);
        let values = [Value::Text("x".repeat(5000)), Value::Text("id".into())];
        let cursor = key.seal(&[], &values, b"posts");
        assert!(cursor.len() <= MAX_LENGTH);
        let expected = Position::Key(Value::Text("id".into()), digest(&values));
        assert_eq!(
            key.open(&cursor, (0, 2), b"posts").ok().map(|o| o.position),
            Some(expected)
        );
        assert!(key.open(&cursor, (0, 2), b"users").is_err());
    }

    #[test]
    fn a_cursor_reveals_no_values() {
        let key = CursorKey::derive(&["0123456789abcdef0123456789abcdef"]);
        let sealed_bytes = |text: &str| {
            let cursor = key.seal(&[], &[Value::Text(text.into()), Value::Int(7)], b"posts");
            URL_SAFE_NO_PAD.decode(cursor).unwrap_or_default()
        };
        let (one, other) = (
            sealed_bytes(&"secret".repeat(20)),
            sealed_bytes(&"hidden".repeat(20)),
        );
        assert!(!one.windows(6).any(|part| part == b"secret"));
        // Different positions have different key streams, so they share few bytes.
        assert!(one.iter().zip(&other).filter(|(a, b)| a == b).count() < 20);
        assert_eq!(one, sealed_bytes(&"secret".repeat(20)));
        // Without a key, nothing can be sealed or opened.
        let none = CursorKey::derive::<&str>(&[]);
        assert_eq!(none.seal(&[], &[Value::Text("secret".into())], b""), "");
        assert!(
            none.open(&key.seal(&[], &[Value::Int(3)], b""), (0, 1), b"")
                .is_err()
        );
    }

    #[test]
    fn a_cursor_carries_the_fixed_values() {
        let key = CursorKey::derive(&["0123456789abcdef0123456789abcdef"]);
        let fixed = [Value::Date(Timestamp::from_millis(7))];
        for text in ["x".to_owned(), "x".repeat(5000)] {
            let cursor = key.seal(&fixed, &[Value::Text(text), Value::Int(3)], b"posts");
            let opened = key.open(&cursor, (1, 2), b"posts").ok();
            assert_eq!(opened.map(|opened| opened.fixed), Some(fixed.to_vec()));
            assert!(key.open(&cursor, (0, 2), b"posts").is_err());
        }
        assert!(
            key.open(&key.seal(&[], &[Value::Int(3)], b""), (2, 0), b"")
                .is_err()
        );
    }

    #[test]
    fn a_cursor_sealed_with_an_earlier_secret_opens() {
        let old = CursorKey::derive(&["old-old-old-old-old-old-old-old-"]);
        let both = CursorKey::derive(&[
            "new-new-new-new-new-new-new-new-",
            "old-old-old-old-old-old-old-old-",
        ]);
        let cursor = old.seal(&[], &[Value::Int(1)], b"");
        assert!(both.open(&cursor, (0, 1), b"").is_ok());
        assert!(
            old.open(&both.seal(&[], &[Value::Int(1)], b""), (0, 1), b"")
                .is_err()
        );
    }
}
