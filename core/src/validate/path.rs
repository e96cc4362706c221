//! The position of a value in a body. It becomes text only for an error message.

use std::fmt;

use crate::Problem;

/// The maximum number of reported problems for one body, because a hostile body could have one per
/// byte.
pub const MOST: usize = 100;

/// A position in a body.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path<'a> {
    /// A text that is used unchanged.
    Root(&'a str),
    /// An element of a list.
    Index(&'a Path<'a>, usize),
    /// A member of an object.
    Member(&'a Path<'a>, &'a str),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(text) => f.write_str(text),
            Self::Index(list, index) => write!(f, "{list}[{index}]"),
            Self::Member(Self::Root(""), name) => f.write_str(name),
            Self::Member(object, name) => write!(f, "{object}.{name}"),
        }
    }
}

impl Path<'_> {
    /// Returns the elements of this list that already have problems.
    pub(super) fn reported(&self, problems: &[Problem]) -> Vec<usize> {
        if problems.is_empty() {
            return Vec::new();
        }
        let list = self.to_string();
        let element = |p: &Problem| {
            p.path
                .strip_prefix(&list)?
                .strip_prefix('[')?
                .strip_suffix(']')?
                .parse()
                .ok()
        };
        problems.iter().filter_map(element).collect()
    }

    /// Adds a problem at this position.
    pub(super) fn report(
        &self,
        problems: &mut Vec<Problem>,
        code: &'static str,
        message: impl Into<String>,
    ) {
        if problems.len() < MOST {
            problems.push(Problem::new(self.to_string(), code, message));
        }
    }
}
