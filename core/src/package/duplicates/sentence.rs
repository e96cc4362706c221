//! The error message for a duplicate route.

use super::Declared;
use super::compare::{Base, Piece, Walk};
use crate::operation::RouteSpec;

/// A text of at most 1024 bytes that const code builds without allocation; the rest is cut off.
pub struct Sentence {
    bytes: [u8; 1024],
    len: usize,
}

impl Sentence {
    #[doc(hidden)]
    pub const fn new() -> Self {
        Self {
            bytes: [0; 1024],
            len: 0,
        }
    }

    /// Returns the text so far. A character that the end of the buffer cuts off is replaced.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..self.len]).into_owned()
    }

    #[doc(hidden)]
    pub const fn push(&mut self, text: &str) {
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

    const fn push_name(&mut self, before: &str, name: &[u8], from: usize, to: usize) {
        self.push(before);
        self.push_bytes(name, from, to);
        self.push("}");
    }

    /// `GET /posts/{id}`
    pub(super) const fn push_route(&mut self, base: Base<'_>, route: &RouteSpec) {
        self.push(route.method.as_str());
        self.push(" ");
        self.push_path(base, route);
    }

    /// `/posts/{id}`
    pub(super) const fn push_path(&mut self, base: Base<'_>, route: &RouteSpec) {
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
                Piece::Param(name, from, to) => self.push_name("{", name, from, to),
                Piece::Wildcard(name, from, to) => self.push_name("{*", name, from, to),
                Piece::End => break,
            }
        }
        if empty {
            self.push("/");
        }
    }

    /// `generated get of Post at /posts/{id}`
    pub(super) const fn push_mounted(&mut self, one: &Mounted<'_>) {
        let (kind, name) = one.declared.name();
        self.push(kind);
        self.push(name);
        self.push(" of ");
        self.push(one.entity);
        self.push(" at ");
        self.push_path(one.base, one.route);
    }

    /// Adds the fix: the entity or the declaration that needs another path.
    pub(super) const fn push_help(&mut self, first: &Mounted<'_>, second: &Mounted<'_>) {
        self.push("\nhelp: ");
        match second.declared {
            Declared::Crud(_) => self.push("use another `path = \"..\"` on "),
            Declared::Operation(_) => self.push("set another path with `route(path = \"..\")` on "),
            Declared::Extra(_) => self.push("use another `path` in the `#[route]` of "),
        }
        let generated = matches!(second.declared, Declared::Crud(_));
        self.push(if generated {
            second.entity
        } else {
            second.declared.name().1
        });
        if let (Declared::Crud(_), false) = (first.declared, generated) {
            self.push("; or, to replace the generated route, write `routes(");
            self.push(first.declared.name().1);
            self.push("(disabled))` on ");
            self.push(first.entity);
            self.push(" or an override");
        }
    }

    /// Fails to compile with the text.
    #[track_caller]
    #[doc(hidden)]
    pub const fn stop(&self) -> ! {
        let (text, _) = self.bytes.split_at(self.len);
        match std::str::from_utf8(text) {
            Ok(text) => panic!("{}", text),
            // The buffer ends inside a character.
            Err(_) => panic!("linchpin: the text of a message is too long"),
        }
    }
}

/// A route with the declaration that mounts it.
pub(super) struct Mounted<'a> {
    pub(super) entity: &'a str,
    pub(super) declared: Declared,
    pub(super) base: Base<'a>,
    pub(super) route: &'a RouteSpec,
}

/// Fails to compile with the message for two declarations of the same route.
pub(super) const fn stop(first: &Mounted<'_>, second: &Mounted<'_>) -> ! {
    let mut text = Sentence::new();
    text.push("linchpin: duplicate route ");
    text.push_route(second.base, second.route);
    text.push(": ");
    text.push_mounted(first);
    text.push(" and ");
    text.push_mounted(second);
    text.push_help(first, second);
    text.stop()
}
