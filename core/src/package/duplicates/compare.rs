//! Compares two routes.

use crate::entity::EntityDesc;
use crate::operation::{RouteSpec, Seg};

/// Returns the bytes of the segment of `path` that starts at `from` (slashes skipped), and its end.
/// `None` after the last segment.
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

/// Returns the percent-decoded byte at `at`, and the position of the next byte.
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

/// One segment of a whole route.
#[derive(Clone, Copy)]
pub(super) enum Piece<'a> {
    /// Text between two positions; `true` when it is percent-encoded.
    Text(&'a [u8], usize, usize, bool),
    /// A parameter or wildcard, with the positions of its name.
    Param(&'a [u8], usize, usize),
    Wildcard(&'a [u8], usize, usize),
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
    base: &'a [u8],
    then: &'a [u8],
    at: usize,
    segments: &'a [Seg],
    index: usize,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(base: Base<'a>, segments: &'a [Seg]) -> Self {
        Self {
            base: base.0.as_bytes(),
            then: base.1.as_bytes(),
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
        if !self.then.is_empty() {
            (self.base, self.then, self.at) = (self.then, &[], 0);
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

pub(super) const fn same_text(
    a: (&[u8], usize, usize, bool),
    b: (&[u8], usize, usize, bool),
) -> bool {
    let (mut i, mut j) = (a.1, b.1);
    while i < a.2 && j < b.2 {
        let (x, next_i) = byte_at(a.0, i, a.3);
        let (y, next_j) = byte_at(b.0, j, b.3);
        if x != y {
            return false;
        }
        (i, j) = (next_i, next_j);
    }
    i == a.2 && j == b.2
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
            (Piece::Text(x, i, j, k), Piece::Text(y, l, m, n))
                if same_text((x, i, j, k), (y, l, m, n)) => {}
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
        let one = match (a.segments[i], b.segments[i]) {
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
        if !one {
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
pub(super) const fn whole(mount: &str) -> (&[u8], usize, usize, bool) {
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
