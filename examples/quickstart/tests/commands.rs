//! Tests of the commands `user` and `token`, also while a server uses the same database.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use example_support::client::Client;
use example_support::session::{Server, command};
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_quickstart");
const PRODUCTION: [(&str, &str); 4] = [
    ("LINCHPIN_ENVIRONMENT", "production"),
    // A database in memory: production refuses a database whose migrations are not applied.
    ("LINCHPIN_DATABASE_URL", "memory:"),
    (
        "LINCHPIN_SIGNING_SECRET",
        "8c1f0e6d5b7a4923a1d0c4e2f6b89375",
    ),
    (
        "LINCHPIN_SECURITY_SIGNING_ISSUER",
        "https://blog.example.com",
    ),
];

/// Runs a command of the app. `input` is its standard input.
fn run_command(folder: &Path, arguments: &str, variables: &[(&str, &str)], input: &str) -> Output {
    let mut command = command(PROGRAM, folder);
    command
        .args(arguments.split_whitespace())
        .envs(variables.iter().copied());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    child
        .stdin
        .take()
        .expect("its input")
        .write_all(input.as_bytes())
        .expect("the input is written");
    child.wait_with_output().expect("its end")
}

/// Runs a command that must succeed. Returns its standard output.
#[track_caller]
fn output_of(folder: &Path, arguments: &str, variables: &[(&str, &str)], input: &str) -> String {
    let output = run_command(folder, arguments, variables, input);
    assert!(output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs a command that must fail. Returns its standard error.
#[track_caller]
fn error_of(folder: &Path, arguments: &str, variables: &[(&str, &str)], input: &str) -> String {
    let output = run_command(folder, arguments, variables, input);
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{arguments}: {output:?}"
    );
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn the_user_command_creates_an_administrator() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(PROGRAM, folder.path());
    let made = output_of(folder.path(), "user root@example.com --role admin", &[], "");
    let password = made
        .strip_prefix("account: root@example.com\nroles: admin\npassword: ")
        .expect("a password")
        .trim()
        .to_owned();
    assert!(password.len() >= 24, "{made}");

    let anybody = Client::anonymous(&server);
    let login = anybody.send(
        "POST",
        "/auth/login",
        json!({"email": "root@example.com", "password": password}),
    );
    assert_eq!(
        (login.status, &login.body["emailVerified"]),
        (200, &json!(true)),
        "{login:?}"
    );
    let root = anybody.bearer(login.body["token"].as_str().expect("a token"));
    assert_eq!(root.ask("DELETE", "/posts/none", "").status, 404);

    // An existing account keeps its password. An account with an unverified address gets no roles,
    // because it may belong to another person.
    let register = json!({"email": "alice@example.com", "password": "violet-otter-91-lamp"});
    assert_eq!(
        anybody
            .send("POST", "/auth/register", register.clone())
            .status,
        201
    );
    assert_eq!(
        output_of(folder.path(), "user alice@example.com", &[], ""),
        "account: alice@example.com (existed already)\nroles: none\n"
    );
    for command in [
        "user Alice@Example.com --role admin",
        "token alice@example.com --role admin",
    ] {
        let refusal = error_of(folder.path(), command, &[], "");
        assert!(
            refusal.contains(
                "alice@example.com already has an account, and its address is not verified"
            ),
            "{refusal}"
        );
    }
    let login = anybody.send("POST", "/auth/login", register);
    let alice = anybody.bearer(login.body["token"].as_str().expect("a token"));
    assert_eq!(
        alice.ask("DELETE", "/posts/none", "").status,
        403,
        "{login:?}"
    );
    let again = error_of(
        folder.path(),
        "user alice@example.com --password-stdin",
        &[],
        "amber-walrus-17-dune\n",
    );
    assert!(again.contains("already has an account"), "{again}");

    // An account that a command created gets roles: the person who ran the command vouches for the
    // address.
    output_of(folder.path(), "user bob@example.com", &[], "");
    let promoted = output_of(folder.path(), "user Bob@Example.com --role admin", &[], "");
    assert_eq!(
        promoted,
        "account: bob@example.com (existed already)\nroles: admin\n"
    );
}

#[test]
fn the_user_command_reads_a_password_from_standard_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = output_of(
        folder.path(),
        "user root@example.com --password-stdin",
        &[],
        "amber walrus 17 dune \r\n",
    );
    assert_eq!(made, "account: root@example.com\nroles: none\n");
    let server = Server::start(PROGRAM, folder.path());
    let login = |password: &str| {
        Client::anonymous(&server)
            .send(
                "POST",
                "/auth/login",
                json!({"email": "root@example.com", "password": password}),
            )
            .status
    };
    assert_eq!(
        (
            login("amber walrus 17 dune"),
            login("amber walrus 17 dune ")
        ),
        (401, 200)
    );
    let nothing = error_of(
        folder.path(),
        "user bob@example.com --password-stdin",
        &[],
        "",
    );
    assert!(
        nothing.contains("needs a password on standard input"),
        "{nothing}"
    );
    let weak = error_of(
        folder.path(),
        "user bob@example.com --password-stdin",
        &[],
        "password123\n",
    );
    assert!(weak.contains("too easy to guess"), "{weak}");
}

