//! The recorded migrations of an app, as its binary contains them.

use crate::entity::{SourceLine, TransformDesc};

/// The migrations of an app, as `migrations!` embeds them.
///
/// The texts have the form of JSON files and the members of their format. Digests and the order of
/// the migrations are not checked yet.
#[derive(Debug, Clone, Copy)]
pub struct Chain {
    /// The text of `chain.json`; empty if the app has no migrations.
    pub chain: &'static str,
    /// The files that `chain.json` lists: name and text.
    pub files: &'static [(&'static str, &'static str)],
    /// The transforms of migrations whose fields do not name them any more.
    pub transforms: &'static [&'static TransformDesc],
    /// The source location of `migrations!`.
    pub at: SourceLine,
}

impl Chain {
    /// No migrations.
    pub const EMPTY: Self = Self {
        chain: "",
        files: &[],
        transforms: &[],
        at: SourceLine { file: "", line: 1 },
    };
}
