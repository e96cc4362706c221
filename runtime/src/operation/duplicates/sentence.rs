//! The sentence of a duplicate route.

use super::Declared;
use super::compare::{Base, Piece, Walk, same_text, whole};
use crate::operation::RouteSpec;

/// A sentence put together in const code, where nothing allocates.
pub(crate) struct Sentence {
    bytes: [u8; 512],
    len: usize,
}

impl Sentence {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; 512], len: 0 }
    }

    /// What has been written so far, as far as it is text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..self.len]).into_owned()
    }

    pub(crate) const fn push(&mut self, text: &str) {
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

    pub(super) const fn push_route(&mut self, base: Base<'_>, route: &RouteSpec) {
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

    #[track_caller]
    pub(crate) const fn stop(&self) -> ! {
        let (text, _) = self.bytes.split_at(self.len);
        match std::str::from_utf8(text) {
            Ok(text) => panic!("{}", text),
            // Cut off within a character.
            Err(_) => panic!("duplicate route"),
        }
    }
}

pub(super) const fn stop(base: Base<'_>, route: &RouteSpec, first: (&str, Declared), second: (&str, Declared)) -> ! {
    let mut text = Sentence::new();
    text.push("duplicate route ");
    text.push_route(base, route);
    text.push(": ");
    let across = !same_text(whole(first.0), whole(second.0));
    text.push_declared(first, across);
    text.push(" and ");
    text.push_declared(second, across);
    text.stop()
}