#[test]
fn each_token_opens_a_separate_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(PROGRAM, folder.path());
    let (alice, root) = (
        Client::user(&server, "alice", &[]),
        Client::user(&server, "root", &["admin"]),
    );
    assert_eq!(
        (
            alice.ask("DELETE", "/posts/none", "").status,
            root.ask("DELETE", "/posts/none", "").status
        ),
        (403, 404)
    );
    let second = Client::user(&server, "alice", &[]);
    assert_eq!(second.id(), alice.id());
    let sessions = alice.ask("GET", "/auth/sessions", "").body;
    assert_eq!(
        sessions["sessions"].as_array().map(Vec::len),
        Some(2),
        "{sessions}"
    );
    assert_eq!(second.ask("POST", "/auth/logout", "").status, 200);
    assert_eq!(
        (
            second.ask("GET", "/auth/me", "").status,
            alice.ask("GET", "/auth/me", "").status
        ),
        (401, 200)
    );
}

#[test]
fn wrong_command_arguments_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let none: &[(&str, &str)] = &[];
    for (arguments, variables, text) in [
        (
            "token",
            none,
            "the identifier of an account is missing\nusage: token IDENTIFIER [--role R]…",
        ),
        (
            "token alice@example.com --role editor",
            none,
            "`editor` is not a role of this app, which has admin",
        ),
        ("token alice", none, "email: must be an email address"),
        (
            "tokn alice@example.com",
            none,
            "unknown command `tokn`; did you mean `token`?",
        ),
        (
            "token alice@example.com",
            &PRODUCTION,
            "`token` works in development only",
        ),
        (
            "serve",
            &[
                ("LINCHPIN_AUTH_MONT", "/auth"),
                ("LINCHPIN_AUTH_COOKIES_SECURE", "no"),
            ],
            "\n  LINCHPIN_AUTH_MONT: is not a setting",
        ),
        (
            "serve",
            &[
                ("LINCHPIN_AUTH_MOUNT", "auth"),
                ("LINCHPIN_AUTH_ADMIN_ROLE", "root"),
            ],
            "\n  auth.admin.role: `root` is not in",
        ),
        (
            "serve",
            &[PRODUCTION[0], PRODUCTION[1], PRODUCTION[2]],
            "security.signing.issuer: is required in production: the issuer",
        ),
        (
            "serve",
            &[("LINCHPIN_AUHT_MOUNT", "/auth")],
            "LINCHPIN_AUHT_MOUNT: is not a known variable of this app",
        ),
    ] {
        let error = error_of(folder.path(), arguments, variables, "");
        assert!(error.contains(text), "{arguments}: {error}");
    }
    // Another process cannot read the memory database of this one, so the command prints a warning.
    let output = run_command(
        folder.path(),
        "token alice@example.com",
        &[("LINCHPIN_DATABASE_URL", "memory:")],
        "",
    );
    assert!(
        output.status.success()
            && String::from_utf8_lossy(&output.stderr).contains("are lost when it ends"),
        "{output:?}"
    );
}

/// The warning is in the log of the start.
#[test]
fn a_short_minimum_length_of_passwords_gives_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let logs_warning = |variables: &[(&str, &str)]| {
        let mut serving = command(PROGRAM, folder.path());
        serving
            .envs([("LINCHPIN_PORT", "0"), ("LINCHPIN_LOG", "info")])
            .envs(variables.iter().copied());
        let mut child = serving
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("its log"))
            .lines()
            .map_while(Result::ok);
        let log: Vec<String> = lines
            .take_while(|line| !line.contains("listening on"))
            .collect();
        child.kill().and_then(|()| child.wait()).expect("it ends");
        log.iter().any(|line| {
            line.contains("a password of 8 characters may be the only protection of an account")
        })
    };
    assert!(logs_warning(&[]));
    assert!(!logs_warning(&[(
        "LINCHPIN_AUTH_PASSWORD_MIN_LENGTH",
        "15"
    )]));
}

#[test]
fn the_user_command_works_in_production() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = output_of(
        folder.path(),
        "user root@example.com --role admin",
        &PRODUCTION,
        "",
    );
    assert!(made.contains("\npassword: "), "{made}");
}
