//! Parses arguments into a command.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use linchpin_core::suggest::did_you_mean;

use super::command::{ApplyArgs, Color, Command, Common, Invocation, shown_url};
use super::spec::{COMMANDS, COMMON, OPTIONS, Spec};
use crate::apply::Options;
use crate::canonical::is_digest;
use crate::chain::is_name;
use crate::error::{Exit, Refusal};
use crate::step::Phase;

/// Parses the arguments of a command: `migrate ..` or `schema ..`. Options may precede or follow
/// the words of the command.
///
/// # Errors
/// `usage` with the exit status 2, for an unknown command or option (with the most similar one), a
/// repeated option, a missing or extra argument, or a value out of range.
pub fn parse(args: &[String]) -> Result<Invocation, Refusal> {
    let mut words: Vec<&str> = Vec::new();
    let mut given: BTreeMap<&'static str, &str> = BTreeMap::new();
    let mut rest = args.iter().map(String::as_str);
    while let Some(arg) = rest.next() {
        let arg = if arg == "-h" { "--help" } else { arg };
        if !arg.starts_with('-') || arg == "-" {
            words.push(arg);
            continue;
        }
        let (name, joined) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg, None),
        };
        let Some(opt) = OPTIONS.iter().find(|opt| opt.name == name) else {
            return Err(unknown_option(name, &words));
        };
        let value = match (opt.value.is_empty(), joined) {
            (true, Some(_)) => return Err(usage(format!("`{name}` takes no value"))),
            (true, None) => "",
            (false, Some(value)) => value,
            (false, None) => match rest.next().filter(|value| !value.starts_with("--")) {
                Some(value) => value,
                None => {
                    return Err(usage(format!(
                        "`{name}` needs a value: {name} {}",
                        opt.value
                    )));
                }
            },
        };
        if given.insert(opt.name, value).is_some() {
            return Err(usage(format!("`{name}` is given twice")));
        }
    }
    let given = GivenOptions { given };
    let common = common(&given)?;
    if given.has("--help") {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let command = Command::Help { words };
        return Ok(Invocation { command, common });
    }
    let (spec, arguments) = find(&words)?;
    for name in given.given.keys() {
        if !spec.options.contains(name) && !COMMON.contains(name) {
            let all = spec.options.iter().chain(COMMON).copied();
            return Err(usage(format!(
                "`{name}` is not an option of `{}`{}",
                spec.words.join(" "),
                did_you_mean(name, all)
            )));
        }
    }
    if arguments.len() < spec.arguments.len() {
        let missing = spec.arguments[arguments.len()];
        return Err(usage(format!("`{}` needs {missing}", spec.words.join(" "))));
    }
    if let Some(extra) = arguments.get(spec.arguments.len()) {
        return Err(usage(format!(
            "`{}` does not take the argument `{}`",
            spec.words.join(" "),
            shown_url(extra)
        )));
    }
    let command = command(spec, arguments, &given)?;
    Ok(Invocation { command, common })
}

/// Returns the name of the command and whether `--json` is given, from arguments that may be
/// malformed. The report of a usage error needs both.
pub(super) fn outline(args: &[String]) -> (String, bool) {
    let mut words = args.iter().filter(|arg| !arg.starts_with('-'));
    let known = |word: &&String| {
        let mut all = COMMANDS.iter().flat_map(|spec| spec.words);
        all.any(|known| known == word.as_str())
    };
    let words: Vec<&str> = words
        .by_ref()
        .filter(known)
        .take(2)
        .map(String::as_str)
        .collect();
    (words.join(" "), args.iter().any(|arg| arg == "--json"))
}

fn usage(message: String) -> Refusal {
    Refusal::new("usage", Exit::Usage, message).help("`--help` lists the commands and options")
}

