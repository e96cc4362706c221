//! Compares two routes.

use crate::entity::EntityDesc;
use crate::operation::{RouteSpec, Seg};

/// Returns the start and the end of the first segment of `path` after the position `from` and any
/// slashes there. `None` after the last segment.
const fn next_segment(path: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut start = from;
    while start < path.len() && path[start] == b'/' {
        start += 1;
    }
    let mut end = start;
    while end < path.len() && path[end] != b'/' {
        end += 1;
    }
    if start == end {
        None
    } else {
        Some((start, end))
    }
}

const fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Returns the byte at `at`, percent-decoded if `decode` is true, and the position of the next
/// byte.
const fn byte_at(path: &[u8], at: usize, decode: bool) -> (u8, usize) {
    if decode
        && path[at] == b'%'
        && at + 2 < path.len()
        && let (Some(high), Some(low)) = (hex(path[at + 1]), hex(path[at + 2]))
    {
        return (high * 16 + low, at + 3);
    }
    (path[at], at + 1)
}

/// A text in a path: the bytes of the path, the start and the end of the text, and whether it is
/// percent-encoded.
pub(super) type Span<'a> = (&'a [u8], usize, usize, bool);

/// One segment of a whole route.
#[derive(Clone, Copy)]
pub(super) enum Piece<'a> {
    /// A static segment, with the members of a [`Span`].
    Text(&'a [u8], usize, usize, bool),
    /// A parameter or wildcard, with the positions of its name.
    Param(&'a [u8], usize, usize),
    Wildcard(&'a [u8], usize, usize),
    /// There is no further segment.
    End,
}

const fn param(name: &[u8], from: usize, to: usize) -> Piece<'_> {
    if from < to && name[from] == b'*' {
        Piece::Wildcard(name, from + 1, to)
    } else {
        Piece::Param(name, from, to)
    }
}

/// The path before the routes of an entity: the parent path or the mount, and the entity's own
/// path.
#[derive(Clone, Copy)]
pub(super) struct Base<'a>(pub(super) &'a str, pub(super) &'a str);

impl Base<'static> {
    pub(super) const fn of(entity: &EntityDesc) -> Self {
        match entity.parent_path {
            Some(parent) => Self(parent, entity.path),
            None => Self("", entity.path),
        }
    }
}

/// Iterates over the entity's path and then over the segments of the route.
pub(super) struct Walk<'a> {
    /// The part of the base that is read now.
    base: &'a [u8],
    /// The second part of the base; empty once it is read.
    second_base: &'a [u8],
    /// The position in `base`.
    at: usize,
    segments: &'a [Seg],
    index: usize,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(base: Base<'a>, segments: &'a [Seg]) -> Self {
        Self {
            base: base.0.as_bytes(),
            second_base: base.1.as_bytes(),
            at: 0,
            segments,
            index: 0,
        }
    }

    pub(super) const fn next(&mut self) -> Piece<'a> {
        if let Some((start, end)) = next_segment(self.base, self.at) {
            self.at = end;
            let (first, last) = (self.base[start], self.base[end - 1]);
            if first == b':' {
                return Piece::Param(self.base, start + 1, end);
            }
            if first == b'{' && last == b'}' {
                return param(self.base, start + 1, end - 1);
            }
            return Piece::Text(self.base, start, end, true);
        }
        if !self.second_base.is_empty() {
            (self.base, self.second_base, self.at) = (self.second_base, &[], 0);
            return self.next();
        }
        if self.index < self.segments.len() {
            let segment = self.segments[self.index];
            self.index += 1;
            return match segment {
                Seg::Lit(text) => Piece::Text(text.as_bytes(), 0, text.len(), false),
                Seg::Param(name) => param(name.as_bytes(), 0, name.len()),
            };
        }
        Piece::End
    }
}

