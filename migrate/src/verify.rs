//! The remarks of `migrate verify`. It reports all of them, not only the first one.

use serde::Serialize;

use crate::canonical::digest_of;
use crate::chain::{Chain, Files, order_problems};
use crate::error::{Exit, Fact, Refusal};
use crate::record::Declarations;

/// One result of `migrate verify`. The JSON output lists it in `findings`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remark {
    /// The name, such as `digest_mismatch`.
    pub code: &'static str,
    /// Whether the remark makes the verification fail.
    pub severity: Severity,
    /// The message, one sentence.
    pub message: String,
    /// The storage name of the entity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// The column, index, check or file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The expected value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The value that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The action that solves the problem.
    pub help: String,
}

/// The severity of a remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// For information.
    Info,
    /// An error only with `--strict`.
    Warning,
    /// The verification fails.
    Error,
}

impl Severity {
    /// The name, such as `error`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Remark {
    /// A remark without details.
    pub fn new(
        code: &'static str,
        severity: Severity,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self {
            code,
            severity,
            message: message.into(),
            entity: None,
            object: None,
            expected: None,
            found: None,
            help: help.into(),
        }
    }
}

/// Returns the exit status of a verification. With `strict` a warning is an error.
pub fn exit_status(remarks: &[Remark], strict: bool) -> Exit {
    let limit = if strict {
        Severity::Warning
    } else {
        Severity::Error
    };
    if remarks.iter().any(|remark| remark.severity >= limit) {
        Exit::Data
    } else {
        Exit::Done
    }
}

/// Verifies the files of a chain against their digests, their order, and the declarations, if
/// these are known. Returns the remarks, and the chain if it is complete.
pub(crate) fn verify_files(
    (files, problems): (Files, Vec<Refusal>),
    declared: Option<Declarations<'_>>,
) -> (Vec<Remark>, Option<Chain>) {
    let mut remarks: Vec<Remark> = Vec::new();
    for refusal in problems {
        // The facts of a digest mismatch are "recorded: sha256 .." and "found: sha256 ..".
        let value = |text: &str| {
            text.rsplit(": ")
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let mut facts = refusal.facts.iter().map(|fact| value(&fact.text));
        remarks.push(Remark {
            expected: facts.next(),
            found: facts.next(),
            ..Remark::new(
                refusal.code,
                Severity::Error,
                refusal.message.clone(),
                refusal.help.unwrap_or_default(),
            )
        });
    }
    for file in &files.leftovers {
        remarks.push(Remark {
            object: Some(file.clone()),
            ..Remark::new(
                "leftover_file",
                Severity::Info,
                format!("`{file}` is not listed in `chain.json`"),
                "remove the file if it is no longer needed",
            )
        });
    }
    let migrations: Vec<_> = files.migrations.iter().map(|(_, m)| m.clone()).collect();
    // A missing file also breaks the order of the chain, but it is already reported.
    let damaged = remarks
        .iter()
        .any(|remark| remark.severity == Severity::Error);
    if !damaged {
        for Fact { code, text, .. } in order_problems(&migrations) {
            let help = if code == "history_forked" {
                "run `migrate rebase NAME` with the migration that no database has; it is recorded again \
                 after the other migration"
            } else {
                "restore the folder of migrations from version control"
            };
            remarks.push(Remark::new(code, Severity::Error, text, help));
        }
    }
    let Ok(chain) = Chain::new(migrations) else {
        return (remarks, None);
    };
    if damaged {
        return (remarks, None);
    }
    if let Some(declared) = declared {
        remarks.extend(unrecorded_changes(&chain, declared));
    }
    (remarks, Some(chain))
}

/// Compares the declarations with the head of a chain.
pub(crate) fn unrecorded_changes(chain: &Chain, declared: Declarations<'_>) -> Option<Remark> {
    let help = "`migrate record NAME` writes the next migration";
    match declared.diff(chain) {
        Err(refusal) => {
            let facts = refusal.facts.iter().map(|fact| fact.text.clone());
            let found: Vec<String> = facts.collect();
            Some(Remark {
                found: Some(found.join("; ")),
                ..Remark::new(
                    "unrecorded_changes",
                    Severity::Error,
                    format!("the declarations cannot be recorded: {}", refusal.message),
                    refusal.help.unwrap_or_default(),
                )
            })
        }
        Ok(diff) => {
            let expected = chain.head().map(|head| head.snapshot_digest.clone());
            let found = digest_of(&diff.snapshot);
            let equal = expected.as_ref() == Some(&found)
                || (expected.is_none() && diff.snapshot.entities.is_empty());
            (!equal).then(|| {
                let changes: Vec<String> = diff.changes.iter().map(ToString::to_string).collect();
                let changes = if changes.is_empty() {
                    "changes that do not alter the database".to_owned()
                } else {
                    changes.join(", ")
                };
                Remark {
                    expected: Some(expected.map_or_else(
                        || "no migration".to_owned(),
                        |digest| format!("sha256 {digest}"),
                    )),
                    found: Some(format!("sha256 {found}")),
                    ..Remark::new(
                        "unrecorded_changes",
                        Severity::Error,
                        format!("the declarations differ from the head of the chain: {changes}"),
                        help,
                    )
                }
            })
        }
    }
}
