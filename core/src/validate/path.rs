//! Where a value stands in a body; becomes text only when there is a problem to report.

use std::fmt;

use crate::Problem;

/// Most problems reported for one body: a hostile one could have as many as it has bytes.
pub const MOST: usize = 100;

/// A place in a body.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path<'a> {
    /// Text as it stands.
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
    /// The elements of the list here that problems are known of.
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

    /// Adds a problem here.
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