/// Finds the command that the words name. Returns the remaining words as its arguments.
fn find<'w>(words: &'w [&'w str]) -> Result<(&'static Spec, &'w [&'w str]), Refusal> {
    let groups = ["migrate", "schema"];
    let Some(group) = words.first() else {
        return Err(usage(
            "a command is missing: `migrate` or `schema`".to_owned(),
        ));
    };
    if !groups.contains(group) {
        let near = did_you_mean(group, groups);
        return Err(usage(format!(
            "unknown command `{}`{near}",
            shown_url(group)
        )));
    }
    let commands = || COMMANDS.iter().filter(|spec| spec.words[0] == *group);
    let Some(word) = words.get(1) else {
        let all: Vec<&str> = commands().map(|spec| spec.words[1]).collect();
        return Err(usage(format!(
            "`{group}` needs a command: {}",
            all.join(", ")
        )));
    };
    match commands().find(|spec| spec.words[1] == *word) {
        Some(spec) => Ok((spec, &words[2..])),
        None => {
            let near = did_you_mean(word, commands().map(|spec| spec.words[1]));
            Err(usage(format!(
                "unknown command `{group} {}`{near}",
                shown_url(word)
            )))
        }
    }
}

fn unknown_option(name: &str, words: &[&str]) -> Refusal {
    let own = find(words).map_or(&[][..], |(spec, _)| spec.options);
    let own = own.iter().chain(COMMON).copied();
    let near = did_you_mean(name, own);
    let near = if near.is_empty() {
        did_you_mean(name, OPTIONS.iter().map(|opt| opt.name))
    } else {
        near
    };
    usage(format!("unknown option `{}`{near}", shown_url(name)))
}

fn common(given: &GivenOptions<'_>) -> Result<Common, Refusal> {
    Ok(Common {
        store: given.text("--store"),
        url: given.text("--url"),
        dir: given.path("--dir")?,
        schema: given.path("--schema")?,
        json: given.has("--json"),
        quiet: given.has("--quiet"),
        color: match given.get("--color") {
            None | Some("auto") => Color::Auto,
            Some("always") => Color::Always,
            Some("never") => Color::Never,
            Some(_) => {
                return Err(usage("`--color` is `auto`, `always` or `never`".to_owned()));
            }
        },
    })
}

fn command(spec: &Spec, arguments: &[&str], given: &GivenOptions<'_>) -> Result<Command, Refusal> {
    let name = || {
        let name = arguments[0];
        if is_name(name) {
            return Ok(name.to_owned());
        }
        Err(usage(format!(
            "`{}` is not a migration name: write a lower-case letter, then at most 62 lower-case \
             letters, digits and `_`",
            name.escape_debug()
        )))
    };
    let path = |at: usize| PathBuf::from(arguments[at]);
    Ok(match spec.words {
        ["migrate", "record"] => Command::Record {
            name: name()?,
            dry_run: given.has("--dry-run"),
        },
        ["migrate", "plan"] => Command::Plan {
            out: given.path("--out")?,
            check: given.has("--check"),
            sql: given.has("--sql"),
            rollback: given.has("--rollback"),
        },
        ["migrate", "apply"] => Command::Apply(given.apply()?),
        ["migrate", "verify"] => {
            let (offline, data) = (given.has("--offline"), given.has("--data"));
            if offline && data {
                let message = "`--data` cannot be combined with `--offline`: it reads the database";
                return Err(usage(message.to_owned()));
            }
            Command::Verify {
                offline,
                data,
                strict: given.has("--strict"),
            }
        }
        ["migrate", "status"] => Command::Status,
        ["migrate", "adopt"] => Command::Adopt(given.apply()?),
        ["migrate", "restore"] => Command::Restore {
            seq: number("SEQ", arguments[0], 1, u64::MAX)?,
        },
        ["migrate", "rebase"] => Command::Rebase { name: name()? },
        ["migrate", "squash"] => match given.get("--until") {
            Some(text) => Command::Squash {
                until: number("--until", text, 1, u64::MAX)?,
            },
            None => return Err(usage("`migrate squash` needs `--until SEQ`".to_owned())),
        },
        ["migrate", "rollback"] => Command::Rollback(given.apply()?),
        ["schema", "print"] => Command::SchemaPrint {
            out: given.path("--out")?,
        },
        _ => Command::SchemaDiff {
            before: path(0),
            after: path(1),
        },
    })
}

