//! Refusals: the errors of commands, with a reason and an exit status.

use linchpin_core::schema::{SchemaError, SchemaFault};

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, or nothing to do.
    Done = 0,
    /// An internal error.
    Internal = 1,
    /// Wrong use of the command.
    Usage = 2,
    /// Refused in planning: a rename, a transform, the history, unrecorded changes.
    Planning = 3,
    /// The approval is missing, different or stale, or the rollback is closed.
    Approval = 4,
    /// A precondition, a verification or the data failed, or the tables differ from the ledger.
    Data = 5,
    /// A lock is taken; retry later.
    Busy = 6,
    /// Incomplete: waiting for instances, or interrupted.
    Incomplete = 7,
    /// The database cannot be reached or used.
    Target = 8,
    /// Steps are pending.
    Pending = 10,
    /// A server refused to start.
    Refused = 78,
}

/// A refusal. It lists all problems that the command found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The name of the refusal, such as `rename_source_missing`.
    pub code: &'static str,
    /// The exit status.
    pub exit: Exit,
    /// The message, one sentence.
    pub message: String,
    /// Facts: fields with their source lines, keys of records, steps.
    pub facts: Vec<Fact>,
    /// The action that solves the problem.
    pub help: Option<String>,
}

/// A fact of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The name of the refusal of this fact, if one report combines several refusals; else empty.
    pub code: &'static str,
    /// One line.
    pub text: String,
    /// The source line of the declaration, such as `src/main.rs:12`.
    pub at: Option<String>,
}

impl Refusal {
    /// A refusal without facts.
    pub fn new(code: &'static str, exit: Exit, message: impl Into<String>) -> Self {
        Self {
            code,
            exit,
            message: message.into(),
            facts: Vec::new(),
            help: None,
        }
    }

    /// Sets the help: the action that solves the problem.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn fact(mut self, text: impl Into<String>) -> Self {
        self.facts.push(Fact {
            code: "",
            text: text.into(),
            at: None,
        });
        self
    }

    /// Returns the message, the facts and the help. Each is on a separate line.
    pub fn text(&self) -> String {
        let mut text = self.message.clone();
        for fact in &self.facts {
            text.push_str("\n  ");
            if !fact.code.is_empty() {
                text.push_str(&format!("{}: ", fact.code));
            }
            text.push_str(&fact.text);
            if let Some(at) = &fact.at {
                text.push_str(&format!("  ({at})"));
            }
        }
        if let Some(help) = &self.help {
            text.push_str(&format!("\n  help: {help}"));
        }
        text
    }

    /// Adds a fact with the source line of a declaration.
    #[must_use]
    pub fn fact_at(mut self, text: impl Into<String>, at: impl Into<String>) -> Self {
        self.facts.push(Fact {
            code: "",
            text: text.into(),
            at: Some(at.into()),
        });
        self
    }
}

impl From<SchemaError> for Refusal {
    fn from(error: SchemaError) -> Self {
        let (code, exit) = match error.fault {
            SchemaFault::Unreachable => ("target_unreachable", Exit::Target),
            SchemaFault::Unsupported => ("target_unsupported", Exit::Target),
            SchemaFault::Pooler => ("pooler_unsupported", Exit::Target),
            SchemaFault::Forbidden => ("target_forbidden", Exit::Target),
            SchemaFault::Full => ("disk_full", Exit::Target),
            SchemaFault::LockTimeout => ("lock_timeout", Exit::Busy),
            SchemaFault::LockLost => ("lock_lost", Exit::Busy),
            SchemaFault::Violation => ("constraint_violated", Exit::Data),
            SchemaFault::Drift => ("drift", Exit::Data),
            SchemaFault::Damaged => ("target_damaged", Exit::Target),
            SchemaFault::Other => ("target_error", Exit::Target),
        };
        Self::new(code, exit, error.message)
    }
}
