//! The recorded migrations of an app, as its binary contains them.

use crate::entity::{SourceLine, TransformDesc};

/// The migrations of an app, as `migrations!` embeds them.
///
/// `migrations!` has checked that the texts are JSON with the members of their format. It has not
/// checked the digests and the order of the migrations.
#[derive(Debug, Clone, Copy)]
pub struct Chain {
    /// The text of `chain.json`; empty if the app has no migrations.
    pub chain: &'static str,
    /// The files that `chain.json` lists: name and text.
    pub files: &'static [(&'static str, &'static str)],
    /// The transforms that recorded migrations name, but no field does any more.
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