/// The given options with their values.
struct GivenOptions<'a> {
    given: BTreeMap<&'static str, &'a str>,
}

impl GivenOptions<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.given.get(name).copied()
    }

    fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    fn path(&self, name: &str) -> Result<Option<PathBuf>, Refusal> {
        match self.get(name) {
            Some("") => Err(usage(format!("`{name}` needs a path"))),
            path => Ok(path.map(PathBuf::from)),
        }
    }

    fn number(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, Refusal> {
        self.get(name)
            .map(|text| number(name, text, min, max))
            .transpose()
    }

    fn time(&self, name: &str, default: Duration) -> Result<Duration, Refusal> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => duration(text).ok_or_else(|| {
                usage(format!(
                    "`{name}` is a time such as `500ms`, `2s` or `10m`, not `{}`",
                    text.escape_debug()
                ))
            }),
        }
    }

    fn apply(&self) -> Result<ApplyArgs, Refusal> {
        let mut options = Options::default();
        let phase = match self.get("--phase") {
            None => None,
            Some("expand") => Some(Phase::Expand),
            Some("backfill") => Some(Phase::Backfill),
            Some("contract") => Some(Phase::Contract),
            Some(other) => {
                let near = did_you_mean(other, ["expand", "backfill", "contract"]);
                return Err(usage(format!(
                    "`--phase` is `expand`, `backfill` or `contract`{near}"
                )));
            }
        };
        options.phase = phase;
        if let Some(digest) = self.get("--approve") {
            if !is_digest(digest) {
                let message = "`--approve` is a digest: 64 lower-case hexadecimal digits";
                return Err(usage(message.to_owned()));
            }
            options.approve = Some(digest.to_owned());
        }
        options.lock_timeout = self.time("--lock-timeout", options.lock_timeout)?;
        options.lock_wait = self.time("--lock-wait", options.lock_wait)?;
        options.index_wait = self.time("--index-wait", options.index_wait)?;
        options.wait = self.time("--wait", options.wait)?;
        options.backup = !self.has("--no-backup");
        if let Some(count) = self.number("--max-steps", 1, u64::MAX)? {
            options.max_steps = usize::try_from(count).unwrap_or(usize::MAX);
        }
        if let Some(rows) = self.number("--batch", 1, 10_000)? {
            options.pace.batch = rows;
        }
        options.pace.max_rate = self.number("--max-rate", 1, u64::MAX)?;
        if let Some(text) = self.get("--duty") {
            options.pace.duty = text
                .parse()
                .ok()
                .filter(|duty| *duty > 0.0 && *duty <= 1.0)
                .ok_or_else(|| usage("`--duty` is a number over 0 and at most 1".to_owned()))?;
        }
        Ok(ApplyArgs {
            phase,
            plan: self.path("--plan")?,
            dry_run: self.has("--dry-run"),
            options,
        })
    }
}

fn number(name: &str, text: &str, min: u64, max: u64) -> Result<u64, Refusal> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let value = text.parse().ok().filter(|n| (min..=max).contains(n));
    value.filter(|_| digits).ok_or_else(|| {
        let range = if max == u64::MAX {
            format!("{min} or more")
        } else {
            format!("{min} to {max}")
        };
        usage(format!("`{name}` is a number, {range}"))
    })
}

/// Reads `500ms`, `2s` or `10m`.
fn duration(text: &str) -> Option<Duration> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(at);
    let count: u64 = digits.parse().ok()?;
    let millis = match unit {
        "ms" => Some(count),
        "s" => count.checked_mul(1_000),
        "m" => count.checked_mul(60_000),
        _ => None,
    }?;
    // Times over 366 days are mistakes.
    (millis <= 366 * 86_400_000).then(|| Duration::from_millis(millis))
}
