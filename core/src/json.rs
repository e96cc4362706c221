//! Writes values as JSON bytes.

use crate::{Value, ValueRef};

/// Writes a page of items that are already JSON.
#[doc(hidden)]
pub fn write_page(items: &[u8], next_cursor: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"items\":[");
    out.extend_from_slice(items);
    out.extend_from_slice(b"],\"nextCursor\":");
    match next_cursor {
        Some(cursor) => {
            write_str(cursor, out);
            out.extend_from_slice(b",\"hasMore\":true}");
        }
        None => out.extend_from_slice(b"null,\"hasMore\":false}"),
    }
}

/// Writes a value as JSON.
#[doc(hidden)]
pub fn write_value(value: ValueRef<'_>, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => out.extend_from_slice(b"null"),
        ValueRef::Bool(true) => out.extend_from_slice(b"true"),
        ValueRef::Bool(false) => out.extend_from_slice(b"false"),
        ValueRef::Int(i) => out.extend_from_slice(itoa::Buffer::new().format(i).as_bytes()),
        ValueRef::Float(f) => write_float(f, out),
        ValueRef::Text(t) => write_str(t, out),
        ValueRef::Date(d) => {
            out.push(b'"');
            out.extend_from_slice(&d.to_bytes());
            out.push(b'"');
        }
        ValueRef::Strings(list) => {
            out.push(b'[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_str(item, out);
            }
            out.push(b']');
        }
        ValueRef::Json(text) => out.extend_from_slice(text.as_bytes()),
    }
}

fn write_float(f: f64, out: &mut Vec<u8>) {
    if f.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(f).as_bytes());
    } else {
        out.extend_from_slice(b"null");
    }
}

/// Writes text as a JSON string.
pub fn write_str(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut done = 0;
    while let Some(at) = to_escape(bytes, done) {
        out.extend_from_slice(&bytes[done..at]);
        match bytes[at] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b => out.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                HEX[usize::from(b >> 4)],
                HEX[usize::from(b & 15)],
            ]),
        }
        done = at + 1;
    }
    out.extend_from_slice(&bytes[done..]);
    out.push(b'"');
}

/// Returns the position of the first byte from `start` that must be escaped in a JSON string.
///
/// It reads eight bytes at a time: most of a response is text, and almost none of it needs an
/// escape.
fn to_escape(bytes: &[u8], start: usize) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES << 7;
    let mut at = start;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        // The high bit of each byte that is below 0x20, a quote or a backslash. Borrows only change
        // bytes after a match.
        let below = word.wrapping_sub(ONES * 0x20) & !word;
        let quote = word ^ (ONES * 0x22);
        let slash = word ^ (ONES * 0x5c);
        let hits =
            (below | (quote.wrapping_sub(ONES) & !quote) | (slash.wrapping_sub(ONES) & !slash))
                & HIGH;
        if hits != 0 {
            return Some(at + hits.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    rest.iter()
        .position(|b| *b < 0x20 || *b == b'"' || *b == b'\\')
        .map(|i| at + i)
}

/// Writes members as an object, sorted by name.
#[doc(hidden)]
pub fn write_object(mut members: Vec<(&str, Value)>, out: &mut Vec<u8>) {
    members.sort_unstable_by_key(|(name, _)| *name);
    out.push(b'{');
    for (i, (name, value)) in members.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_str(name, out);
        out.push(b':');
        write_value(value.as_ref(), out);
    }
    out.push(b'}');
}

/// Returns members as an object, sorted by name.
#[doc(hidden)]
pub fn object(members: Vec<(&str, Value)>) -> Value {
    let mut out = Vec::with_capacity(64);
    write_object(members, &mut out);
    // All writers above produce UTF-8.
    Value::Json(String::from_utf8(out).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_found_at_every_position() {
        for byte in 0..=0x7f_u8 {
            for before in 0..18 {
                for after in [0, 1, 9] {
                    let text = format!(
                        "{}{}{}",
                        "\u{7f}é"[..before % 2].to_owned() + &"a".repeat(before),
                        char::from(byte),
                        "\u{1f}z".repeat(after)
                    );
                    let mut out = Vec::new();
                    write_str(&text, &mut out);
                    assert_eq!(
                        String::from_utf8(out).ok(),
                        serde_json::to_string(&text).ok()
                    );
                }
            }
        }
    }

    #[test]
    fn json_is_written_as_by_serde_json() {
        for text in [
            "",
            "plain",
            "q\" b\\ n\n t\t r\r \u{1} \u{8} \u{c} \u{1f} \u{7f} é 😀 \u{2028}",
        ] {
            let mut out = Vec::new();
            write_str(text, &mut out);
            assert_eq!(
                String::from_utf8(out).ok(),
                serde_json::to_string(text).ok()
            );
        }
        for f in [0.1 + 0.2, 1.0, -0.0, 1e300, 5e-324, 123_456_789.125] {
            let mut out = Vec::new();
            write_value(ValueRef::Float(f), &mut out);
            let back: f64 = serde_json::from_slice(&out).unwrap_or(f64::NAN);
            assert_eq!(back.to_bits(), f.to_bits());
        }
    }
}
