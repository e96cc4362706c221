//! The commands, as data.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::apply::Options;
use crate::step::Phase;

/// A command with its common options.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The command.
    pub command: Command,
    /// The common options.
    pub common: Common,
}

/// A command of `migrate` or `schema`.
#[derive(Clone, Debug)]
pub enum Command {
    /// `migrate record NAME`: writes the next migration.
    Record {
        /// The name of the migration.
        name: String,
        /// Whether to write nothing.
        dry_run: bool,
    },
    /// `migrate plan`: prints the steps for a database.
    Plan {
        /// The file for the plan.
        out: Option<PathBuf>,
        /// Whether pending steps are an exit status of their own.
        check: bool,
        /// Whether to print statements.
        sql: bool,
        /// Whether to print the steps that undo the newest migration.
        rollback: bool,
    },
    /// `migrate apply`: carries out the plan.
    Apply(ApplyArgs),
    /// `migrate verify`: reports everything that is wrong.
    Verify {
        /// Whether to read only the folder of migrations.
        offline: bool,
        /// Whether to read records.
        data: bool,
        /// Whether a warning is an error.
        strict: bool,
    },
    /// `migrate status`: prints the state of a database.
    Status,
    /// `migrate adopt`: takes over a database without a ledger.
    Adopt(ApplyArgs),
    /// `migrate restore SEQ`: writes the file of a migration from the ledger.
    Restore {
        /// The number of the migration.
        seq: u64,
    },
    /// `migrate rebase NAME`: records a migration again, after all others.
    Rebase {
        /// The name of the migration.
        name: String,
    },
    /// `migrate squash --until SEQ`: replaces migrations by a baseline.
    Squash {
        /// The number of the last migration that the baseline replaces.
        until: u64,
    },
    /// `migrate rollback`: undoes the newest migration.
    Rollback(ApplyArgs),
    /// `schema print`: prints the declared snapshot.
    SchemaPrint {
        /// The file for the snapshot.
        out: Option<PathBuf>,
    },
    /// `schema diff A B`: compares two snapshots.
    SchemaDiff {
        /// The file of the earlier snapshot.
        before: PathBuf,
        /// The file of the later snapshot.
        after: PathBuf,
    },
    /// `--help`, also after the words of a command.
    Help {
        /// The words of the command.
        words: Vec<String>,
    },
}

impl Command {
    /// The words of the command: `migrate plan`.
    pub const fn words(&self) -> &'static str {
        match self {
            Self::Record { .. } => "migrate record",
            Self::Plan { .. } => "migrate plan",
            Self::Apply(_) => "migrate apply",
            Self::Verify { .. } => "migrate verify",
            Self::Status => "migrate status",
            Self::Adopt(_) => "migrate adopt",
            Self::Restore { .. } => "migrate restore",
            Self::Rebase { .. } => "migrate rebase",
            Self::Squash { .. } => "migrate squash",
            Self::Rollback(_) => "migrate rollback",
            Self::SchemaPrint { .. } => "schema print",
            Self::SchemaDiff { .. } => "schema diff",
            Self::Help { .. } => "help",
        }
    }
}

/// The options of commands that change a database.
#[derive(Clone, Debug)]
pub struct ApplyArgs {
    /// `--phase`: the only phase of the run; earlier phases must be done. `None` runs all.
    pub phase: Option<Phase>,
    /// `--plan`: a saved plan that must equal the present one.
    pub plan: Option<PathBuf>,
    /// `--dry-run`: changes nothing.
    pub dry_run: bool,
    /// All other options. The last phase of the run follows from `phase`.
    pub options: Options,
}

/// Options of every command.
#[derive(Clone)]
pub struct Common {
    /// `--store`: the name of the database's store.
    pub store: Option<String>,
    /// `--url`: the database. It may contain a password; print [`shown_url`].
    pub url: Option<String>,
    /// `--dir`: the folder of migrations; `None` without the option.
    pub dir: Option<PathBuf>,
    /// `--schema`: a saved snapshot instead of the declarations.
    pub schema: Option<PathBuf>,
    /// `--json`: one JSON document on standard output.
    pub json: bool,
    /// `--quiet`: no progress and no notes.
    pub quiet: bool,
    /// `--color`.
    pub color: Color,
}

/// The folder of migrations, beside the manifest of the app.
pub const FOLDER: &str = "migrations";

impl Common {
    /// The folder of migrations: `migrations` unless `--dir` names another.
    pub fn folder(&self) -> &Path {
        self.dir.as_deref().unwrap_or(Path::new(FOLDER))
    }
}

// The URL may contain a password.
impl fmt::Debug for Common {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Common")
            .field("store", &self.store)
            .field("url", &self.url.as_deref().map(shown_url))
            .field("dir", &self.dir)
            .field("schema", &self.schema)
            .field("json", &self.json)
            .field("quiet", &self.quiet)
            .field("color", &self.color)
            .finish()
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// If standard error is a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Returns a URL without user, password and query.
///
/// ```
/// use linchpin_migrate::cli::shown_url;
///
/// let url = "postgres://tasks:s3cr%40t@db.example:5432/tasks?sslmode=require";
/// assert_eq!(shown_url(url), "postgres://db.example:5432/tasks");
/// assert_eq!(shown_url("sqlite:data/tasks.db"), "sqlite:data/tasks.db");
/// ```
pub fn shown_url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    // A password may contain an unescaped slash or at sign, so everything up to the last at sign
    // goes.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    format!("{scheme}://{rest}")
}
