//! Duplicate routes: one comparison, used by const assertions of `package!` and by start-up.
//!
//! Two routes are one when method and normalised segments are equal: duplicate slashes collapse, static text is compared
//! percent-decoded, every parameter is the same whatever its name, every wildcard too. HEAD shares the key space of GET. A
//! static segment beside a parameter is no duplicate; it wins.

use super::{Method, OpSpec, RouteSpec, Seg};
use crate::entity::{EntityDesc, SourceLine};
use crate::package::{EntityEntry, Package};

/// The five generated routes, in the order of [`EntityDesc::routes`].
const CRUD: [(&str, RouteSpec); 5] = [
    ("create", RouteSpec { method: Method::Post, segments: &[] }),
    ("list", RouteSpec { method: Method::Get, segments: &[] }),
    ("get", RouteSpec { method: Method::Get, segments: ID }),
    ("update", RouteSpec { method: Method::Patch, segments: ID }),
    ("delete", RouteSpec { method: Method::Delete, segments: ID }),
];
const ID: &[Seg] = &[Seg::Param("id")];

/// Something that mounts routes below an entity's path.
#[derive(Clone, Copy)]
enum Declared {
    Crud(usize),
    Operation(&'static OpSpec),
    #[cfg(feature = "server")]
    Extra(&'static crate::http::ExtraRouteSpec),
}

impl Declared {
    const fn at(entry: &EntityEntry, index: usize) -> Option<Self> {
        if index < CRUD.len() {
            return Some(Self::Crud(index));
        }
        let index = index - CRUD.len();
        if index < entry.operations.len() {
            return Some(Self::Operation(entry.operations[index]));
        }
        #[cfg(feature = "server")]
        if index - entry.operations.len() < entry.routes.len() {
            return Some(Self::Extra(&entry.routes[index - entry.operations.len()]));
        }
        None
    }

    /// Its route at a position; a disabled one mounts none.
    const fn route(self, entity: &EntityDesc, index: usize) -> Option<RouteSpec> {
        match self {
            Self::Crud(crud) if index == 0 && !entity.routes[crud].disabled => Some(CRUD[crud].1),
            Self::Operation(spec) if index < spec.routes.len() && !spec.policy.disabled => Some(spec.routes[index]),
            #[cfg(feature = "server")]
            Self::Extra(spec) if index == 0 && !spec.policy.disabled => Some(spec.route),
            _ => None,
        }
    }

    const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Crud(crud) => ("generated ", CRUD[crud].0),
            Self::Operation(spec) => ("operation ", spec.name),
            #[cfg(feature = "server")]
            Self::Extra(spec) => ("extra route ", spec.name),
        }
    }

    const fn line(self, entity: &EntityDesc) -> SourceLine {
        match self {
            Self::Crud(_) => entity.at,
            Self::Operation(spec) => spec.at,
            #[cfg(feature = "server")]
            Self::Extra(spec) => spec.at,
        }
    }
}

// -- comparison ------------------------------------------------------------------------------------------------------------

/// The bytes of the segment of `path` that starts at `from` (slashes skipped), and where it ends; `None` behind the last.
const fn next_segment(path: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut start = from;
    while start < path.len() && path[start] == b'/' {
        start += 1;
    }
    let mut end = start;
    while end < path.len() && path[end] != b'/' {
        end += 1;
    }
    if start == end { None } else { Some((start, end)) }
}

const fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// The byte at `at` percent-decoded, and where the next begins.
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
enum Piece<'a> {
    /// Text between two positions; `true` when it is percent-encoded.
    Text(&'a [u8], usize, usize, bool),
    Param,
    Wildcard,
    End,
}

const fn param(name: &[u8]) -> Piece<'static> {
    if !name.is_empty() && name[0] == b'*' { Piece::Wildcard } else { Piece::Param }
}

/// What stands before the routes of an entity: the parent path or the mount, and the entity's own.
#[derive(Clone, Copy)]
struct Base<'a>(&'a str, &'a str);

impl Base<'static> {
    const fn of(entity: &EntityDesc) -> Self {
        match entity.parent_path {
            Some(parent) => Self(parent, entity.path),
            None => Self("", entity.path),
        }
    }
}

/// Walks the entity's path, then the segments of the route.
struct Walk<'a> {
    base: &'a [u8],
    then: &'a [u8],
    at: usize,
    segments: &'a [Seg],
    index: usize,
}

impl<'a> Walk<'a> {
    const fn new(base: Base<'a>, segments: &'a [Seg]) -> Self {
        Self { base: base.0.as_bytes(), then: base.1.as_bytes(), at: 0, segments, index: 0 }
    }

    const fn next(&mut self) -> Piece<'a> {
        if let Some((start, end)) = next_segment(self.base, self.at) {
            self.at = end;
            let (first, last) = (self.base[start], self.base[end - 1]);
            if first == b':' {
                return Piece::Param;
            }
            if first == b'{' && last == b'}' {
                return if end - start > 1 && self.base[start + 1] == b'*' { Piece::Wildcard } else { Piece::Param };
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
                Seg::Param(name) => param(name.as_bytes()),
            };
        }
        Piece::End
    }
}

