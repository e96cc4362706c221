//! The output of a command, and its exit status.

use std::io::{IsTerminal, Write};

use serde_json::{Map, Value as Json, json};

use super::command::{Color, Invocation};
use super::parse::outline;
use crate::error::{Exit, Fact, Refusal};

/// The outcome of a command that ran to its end. Its exit status may still be a failure, for
/// example if a verification found errors.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The exit status.
    pub exit: Exit,
    /// The text for people, for standard output.
    pub text: String,
    /// Further lines for people, for standard error.
    pub notes: Vec<String>,
    /// The result for programs.
    pub result: Json,
}

impl Outcome {
    /// A success.
    pub fn new(text: impl Into<String>, result: Json) -> Self {
        Self {
            exit: Exit::Done,
            text: text.into(),
            notes: Vec::new(),
            result,
        }
    }
}

/// Prints the outcome of a command and returns the exit status of the process. `args` are the
/// arguments of the process; `parsed` is the result of [`parse`](super::parse), if it succeeded.
///
/// People read results on standard output, and notes and errors on standard error. Programs
/// (`--json`) read exactly one document on standard output, also for an error.
pub fn finish(args: &[String], parsed: Option<&Invocation>, done: Result<Outcome, Refusal>) -> i32 {
    let (command, json) = match parsed {
        Some(parsed) => (parsed.command.words().to_owned(), parsed.common.json),
        None => outline(args),
    };
    let quiet = parsed.is_some_and(|parsed| parsed.common.quiet);
    let colored = match parsed.map_or(Color::Auto, |parsed| parsed.common.color) {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => std::env::var_os("NO_COLOR").is_none() && std::io::stderr().is_terminal(),
    };
    let exit = match &done {
        Ok(outcome) => outcome.exit,
        Err(refusal) => refusal.exit,
    };
    let (out, err) = if json {
        (format!("{}\n", document(&command, &done)), String::new())
    } else {
        texts(&done, quiet, colored)
    };
    let printed = print(&mut std::io::stdout().lock(), &out);
    // A failed write to standard error cannot be reported.
    let _ = print(&mut std::io::stderr().lock(), &err);
    match printed {
        Ok(()) => exit as i32,
        Err(_) => Exit::Internal as i32,
    }
}

/// Prints a text. The reader may close the pipe early: `migrate plan | head`.
fn print(target: &mut dyn Write, text: &str) -> std::io::Result<()> {
    match target
        .write_all(text.as_bytes())
        .and_then(|()| target.flush())
    {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// The JSON document for programs. `command` is the name of the command, such as `migrate plan`.
pub(super) fn document(command: &str, done: &Result<Outcome, Refusal>) -> Json {
    let mut members = Map::new();
    let mut add = |key: &str, value: Json| {
        members.insert(key.to_owned(), value);
    };
    let exit = match done {
        Ok(outcome) => outcome.exit,
        Err(refusal) => refusal.exit,
    };
    let ok = done.is_ok() && matches!(exit, Exit::Done | Exit::Pending);
    add("ok", ok.into());
    add("command", command.into());
    add("exit", (exit as u8).into());
    match done {
        Ok(outcome) => add("result", outcome.result.clone()),
        Err(refusal) => {
            let details: Vec<Json> = refusal.facts.iter().map(detail).collect();
            add(
                "error",
                json!({
                    "code": refusal.code,
                    "message": refusal.message,
                    "details": details,
                    "help": refusal.help,
                }),
            );
        }
    }
    Json::Object(members)
}

fn detail(fact: &Fact) -> Json {
    let mut members = Map::new();
    if !fact.code.is_empty() {
        members.insert("code".to_owned(), fact.code.into());
    }
    members.insert("message".to_owned(), fact.text.as_str().into());
    if let Some(at) = &fact.at {
        members.insert("at".to_owned(), at.as_str().into());
    }
    Json::Object(members)
}

/// The texts for people: standard output and standard error.
pub(super) fn texts(
    done: &Result<Outcome, Refusal>,
    quiet: bool,
    colored: bool,
) -> (String, String) {
    match done {
        Ok(outcome) => {
            let mut out = outcome.text.clone();
            if !out.is_empty() && !out.ends_with('\n') {
                out.push('\n');
            }
            let mut err = String::new();
            for note in outcome.notes.iter().filter(|_| !quiet) {
                err.push_str(&format!("note: {note}\n"));
            }
            (out, err)
        }
        Err(refusal) => (String::new(), error(refusal, colored)),
    }
}

/// The text of a refusal: the message, then indented facts, then the help.
fn error(refusal: &Refusal, colored: bool) -> String {
    let paint = |text: &str| {
        if colored {
            format!("\u{1b}[31m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    };
    format!("{} {}\n", paint("linchpin:"), refusal.text())
}
