//! A shell session as a document shows it, run against a real server.

use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use regex::{Captures, Regex};
use serde_json::Value as Json;

use crate::markdown::{blocks, read, root};
use crate::ports::free_port;

/// A program in a folder, without the environment variables of the developer's settings.
pub fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    let environment =
        std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("LINCHPIN_"));
    command
        .current_dir(folder)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null());
    command
}

/// A running application. Dropping it kills it without a shutdown.
pub struct Server {
    child: Child,
    program: String,
    folder: PathBuf,
    variables: Vec<(String, String)>,
    /// The port it listens on.
    pub port: u16,
}

impl Server {
    /// Starts the application in a folder, which also contains its database, and waits until it
    /// accepts connections.
    pub fn start(program: &str, folder: &Path) -> Self {
        Self::start_with(program, folder, &[])
    }

    /// Like [`Server::start`], with additional environment variables.
    pub fn start_with(program: &str, folder: &Path, variables: &[(&str, &str)]) -> Self {
        Self::try_start(program, folder, variables)
            .unwrap_or_else(|status| panic!("the application ended with {status}"))
    }

    /// Like [`Server::start_with`], but returns an error if the application ends.
    ///
    /// # Errors
    /// The status of an application that ends instead of serving.
    pub fn try_start(
        program: &str,
        folder: &Path,
        variables: &[(&str, &str)],
    ) -> Result<Self, ExitStatus> {
        let port = free_port();
        let child = command(program, folder)
            .envs(variables.iter().copied())
            .env("LINCHPIN_PORT", port.to_string())
            .env("LINCHPIN_LOG", "error")
            .stdout(Stdio::null())
            .spawn()
            .expect("the application starts");
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let mut server = Self {
            child,
            program: program.to_owned(),
            folder: folder.to_owned(),
            variables,
            port,
        };
        let deadline = Instant::now() + Duration::from_mins(1);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(status);
            }
            assert!(
                Instant::now() < deadline,
                "the application does not listen on {port}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Stops the application as a supervisor does, and waits for its end.
    pub fn stop(mut self) {
        let kill = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(kill.success(), "the application had ended already");
        let status = self.child.wait().expect("its status");
        assert!(status.success(), "the application ended with {status}");
    }

    /// The output of a command of the application, while it serves. It must succeed.
    pub fn printed(&self, arguments: &[&str]) -> String {
        let variables: Vec<(&str, &str)> = self
            .variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        printed(&self.program, &self.folder, arguments, &variables)
    }
}

/// The output of a command of an application. It must succeed.
pub fn printed(
    program: &str,
    folder: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> String {
    let output = command(program, folder)
        .args(arguments)
        .envs(variables.iter().copied())
        .output()
        .expect("the program runs");
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command and its expected or actual output.
#[derive(Debug, PartialEq)]
pub struct Step {
    pub command: String,
    pub output: String,
}

/// Reads a `console` block. `$ ` begins a command, `\` at the end of a line continues it, and all
/// other lines are output.
pub fn steps(block: &str) -> Vec<Step> {
    let mut out: Vec<Step> = Vec::new();
    let mut continued = false;
    for line in block.lines() {
        match (line.strip_prefix("$ "), out.last_mut()) {
            (Some(command), _) if !continued => out.push(Step {
                command: command.to_owned(),
                output: String::new(),
            }),
            (_, Some(step)) if continued => {
                step.command.push('\n');
                step.command.push_str(line);
            }
            (_, Some(step)) => {
                step.output.push_str(line);
                step.output.push('\n');
            }
            (_, None) => panic!("output before the first command: {line}"),
        }
        continued = out.last().is_some_and(|step| step.command.ends_with('\\'));
    }
    out
}

/// Runs the commands in one shell, so that variables persist, and returns the output of each.
pub fn run(commands: &[String], folder: &Path) -> Vec<Step> {
    run_with(commands, folder, &[])
}

/// Like [`run`], with environment variables.
fn run_with(commands: &[String], folder: &Path, variables: &[(String, String)]) -> Vec<Step> {
    const END: &str = "==end of step==";
    let script: String = commands
        .iter()
        .map(|command| format!("{{ {command}\n}} 2>&1\necho; echo '{END}'\n"))
        .collect();
    let output = command("bash", folder)
        .envs(variables.iter().cloned())
        .arg("-c")
        .arg(&script)
        .output()
        .expect("bash runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let end = format!("\n{END}\n");
    let outputs = text.split(&end);
    let steps: Vec<Step> = commands
        .iter()
        .zip(outputs)
        .map(|(c, o)| Step {
            command: c.clone(),
            output: o.to_owned(),
        })
        .collect();
    assert_eq!(
        steps.len(),
        commands.len(),
        "the shell stopped early: {text}"
    );
    steps
}

/// Runs the `console` blocks of a document against an application and returns the differences in
/// their output.
///
/// Commands `cargo run -q -p PACKAGE -- ..` run the program of the application, in its folder. With
/// `UPDATE_GOLDEN` in the environment, the document is rewritten instead.
pub fn differences(document: &str, package: &str, server: &Server) -> String {
    let text = read(document);
    let expected: Vec<_> = blocks(&text)
        .iter()
        .filter(|b| b.kind == "console")
        .flat_map(|b| steps(&b.text))
        .collect();
    assert!(expected.len() > 5, "{document} shows a session");
    let here = format!("localhost:{}", server.port);
    let cargo = format!("cargo run -q -p {package} --");
    let commands: Vec<String> = expected
        .iter()
        .map(|step| {
            step.command
                .replace(DOCUMENTED_ADDRESS, &here)
                .replace(&cargo, &server.program)
        })
        .collect();
    let run_steps = run_with(&commands, &server.folder, &server.variables);
    let actual: Vec<String> = run_steps
        .iter()
        .map(|step| step.output.replace(&here, DOCUMENTED_ADDRESS))
        .collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        rewrite(document, &text, &expected, &actual);
    }
    let (mut shown, mut printed) = (Normalizer::default(), Normalizer::default());
    let mut out = String::new();
    for (expected, actual) in expected.iter().zip(&actual) {
        if shown.text(&expected.output) != printed.text(actual) {
            out += &format!("$ {}\n{actual}\n", expected.command);
        }
    }
    out
}

/// Compares the OpenAPI document that a program prints with the file `openapi.json` of the example.
///
/// With `UPDATE_GOLDEN` in the environment, the file is rewritten instead.
pub fn golden(program: &str, example: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let output = command(program, folder.path())
        .arg("openapi")
        .output()
        .expect("the application runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let document: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    let now = serde_json::to_string_pretty(&document).expect("JSON") + "\n";
    let golden = root().join("examples").join(example).join("openapi.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &now).expect("written");
    }
    let stored = std::fs::read_to_string(&golden).unwrap_or_default();
    assert!(
        stored == now,
        "the API document changed; read the difference after UPDATE_GOLDEN=1 cargo test -p {example} golden"
    );
}

/// Writes the output of each command into the document.
fn rewrite(document: &str, text: &str, steps: &[Step], actual: &[String]) {
    let mut rest = text;
    let mut out = String::new();
    for (step, actual) in steps.iter().zip(actual) {
        let shown = format!("$ {}\n{}", step.command, step.output);
        let at = rest.find(&shown).expect("the document contains the step");
        out += &rest[..at];
        out += &format!("$ {}\n", step.command);
        out += actual
            .lines()
            .map(wrap_json)
            .collect::<Vec<_>>()
            .join("")
            .as_str();
        rest = &rest[at + shown.len()..];
    }
    std::fs::write(root().join(document), out + rest).expect("written");
}

/// Wraps a line of JSON at 118 characters between members; returns any other line unchanged.
fn wrap_json(line: &str) -> String {
    let mut out = String::new();
    let mut length = 0;
    let json = serde_json::from_str::<Json>(line).is_ok();
    for part in line.split_inclusive(if json { "," } else { "\n" }) {
        if length + part.len() > 118 && part.starts_with(['"', '{']) && length > 0 {
            out += "\n ";
            length = 1;
        }
        out += part;
        length += part.len();
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// The address of an application in documents.
pub const DOCUMENTED_ADDRESS: &str = "localhost:3000";

/// Replaces values that differ between runs. The same id always gets the same placeholder, so two
/// different ids in a document stay different.
#[derive(Default)]
pub struct Normalizer {
    ids: HashMap<String, usize>,
}

static UUID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}").expect("a pattern")
});
static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z").expect("a pattern"));
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"eyJ[\w-]+\.(?:eyJ)?[\w-]+\.[\w-]+|eyJ[\w-]*\.{3}").expect("a pattern")
});
static CURSOR: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""nextCursor":\s*"[^"]*""#).expect("a pattern"));

/// The token of a sign-in that waits for the second factor.
static PENDING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""mfaToken":\s*"[^"]*""#).expect("a pattern"));

impl Normalizer {
    /// The text with ids, times, tokens and cursors replaced. JSON is also formatted in one way.
    pub fn text(&mut self, text: &str) -> String {
        let text = UUID.replace_all(text.trim(), |found: &Captures<'_>| {
            let next = self.ids.len() + 1;
            format!(
                "<id {}>",
                self.ids.entry(found[0].to_owned()).or_insert(next)
            )
        });
        let text = TIME.replace_all(&text, "<time>");
        let text = TOKEN.replace_all(&text, "<token>");
        let text = CURSOR.replace_all(&text, r#""nextCursor":"<cursor>""#);
        let text = PENDING.replace_all(&text, r#""mfaToken":"<token>""#);
        match serde_json::from_str::<Json>(&text) {
            Ok(mut json) => {
                json.sort_all_objects();
                json.to_string()
            }
            Err(_) => text.into_owned(),
        }
    }
}
