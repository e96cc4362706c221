//! Names of rooms: `<storage_name>:<id>:<name>`, or `<storage_name>:<name>` for a collection.
//!
//! Bytes of the id outside `[A-Za-z0-9_.~-]` are percent-encoded in upper-case hexadecimal digits.
//! A room has exactly one name: every other spelling is refused.

use std::borrow::Cow;
use std::fmt::Write;

/// The maximum length of a room's name, in bytes.
pub const MAX_ROOM_BYTES: usize = 512;

/// The parts of a room's name.
///
/// ```
/// use linchpin_realtime::channel::RoomName;
///
/// let name = RoomName::parse("containers:a%20b:live").expect("a name");
/// assert_eq!((name.entity, name.id.as_deref(), name.channel), ("containers", Some("a b"), "live"));
/// assert!(RoomName::parse("containers:a%2fb:live").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomName<'a> {
    /// The storage name of the entity.
    pub entity: &'a str,
    /// The id of the record, decoded; `None` for the room of a collection.
    pub id: Option<Cow<'a, str>>,
    /// The name of the channel.
    pub channel: &'a str,
}

/// The error for a text that is not a room name: the frame code `invalid_room`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidRoom;

impl std::fmt::Display for InvalidRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "not a room name; expected <storage_name>:<id>:<name> with a percent-encoded id, or \
             <storage_name>:<name>",
        )
    }
}

impl std::error::Error for InvalidRoom {}

impl<'a> RoomName<'a> {
    /// Reads a name. It does not check that such a room exists.
    ///
    /// # Errors
    /// If the text is longer than [`MAX_ROOM_BYTES`], does not have two or three parts, has an
    /// empty part, or encodes the id in another way than [`text`](Self::text).
    pub fn parse(text: &'a str) -> Result<Self, InvalidRoom> {
        if text.len() > MAX_ROOM_BYTES {
            return Err(InvalidRoom);
        }
        let mut parts = text.split(':');
        let (Some(entity), Some(second)) = (parts.next(), parts.next()) else {
            return Err(InvalidRoom);
        };
        let (id, channel) = match parts.next() {
            Some(channel) => (Some(decode(second)?), channel),
            None => (None, second),
        };
        let empty = entity.is_empty() || channel.is_empty() || id.as_deref() == Some("");
        if empty || parts.next().is_some() {
            return Err(InvalidRoom);
        }
        Ok(Self {
            entity,
            id,
            channel,
        })
    }

    /// Returns the name as text. It is the inverse of [`parse`](Self::parse).
    ///
    /// # Errors
    /// If it is longer than [`MAX_ROOM_BYTES`], or if the id is empty.
    pub fn text(&self) -> Result<String, InvalidRoom> {
        let mut out = String::with_capacity(64);
        out.push_str(self.entity);
        out.push(':');
        if let Some(id) = &self.id {
            if id.is_empty() {
                return Err(InvalidRoom);
            }
            encode(id, &mut out);
            out.push(':');
        }
        out.push_str(self.channel);
        if out.len() > MAX_ROOM_BYTES {
            return Err(InvalidRoom);
        }
        Ok(out)
    }
}

/// Whether a byte of an id is written without encoding.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'~' | b'-')
}

fn encode(id: &str, out: &mut String) {
    for byte in id.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

fn decode(text: &str) -> Result<Cow<'_, str>, InvalidRoom> {
    if text.bytes().all(is_plain) {
        return Ok(Cow::Borrowed(text));
    }
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let (Some(high), Some(low)) = (digit(bytes, at + 1), digit(bytes, at + 2)) else {
                    return Err(InvalidRoom);
                };
                let byte = high << 4 | low;
                if is_plain(byte) {
                    return Err(InvalidRoom);
                }
                out.push(byte);
                at += 3;
            }
            byte if is_plain(byte) => {
                out.push(byte);
                at += 1;
            }
            _ => return Err(InvalidRoom),
        }
    }
    String::from_utf8(out)
        .map(Cow::Owned)
        .map_err(|_| InvalidRoom)
}

/// Returns the value of an upper-case hexadecimal digit.
fn digit(bytes: &[u8], at: usize) -> Option<u8> {
    match bytes.get(at)? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(id: Option<&str>) -> RoomName<'_> {
        RoomName {
            entity: "blog_posts",
            id: id.map(Cow::Borrowed),
            channel: "live",
        }
    }

    #[test]
    fn ids_are_percent_encoded_and_read_back() {
        for (id, text) in [
            ("a", "blog_posts:a:live"),
            ("A-b_c.d~9", "blog_posts:A-b_c.d~9:live"),
            ("a:b", "blog_posts:a%3Ab:live"),
            ("a b%", "blog_posts:a%20b%25:live"),
            ("ß\0", "blog_posts:%C3%9F%00:live"),
            ("%41", "blog_posts:%2541:live"),
        ] {
            assert_eq!(name(Some(id)).text().as_deref(), Ok(text));
            assert_eq!(RoomName::parse(text), Ok(name(Some(id))));
        }
    }

    #[test]
    fn a_collection_has_no_id() {
        assert_eq!(name(None).text().as_deref(), Ok("blog_posts:live"));
        assert_eq!(RoomName::parse("blog_posts:live"), Ok(name(None)));
    }

    #[test]
    fn only_one_spelling_is_accepted() {
        for text in [
            "",
            "x",
            ":",
            "::",
            "a::live",
            ":a:live",
            "a:b:",
            "a:b:c:d",
            "posts:%3a:live",
            "posts:%41:live",
            "posts:%:live",
            "posts:%2:live",
            "posts:%2G:live",
            "posts:a b:live",
            "posts:ß:live",
            "posts:%FF:live",
            "posts:%C3:live",
            "posts:+:live",
        ] {
            assert_eq!(RoomName::parse(text), Err(InvalidRoom), "{text:?}");
        }
    }

    #[test]
    fn names_have_at_most_512_bytes() {
        let around = "blog_posts::live".len();
        let longest = "a".repeat(MAX_ROOM_BYTES - around);
        let text = name(Some(&longest)).text();
        assert_eq!(text.as_ref().map(String::len), Ok(MAX_ROOM_BYTES));
        assert!(text.is_ok_and(|text| RoomName::parse(&text).is_ok()));
        let longer = "a".repeat(MAX_ROOM_BYTES - around + 1);
        assert_eq!(name(Some(&longer)).text(), Err(InvalidRoom));
        let text = format!("blog_posts:{longer}:live");
        assert_eq!(RoomName::parse(&text), Err(InvalidRoom));
    }
}
