//! The commands of the command line, with their arguments and options, and the text of `--help`.

/// An option of a command.
pub(super) struct Opt {
    /// The name, such as `--dry-run`.
    pub(super) name: &'static str,
    /// The name of its value; empty for an option without a value.
    pub(super) value: &'static str,
    /// Its description in `--help`.
    pub(super) about: &'static str,
}

/// A command.
pub(super) struct Spec {
    /// The words of its name, such as `["migrate", "plan"]`.
    pub(super) words: [&'static str; 2],
    /// The names of its arguments.
    pub(super) arguments: &'static [&'static str],
    /// The names of its options, without those of every command.
    pub(super) options: &'static [&'static str],
    /// Its description in `--help`.
    pub(super) about: &'static str,
}

const fn opt(name: &'static str, value: &'static str, about: &'static str) -> Opt {
    Opt { name, value, about }
}

/// All options.
pub(super) const OPTIONS: &[Opt] = &[
    opt("--dry-run", "", "shows what would be done"),
    opt("--out", "FILE", "writes the document to a file"),
    opt("--check", "", "exit status 10 if steps are pending"),
    opt("--sql", "", "prints the SQL statements, only to read them"),
    opt(
        "--rollback",
        "",
        "prints the steps that undo the newest migration",
    ),
    opt(
        "--phase",
        "PHASE",
        "expand, backfill or contract; without it, all",
    ),
    opt(
        "--approve",
        "DIGEST",
        "the approval digest that `migrate plan` prints",
    ),
    opt(
        "--plan",
        "FILE",
        "a saved plan; refused if the present plan differs",
    ),
    opt(
        "--batch",
        "ROWS",
        "rows of the first batch, 1 to 10000 (1000)",
    ),
    opt(
        "--duty",
        "SHARE",
        "share of time for batches, more than 0 and at most 1 (0.5)",
    ),
    opt("--max-rate", "ROWS", "maximum number of rows per second"),
    opt(
        "--lock-timeout",
        "TIME",
        "maximum wait of a statement for a lock (default 2s)",
    ),
    opt(
        "--lock-wait",
        "TIME",
        "maximum wait for another run of migrations (default 30s)",
    ),
    opt(
        "--index-wait",
        "TIME",
        "maximum wait of an index build for old transactions (default 10m)",
    ),
    opt(
        "--wait",
        "TIME",
        "maximum wait for instances of older binaries (default 0s)",
    ),
    opt("--max-steps", "COUNT", "maximum number of steps"),
    opt(
        "--no-backup",
        "",
        "no copy of a SQLite file before approved steps",
    ),
    opt("--offline", "", "reads only the folder of migrations"),
    opt("--data", "", "reads records too"),
    opt("--strict", "", "treats warnings as errors"),
    opt("--until", "SEQ", "the last migration of the baseline"),
    opt("--store", "NAME", "the store, if several are configured"),
    opt("--url", "URL", "the database"),
    opt("--dir", "DIR", "the folder of migrations (migrations)"),
    opt(
        "--schema",
        "FILE",
        "a saved snapshot instead of the declarations",
    ),
    opt("--json", "", "one JSON document on standard output"),
    opt("--quiet", "", "no progress and no notes"),
    opt("--color", "WHEN", "auto, always or never"),
    opt("--help", "", "prints this"),
];

/// The options of every command.
pub(super) const COMMON: &[&str] = &[
    "--store", "--url", "--dir", "--schema", "--json", "--quiet", "--color", "--help",
];

const fn spec(
    words: [&'static str; 2],
    arguments: &'static [&'static str],
    options: &'static [&'static str],
    about: &'static str,
) -> Spec {
    Spec {
        words,
        arguments,
        options,
        about,
    }
}

/// All commands.
pub(super) const COMMANDS: &[Spec] = &[
    spec(
        ["migrate", "record"],
        &["NAME"],
        &["--dry-run"],
        "writes the next migration",
    ),
    spec(
        ["migrate", "plan"],
        &[],
        &["--out", "--check", "--sql", "--rollback"],
        "prints the steps for a database and the approval digest",
    ),
    spec(
        ["migrate", "apply"],
        &[],
        &[
            "--phase",
            "--approve",
            "--plan",
            "--batch",
            "--duty",
            "--max-rate",
            "--lock-timeout",
            "--lock-wait",
            "--index-wait",
            "--wait",
            "--max-steps",
            "--no-backup",
            "--dry-run",
        ],
        "carries out the plan",
    ),
    spec(
        ["migrate", "verify"],
        &[],
        &["--offline", "--data", "--strict"],
        "reports all problems",
    ),
    spec(
        ["migrate", "status"],
        &[],
        &[],
        "prints the state of a database",
    ),
    spec(
        ["migrate", "adopt"],
        &[],
        &[
            "--approve",
            "--lock-timeout",
            "--lock-wait",
            "--no-backup",
            "--dry-run",
        ],
        "takes over a database that has tables but no ledger",
    ),
    spec(
        ["migrate", "restore"],
        &["SEQ"],
        &[],
        "writes the file of a migration from the ledger",
    ),
    spec(
        ["migrate", "rebase"],
        &["NAME"],
        &[],
        "records a migration of a merged branch again, after the others",
    ),
    spec(
        ["migrate", "squash"],
        &[],
        &["--until"],
        "replaces old migrations by one baseline",
    ),
    spec(
        ["migrate", "rollback"],
        &[],
        &["--approve", "--lock-timeout", "--lock-wait", "--index-wait"],
        "undoes the newest migration",
    ),
    spec(
        ["schema", "print"],
        &[],
        &["--out"],
        "prints the declared snapshot",
    ),
    spec(
        ["schema", "diff"],
        &["FILE_A", "FILE_B"],
        &[],
        "compares two snapshots",
    ),
];

/// The text of `--help`, for one command or for all.
pub(super) fn help(words: &[&str]) -> String {
    let mut text = String::new();
    let fits = |spec: &&Spec| words.iter().zip(spec.words).all(|(word, own)| *word == own);
    let chosen: Vec<&Spec> = COMMANDS.iter().filter(fits).collect();
    let chosen: Vec<&Spec> = if chosen.is_empty() {
        COMMANDS.iter().collect()
    } else {
        chosen
    };
    let usage = |spec: &Spec| {
        let arguments = spec.arguments.iter().map(|name| format!(" {name}"));
        format!("{}{}", spec.words.join(" "), arguments.collect::<String>())
    };
    let width = chosen.iter().map(|spec| usage(spec).len()).max();
    let width = width.unwrap_or_default();
    for spec in &chosen {
        text.push_str(&format!("  {:<width$}  {}\n", usage(spec), spec.about));
    }
    let own: Vec<&str> = match chosen.as_slice() {
        [one] => one.options.to_vec(),
        _ => Vec::new(),
    };
    for (title, names) in [("options", own.as_slice()), ("common options", COMMON)] {
        if names.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{title}:\n"));
        for opt in OPTIONS.iter().filter(|opt| names.contains(&opt.name)) {
            let name = format!("{} {}", opt.name, opt.value);
            text.push_str(&format!("  {name:<22}  {}\n", opt.about));
        }
    }
    text.truncate(text.trim_end().len());
    text
}
