//! JSON out: values straight to bytes.

use crate::ValueRef;

/// Writes a value as JSON.
pub(crate) fn write_value(value: ValueRef<'_>, out: &mut Vec<u8>) {
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
pub(crate) fn write_str(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut done = 0;
    for (i, &b) in bytes.iter().enumerate() {
        if b >= 0x20 && b != b'"' && b != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[done..i]);
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]),
        }
        done = i + 1;
    }
    out.extend_from_slice(&bytes[done..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_serde_json() {
        for text in ["", "plain", "q\" b\\ n\n t\t r\r \u{1} \u{8} \u{c} \u{1f} \u{7f} é 😀 \u{2028}"] {
            let mut out = Vec::new();
            write_str(text, &mut out);
            assert_eq!(String::from_utf8(out).ok(), serde_json::to_string(text).ok());
        }
        for f in [0.1 + 0.2, 1.0, -0.0, 1e300, 5e-324, 123_456_789.125] {
            let mut out = Vec::new();
            write_value(ValueRef::Float(f), &mut out);
            let back: f64 = serde_json::from_slice(&out).unwrap_or(f64::NAN);
            assert_eq!(back.to_bits(), f.to_bits());
        }
    }
}
