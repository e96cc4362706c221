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
        /// `--dry-run`: writes nothing.
        dry_run: bool,
    },
    /// `migrate plan`: prints the steps for a database.
    Plan {
        /// `--out`: the file that the plan is written to.
        out: Option<PathBuf>,
        /// `--check`: the exit status is 10 if steps are pending.
        check: bool,
        /// `--sql`: prints the statements of the steps.
        sql: bool,
        /// `--rollback`: prints the steps that undo the newest migration.
        rollback: bool,
    },
    /// `migrate apply`: carries out the plan.
    Apply(ApplyArgs),
    /// `migrate verify`: reports all problems.
    Verify {
        /// `--offline`: reads only the folder of migrations.
        offline: bool,
        /// `--data`: also reads records.
        data: bool,
        /// `--strict`: a warning is an error.
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
        /// `--out`: the file that the snapshot is written to.
        out: Option<PathBuf>,
    },
    /// `schema diff A B`: compares two snapshots.
    SchemaDiff {
        /// The file of the earlier snapshot.
        before: PathBuf,
        /// The file of the later snapshot.
        after: PathBuf,
    },
    /// `--help`, alone or after the name of a command.
    Help {
        /// The words of the command name, such as `migrate` and `plan`.
        words: Vec<String>,
    },
}

impl Command {
    /// The name of the command, such as `migrate plan`.
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
    /// `--plan`: the file of a saved plan. The run is refused if the present plan differs.
    pub plan: Option<PathBuf>,
    /// `--dry-run`: changes nothing.
    pub dry_run: bool,
    /// All other options; `options.phase` is the same as `phase`.
    pub options: Options,
}

/// Options of every command.
#[derive(Clone)]
pub struct Common {
    /// `--store`: the name of the database's store.
    pub store: Option<String>,
    /// `--url`: the database. It may contain a password; in output, use [`shown_url`].
    pub url: Option<String>,
    /// `--dir`: the folder of migrations; `None` without the option.
    pub dir: Option<PathBuf>,
    /// `--schema`: a saved snapshot instead of the declarations.
    pub schema: Option<PathBuf>,
    /// `--json`: one JSON document on standard output.
    pub json: bool,
    /// `--quiet`: no progress and no notes.
    pub quiet: bool,
    /// `--color`: when to use colours.
    pub color: Color,
}

/// The default folder of migrations, next to the `Cargo.toml` of the app.
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
    // A password may contain an unescaped slash or at sign, so everything up to the last at sign is
    // removed.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    format!("{scheme}://{rest}")
}