/// Whether two texts are equal after percent-decoding.
pub(super) const fn same_text(a: Span<'_>, b: Span<'_>) -> bool {
    let (a_bytes, a_start, a_end, a_encoded) = a;
    let (b_bytes, b_start, b_end, b_encoded) = b;
    let (mut i, mut j) = (a_start, b_start);
    while i < a_end && j < b_end {
        let (a_byte, next_i) = byte_at(a_bytes, i, a_encoded);
        let (b_byte, next_j) = byte_at(b_bytes, j, b_encoded);
        if a_byte != b_byte {
            return false;
        }
        (i, j) = (next_i, next_j);
    }
    i == a_end && j == b_end
}

/// Whether two routes below two entity paths (with mounts, if these differ) are the same.
pub(super) const fn same(
    a: Base<'_>,
    a_route: &RouteSpec,
    b: Base<'_>,
    b_route: &RouteSpec,
) -> bool {
    if a_route.method as u8 != b_route.method as u8 {
        return false;
    }
    let (mut a, mut b) = (
        Walk::new(a, a_route.segments),
        Walk::new(b, b_route.segments),
    );
    loop {
        match (a.next(), b.next()) {
            (Piece::End, Piece::End) => return true,
            (Piece::Param(..), Piece::Param(..)) | (Piece::Wildcard(..), Piece::Wildcard(..)) => {}
            (
                Piece::Text(a_bytes, a_start, a_end, a_encoded),
                Piece::Text(b_bytes, b_start, b_end, b_encoded),
            ) if same_text(
                (a_bytes, a_start, a_end, a_encoded),
                (b_bytes, b_start, b_end, b_encoded),
            ) => {}
            _ => return false,
        }
    }
}

/// Whether two routes below one path are the same.
pub(super) const fn same_below(a: &RouteSpec, b: &RouteSpec) -> bool {
    if a.method as u8 != b.method as u8 || a.segments.len() != b.segments.len() {
        return false;
    }
    let mut i = 0;
    while i < a.segments.len() {
        let equal = match (a.segments[i], b.segments[i]) {
            (Seg::Lit(x), Seg::Lit(y)) => {
                x.len() == y.len()
                    && same_text(
                        (x.as_bytes(), 0, x.len(), false),
                        (y.as_bytes(), 0, y.len(), false),
                    )
            }
            (Seg::Param(x), Seg::Param(y)) => {
                let both = (
                    param(x.as_bytes(), 0, x.len()),
                    param(y.as_bytes(), 0, y.len()),
                );
                matches!(
                    both,
                    (Piece::Param(..), Piece::Param(..))
                        | (Piece::Wildcard(..), Piece::Wildcard(..))
                )
            }
            _ => false,
        };
        if !equal {
            return false;
        }
        i += 1;
    }
    true
}

/// Returns a number for the first segment of an entity's path. Paths with different numbers have no
/// common route. 0 for paths that begin with a parameter or have no segment; they can have a route
/// in common with any other.
pub(super) const fn beginning(base: Base<'_>) -> u64 {
    let Piece::Text(text, from, to, encoded) = Walk::new(base, &[]).next() else {
        return 0;
    };
    // FNV-1a.
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, from);
    while at < to {
        let (byte, next) = byte_at(text, at, encoded);
        hash = (hash ^ byte as u64).wrapping_mul(0x0100_0000_01b3);
        at = next;
    }
    if hash == 0 { 1 } else { hash }
}

/// Whether two entity paths with these numbers can have a route in common.
pub(super) const fn may_meet(a: u64, b: u64) -> bool {
    a == b || a == 0 || b == 0
}

/// Returns a mount without its leading and trailing slashes.
pub(super) const fn trim_slashes(mount: &str) -> Span<'_> {
    let bytes = mount.as_bytes();
    let (mut from, mut to) = (0, bytes.len());
    while from < to && bytes[from] == b'/' {
        from += 1;
    }
    while to > from && bytes[to - 1] == b'/' {
        to -= 1;
    }
    (bytes, from, to, true)
}
