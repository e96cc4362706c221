//! Tests of the noticeboard over HTTP: its documents, mail on the console, a sign-in with a local
//! provider, and a change of the secret.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use example_support::markdown::{blocks, links, read, root};
use example_support::ports::free_port;
use example_support::session::{Server, command, differences, golden, printed, run};
use serde_json::Value as Json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_accounts");
const README: &str = "examples/accounts/README.md";
const SECOND_FACTOR: &str = "examples/accounts/second-factor.md";

/// A running program. Dropping it kills it, also if the test panics.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_readme_matches_the_program() {
    check_document(README, "root@example.test", &[]);
    for link in links(&read(README)) {
        assert!(
            root().join("examples/accounts").join(&link).exists(),
            "{README}: {link} has no target"
        );
    }
}

#[test]
fn the_document_of_the_second_factor_matches_the_program() {
    check_document(
        SECOND_FACTOR,
        "ada@example.test",
        &[("LINCHPIN_AUTH_MFA_ENABLED", "true")],
    );
}

/// Checks a document against the app. The first command of the document must create this
/// administrator, and its second command must start the server with these variables. Then its shell
/// session must print the documented output.
fn check_document(document: &str, administrator: &str, variables: &[(&str, &str)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let commands: Vec<String> = blocks(&read(document))
        .into_iter()
        .filter(|block| block.kind == "sh")
        .flat_map(|block| block.text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let first = commands[0].replace("cargo run -p accounts --", PROGRAM);
    assert_ne!(first, commands[0], "the first command runs the app");
    assert_eq!(
        run(&[first], folder.path())[0].output.trim(),
        format!("account: {administrator}\nroles: admin")
    );
    let prefix: String = variables
        .iter()
        .map(|(name, value)| format!("{name}={value} "))
        .collect();
    assert_eq!(commands[1], format!("{prefix}cargo run -p accounts"));
    let server = Server::start_with(PROGRAM, folder.path(), variables);
    let differences = differences(document, "accounts", &server);
    assert!(
        differences.is_empty(),
        "{document} does not show what these print:\n{differences}"
    );
}

#[test]
fn mail_is_printed_on_the_console() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let child = command(PROGRAM, folder.path())
        .env("LINCHPIN_PORT", port.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut app = Running(child.expect("the application starts"));
    let out = app.0.stdout.take().expect("its console");
    let register = format!(
        "for i in $(seq 300); do curl -s -o /dev/null localhost:{port}/auth/register \
         --json '{{\"email\":\"ada@example.test\",\"password\":\"violet-otter-91-lamp\"}}' && break; sleep 0.1; done"
    );
    let _ = run(&[register], folder.path());
    let found = BufReader::new(out)
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("/notices/welcome#token="));
    assert!(found.is_some(), "no link on the console");
}

#[test]
fn sign_in_works_with_a_local_provider() {
    let provider = root().join("plugins/auth/tests/peers/oidc-provider");
    let child = Command::new("node")
        .arg("server.mjs")
        .current_dir(provider)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut provider = Running(child.expect("node: cargo xtask test installs the provider"));
    let mut line = String::new();
    let mut out = BufReader::new(provider.0.stdout.take().expect("its console"));
    out.read_line(&mut line).expect("a line");
    let addresses: Json = serde_json::from_str(&line).expect("where the provider is");
    let text = |name: &str| addresses[name].as_str().expect("text").to_owned();
    let (issuer, secret) = (text("issuer"), text("secret"));
    let variables = [
        ("LINCHPIN_AUTH_PUBLIC_URL", "https://app.test"),
        ("LINCHPIN_AUTH_OAUTH_LOCAL_CLIENT_ID", "app"),
        ("LINCHPIN_AUTH_OAUTH_LOCAL_CLIENT_SECRET", &secret),
        ("LINCHPIN_AUTH_OAUTH_LOCAL_ISSUER", &issuer),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_with(PROGRAM, folder.path(), &variables);
    let here = format!("http://localhost:{}", server.port);
    // The requests of a browser. `app.test` stands for this machine.
    let steps = [
        "browser() { curl -s -b jar -c jar -o /dev/null -w '%{redirect_url}' \"$@\"; }".to_owned(),
        format!("curl -s -D head -o /dev/null '{here}/auth/local?returnTo=/notices/welcome'"),
        "MARK=$(grep -io '__Secure-oauth_flow=[^;]*' head); URL=$(grep -i '^location:' head | tr -d '\\r' | cut -d' ' -f2)".to_owned(),
        "PAGE=$(browser \"$URL\"); BACK=$(browser \"$PAGE\" -d 'prompt=login&login=ada&password=x')".to_owned(),
        "PAGE=$(browser \"$BACK\"); BACK=$(browser \"$PAGE\" -d prompt=consent); BACK=$(browser \"$BACK\")".to_owned(),
        format!(
            "END=$(curl -s -o /dev/null -w '%{{redirect_url}}' -H \"cookie: $MARK\" \"{here}${{BACK#https://app.test}}\"); echo \"$END\""
        ),
        format!(
            "TOKEN=$(curl -s -H \"cookie: $MARK\" --json \"{{\\\"code\\\":\\\"${{END#*code=}}\\\"}}\" {here}/auth/oauth/exchange | sed -E 's/.*\"token\":\"([^\"]+)\".*/\\1/')"
        ),
        format!("curl -s {here}/auth/me -H \"Authorization: Bearer $TOKEN\""),
    ];
    let results = run(&steps, folder.path());
    assert!(
        results[5]
            .output
            .trim()
            .starts_with(&format!("{here}/notices/welcome?code=")),
        "{results:?}"
    );
    let me: Json = serde_json::from_str(results[7].output.trim())
        .unwrap_or_else(|error| panic!("{error}: {results:?}"));
    assert_eq!(
        (&me["email"], &me["providers"][0], &me["roles"][0]),
        (&"ada@peer.test".into(), &"local".into(), &"member".into()),
        "{me}"
    );
}

#[test]
fn rekey_moves_stored_data_to_a_new_secret() {
    const OLD: &str = "the-secret-of-before-has-32-bytes";
    const NEW: &str = "the-secret-of-from-now-on-has-32-bytes";
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_with(PROGRAM, folder.path(), &[("LINCHPIN_SIGNING_SECRET", OLD)]);
    // The app stores the mailed link, encrypted, for a day.
    let register = format!(
        "curl -s localhost:{}/auth/register --json '{{\"email\":\"ada@example.test\",\"password\":\"violet-otter-91-lamp\"}}'",
        server.port
    );
    assert!(
        run(&[register], folder.path())[0]
            .output
            .contains("\"token\"")
    );
    drop(server);
    let without_former_key = command(PROGRAM, folder.path())
        .arg("rekey")
        .env("LINCHPIN_SIGNING_SECRET", NEW)
        .output()
        .expect("it runs");
    let report = String::from_utf8_lossy(&without_former_key.stderr);
    assert!(
        !without_former_key.status.success()
            && report.contains("stored data is encrypted with key"),
        "{report}"
    );
    let both = format!("{NEW},{OLD}");
    let report = printed(
        PROGRAM,
        folder.path(),
        &["rekey"],
        &[("LINCHPIN_SIGNING_SECRET", &both)],
    );
    let (count, rest) = report.split_once(' ').expect("a count");
    assert!(
        count.parse::<u64>().is_ok_and(|count| count > 0),
        "{report}"
    );
    let mut lines = rest.lines();
    assert_eq!(
        lines.next(),
        Some("stored values were encrypted with the newest key"),
        "{report}"
    );
    assert!(
        lines
            .next()
            .is_some_and(|line| line.starts_with("no former key is needed any more:")),
        "{report}"
    );
    let again = printed(
        PROGRAM,
        folder.path(),
        &["rekey"],
        &[("LINCHPIN_SIGNING_SECRET", NEW)],
    );
    assert!(again.starts_with("0 stored values"), "{again}");
    let server = Server::start_with(PROGRAM, folder.path(), &[("LINCHPIN_SIGNING_SECRET", NEW)]);
    let login = format!(
        "curl -s localhost:{}/auth/login --json '{{\"email\":\"ada@example.test\",\"password\":\"violet-otter-91-lamp\"}}'",
        server.port
    );
    assert!(run(&[login], folder.path())[0].output.contains("\"token\""));
}

#[test]
fn the_golden_openapi_document_is_up_to_date() {
    golden(PROGRAM, "accounts");
}