const fn same_text(a: (&[u8], usize, usize, bool), b: (&[u8], usize, usize, bool)) -> bool {
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

/// Whether two routes below two entity paths (mounts included, when they differ) are one.
const fn same(a: Base<'_>, a_route: &RouteSpec, b: Base<'_>, b_route: &RouteSpec) -> bool {
    if a_route.method as u8 != b_route.method as u8 {
        return false;
    }
    let (mut a, mut b) = (Walk::new(a, a_route.segments), Walk::new(b, b_route.segments));
    loop {
        match (a.next(), b.next()) {
            (Piece::End, Piece::End) => return true,
            (Piece::Param, Piece::Param) | (Piece::Wildcard, Piece::Wildcard) => {}
            (Piece::Text(x, i, j, k), Piece::Text(y, l, m, n)) if same_text((x, i, j, k), (y, l, m, n)) => {}
            _ => return false,
        }
    }
}

/// Whether two entity paths can have a route in common: their first segments are equal, or one has none.
const fn may_meet(a: Base<'_>, b: Base<'_>) -> bool {
    match (Walk::new(a, &[]).next(), Walk::new(b, &[]).next()) {
        (Piece::Text(x, i, j, k), Piece::Text(y, l, m, n)) => same_text((x, i, j, k), (y, l, m, n)),
        _ => true,
    }
}

// -- at compile time -------------------------------------------------------------------------------------------------------

/// A sentence put together in const code, where nothing allocates.
struct Sentence {
    bytes: [u8; 512],
    len: usize,
}

impl Sentence {
    const fn push(&mut self, text: &str) {
        self.push_bytes(text.as_bytes(), 0, text.len());
    }

    const fn push_bytes(&mut self, bytes: &[u8], from: usize, to: usize) {
        let mut i = from;
        while i < to && self.len < self.bytes.len() {
            self.bytes[self.len] = bytes[i];
            self.len += 1;
            i += 1;
        }
    }

    const fn push_route(&mut self, base: Base<'_>, route: &RouteSpec) {
        self.push(route.method.as_str());
        self.push(" ");
        let mut walk = Walk::new(base, route.segments);
        let mut empty = true;
        loop {
            let piece = walk.next();
            if !matches!(piece, Piece::End) {
                self.push("/");
                empty = false;
            }
            match piece {
                Piece::Text(text, from, to, _) => self.push_bytes(text, from, to),
                Piece::Param => self.push("{}"),
                Piece::Wildcard => self.push("{*}"),
                Piece::End => break,
            }
        }
        if empty {
            self.push("/");
        }
    }

    /// `generated get of Post`, `operation by_slug`; operations with their entity when two are involved.
    const fn push_declared(&mut self, declared: (&str, Declared), across: bool) {
        let (kind, name) = declared.1.name();
        self.push(kind);
        self.push(name);
        if across || matches!(declared.1, Declared::Crud(_)) {
            self.push(" of ");
            self.push(declared.0);
        }
    }

    const fn stop(&self) -> ! {
        let (text, _) = self.bytes.split_at(self.len);
        match std::str::from_utf8(text) {
            Ok(text) => panic!("{}", text),
            // Cut off within a character.
            Err(_) => panic!("duplicate route"),
        }
    }
}

const fn stop(base: Base<'_>, route: &RouteSpec, first: (&str, Declared), second: (&str, Declared)) -> ! {
    let mut text = Sentence { bytes: [0; 512], len: 0 };
    text.push("duplicate route ");
    text.push_route(base, route);
    text.push(": ");
    let across = !same_text(whole(first.0), whole(second.0));
    text.push_declared(first, across);
    text.push(" and ");
    text.push_declared(second, across);
    text.stop()
}

/// Stops the build when a route of declaration `index` of `entry` (0–4 CRUD, then operations, then extra routes) is also one
/// of an earlier declaration of the entity.
pub const fn assert_unique(entry: &EntityEntry, index: usize) {
    let Some(second) = Declared::at(entry, index) else { return };
    let mut r = 0;
    while let Some(route) = second.route(entry.desc, r) {
        let mut i = 0;
        while i < index
            && let Some(first) = Declared::at(entry, i)
        {
            let mut s = 0;
            while let Some(other) = first.route(entry.desc, s) {
                if same(Base("", ""), &other, Base("", ""), &route) {
                    stop(Base::of(entry.desc), &route, (entry.desc.name, first), (entry.desc.name, second));
                }
                s += 1;
            }
            i += 1;
        }
        r += 1;
    }
}

/// The first pair of declarations of two entities that have a route in common.
const fn clash(a: (Base<'_>, &EntityEntry), b: (Base<'_>, &EntityEntry)) -> Option<(RouteSpec, Declared, Declared)> {
    let mut i = 0;
    while let Some(first) = Declared::at(a.1, i) {
        let mut r = 0;
        while let Some(route) = first.route(a.1.desc, r) {
            let mut j = 0;
            while let Some(second) = Declared::at(b.1, j) {
                let mut s = 0;
                while let Some(other) = second.route(b.1.desc, s) {
                    if same(a.0, &route, b.0, &other) {
                        return Some((other, first, second));
                    }
                    s += 1;
                }
                j += 1;
            }
            r += 1;
        }
        i += 1;
    }
    None
}

/// Stops the build when entity `index` of a package has a route in common with an earlier one.
pub const fn assert_apart(entities: &[EntityEntry], index: usize) {
    let second = &entities[index];
    let mut i = 0;
    while i < index {
        let first = &entities[i];
        if may_meet(Base::of(first.desc), Base::of(second.desc))
            && let Some((route, one, other)) = clash((Base::of(first.desc), first), (Base::of(second.desc), second))
        {
            stop(Base::of(second.desc), &route, (first.desc.name, one), (second.desc.name, other));
        }
        i += 1;
    }
}

/// Stops the build when two packages with one mount have a route in common. For packages an application lists statically:
///
/// ```text
/// const _: () = linchpin::operation::assert_distinct_routes(&[&BLOG, &NEWS]);
/// ```
///
/// Start-up makes the same comparison for all packages, with their mounts.
pub const fn assert_distinct_routes(packages: &[&Package]) {
    let mut p = 0;
    while p < packages.len() {
        let mut q = 0;
        while q < p {
            if same_text(whole(packages[q].mount), whole(packages[p].mount)) {
                assert_packages_apart(packages[q], packages[p]);
            }
            q += 1;
        }
        p += 1;
    }
}

/// A mount without its slashes at both ends.
const fn whole(mount: &str) -> (&[u8], usize, usize, bool) {
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

const fn assert_packages_apart(a: &Package, b: &Package) {
    let mut i = 0;
    while i < a.entities.len() {
        let mut j = 0;
        while j < b.entities.len() {
            let (first, second) = (&a.entities[i], &b.entities[j]);
            if may_meet(Base::of(first.desc), Base::of(second.desc))
                && let Some((route, _, _)) = clash((Base::of(first.desc), first), (Base::of(second.desc), second))
            {
                let mut text = Sentence { bytes: [0; 512], len: 0 };
                text.push("duplicate route ");
                text.push_route(Base::of(second.desc), &route);
                text.push(" in packages `");
                text.push(a.name);
                text.push("` and `");
                text.push(b.name);
                text.push("`");
                text.stop();
            }
            j += 1;
        }
        i += 1;
    }
}

// -- at start-up -----------------------------------------------------------------------------------------------------------

/// Every duplicate among the routes of these packages, as sentences with both places in the source.
pub fn find_duplicates(packages: &[&Package]) -> Vec<String> {
    let mut seen: Vec<((String, &str), RouteSpec, &EntityEntry, Declared)> = Vec::new();
    let mut found = Vec::new();
    for package in packages {
        for entry in package.entities {
            let base = format!("{}/{}", package.mount, entry.desc.parent_path.unwrap_or_default());
            let base = (base, entry.desc.path);
            for declared in (0..).map_while(|i| Declared::at(entry, i)) {
                for route in (0..).map_while(|r| declared.route(entry.desc, r)) {
                    let first = seen.iter().find(|(other, taken, ..)| same(Base(&other.0, other.1), taken, Base(&base.0, base.1), &route));
                    match first {
                        Some((_, _, other, first)) => {
                            found.push(sentence(Base(&base.0, base.1), &route, (other, *first), (entry, declared)));
                        }
                        None => seen.push((base.clone(), route, entry, declared)),
                    }
                }
            }
        }
    }
    found
}

fn sentence(base: Base<'_>, route: &RouteSpec, first: (&EntityEntry, Declared), second: (&EntityEntry, Declared)) -> String {
    let mut text = Sentence { bytes: [0; 512], len: 0 };
    text.push_route(base, route);
    let route = String::from_utf8_lossy(&text.bytes[..text.len]).into_owned();
    let describe = |(entry, declared): (&EntityEntry, Declared)| {
        let ((kind, name), at) = (declared.name(), declared.line(entry.desc));
        let of = if matches!(declared, Declared::Crud(_)) { format!(" of {}", entry.desc.name) } else { String::new() };
        format!("{kind}{name}{of} ({}:{})", at.file, at.line)
    };
    let help = match first.1 {
        Declared::Crud(crud) => format!("; use overrides.{} to replace the generated one", CRUD[crud].0),
        _ => String::new(),
    };
    format!("duplicate route {route}: {} and {}{help}", describe(first), describe(second))
}

#[cfg(test)]
#[path = "duplicates_tests.rs"]
mod tests;
