//! Checks the documents: every command runs and prints the shown response, every snippet is
//! compiled code, every compiler message has a ui-test, and every link has a target.

use example_support::client::Client;
use example_support::markdown::{anchors, blocks, documents, links, paths, prose, read, root};
use example_support::session::{Server, differences, golden, run};
use serde_json::json;

/// The command that creates the account of the session.
const REGISTER: &str = r#"curl localhost:3000/auth/register --json '{"email":"alice@example.com","password":"violet-otter-91-lamp"}'"#;
/// The program of the application.
const BINARY: &str = env!("CARGO_BIN_EXE_quickstart");
/// Documents in which a test checks every block.
const DOCUMENTS: [&str; 4] = [
    "README.md",
    "docs/guide.md",
    "docs/architecture.md",
    "docs/stores.md",
];
/// Sources that contain the snippets. A snippet must equal its source byte for byte.
const SOURCES: [&str; 27] = [
    "examples/quickstart/src/main.rs",
    "examples/quickstart/tests/guide/main.rs",
    "examples/quickstart/tests/guide/extended.rs",
    "examples/quickstart/tests/guide/facade.rs",
    "examples/quickstart/tests/guide/library.rs",
    "examples/quickstart/tests/guide/lifecycle.rs",
    "examples/quickstart/tests/guide/routes.rs",
    "examples/quickstart/tests/guide/tutorial.rs",
    "examples/quickstart/tests/context.rs",
    "examples/quickstart/tests/operations.rs",
    "examples/tasks/src/main.rs",
    "examples/shop/src/main.rs",
    "examples/tenants/src/main.rs",
    "examples/tenants/src/members.rs",
    "examples/tenants/src/report.rs",
    "plugins/jobs/tests/acceptance.rs",
    "plugins/push/tests/acceptance/guide.rs",
    "plugins/realtime/tests/acceptance/test_app.rs",
    "plugins/realtime/tests/acceptance/cluster.rs",
    "plugins/webhooks/tests/acceptance/bed.rs",
    "plugins/webhooks/tests/acceptance/metrics.rs",
    "plugins/webhooks/tests/acceptance/receivers.rs",
    "plugins/webhooks/tests/peers/node/receiver.mjs",
    "plugins/webhooks/tests/peers/receiver.py",
    "examples/toy-store/src/lib.rs",
    "examples/toy-store/tests/app.rs",
    "examples/toy-store/tests/conformance.rs",
];
/// The languages of snippets.
const CODE_LANGUAGES: [&str; 3] = ["rust", "js", "python"];
/// The commands of `sh` blocks. The test of the session runs the same ones.
const COMMANDS: [&str; 4] = [
    "cargo run -p quickstart",
    REGISTER,
    "export LINCHPIN_DATABASE_URL=postgres://user@localhost/blog",
    "cargo run -p quickstart --features postgres",
];

#[test]
fn snippets_are_compiled_code() {
    let sources = SOURCES.map(read);
    let mut checked = 0;
    for document in DOCUMENTS {
        for block in blocks(&read(document))
            .iter()
            .filter(|b| CODE_LANGUAGES.contains(&b.kind.as_str()))
        {
            let found = sources.iter().any(|source| source.contains(&block.text));
            assert!(
                found,
                "{document}:{}: not in {}:\n{}",
                block.line,
                SOURCES.join(" or "),
                block.text
            );
            checked += 1;
        }
    }
    assert!(checked > 0);
}

#[test]
fn compiler_messages_are_those_of_the_ui_tests() {
    let readme = blocks(&read("README.md"));
    let messages: Vec<_> = readme.iter().filter(|b| b.kind == "text").collect();
    assert!(
        messages.len() >= 2,
        "the README shows two errors of the compiler"
    );
    for folder in ["/fail/entity/", "/fail/operation/"] {
        assert!(
            messages
                .iter()
                .any(|b| b.from.as_deref().is_some_and(|from| from.contains(folder))),
            "the README shows one of {folder}"
        );
    }
    for block in messages {
        let from = block
            .from
            .as_deref()
            .unwrap_or_else(|| panic!("README.md:{}: `<!-- from … -->` is missing", block.line));
        assert!(
            read(from).contains(&block.text),
            "README.md:{}: not in {from}:\n{}",
            block.line,
            block.text
        );
    }
}

#[test]
fn every_block_is_of_a_kind_that_is_checked() {
    for document in DOCUMENTS {
        for block in blocks(&read(document)) {
            let known = match block.kind.as_str() {
                kind if CODE_LANGUAGES.contains(&kind) => true,
                "sh" => block.text.lines().all(|line| COMMANDS.contains(&line)),
                "console" => document == "README.md",
                "toml" => block.text.lines().all(is_valid_manifest_line),
                "json" => serde_json::from_str::<serde_json::Value>(&block.text).is_ok(),
                // Messages and diagrams. Other documents may not use `text`, because such a block
                // could contain code that is never compiled.
                "text" => block.from.is_some() || document == "docs/architecture.md",
                _ => false,
            };
            assert!(
                known,
                "{document}:{}: nothing checks this block",
                block.line
            );
        }
    }
}

#[test]
fn links_in_documents_have_targets() {
    let all = documents();
    assert!(
        DOCUMENTS
            .iter()
            .all(|document| all.iter().any(|other| other == document)),
        "{all:?}"
    );
    for document in &all {
        let folder = root().join(document).parent().expect("a folder").to_owned();
        for link in links(&read(document)) {
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() {
                root().join(document)
            } else {
                folder.join(path)
            };
            assert!(target.exists(), "{document}: {link} has no target");
            if !anchor.is_empty() {
                let found = anchors(&std::fs::read_to_string(&target).expect("a document"))
                    .contains(&anchor.to_owned());
                assert!(found, "{document}: {link} has no such heading");
            }
        }
    }
}

#[test]
fn files_named_in_documents_exist() {
    for document in documents() {
        // A path is relative to the root, to the folder of the document, or to these sources.
        let folder = root()
            .join(&document)
            .parent()
            .expect("a folder")
            .to_owned();
        let from = [
            root(),
            folder,
            root().join("server/src"),
            root().join("plugins/auth/src"),
        ];
        for (line, path) in paths(&read(&document)) {
            assert!(
                from.iter().any(|folder| folder.join(&path).exists()),
                "{document}:{line}: there is no `{path}`"
            );
        }
    }
}

/// Whether a line of a manifest in a document matches this workspace: paths of its packages, and
/// versions of shared dependencies.
fn is_valid_manifest_line(line: &str) -> bool {
    if let Some((package, path)) = line.split_once(" = { path = \"../linchpin/") {
        let path = path.split('"').next().unwrap_or_default();
        return read(&format!("{path}/Cargo.toml")).contains(&format!("name = \"{package}\""));
    }
    let is_foreign = ["", "[dependencies]"].contains(&line)
        || line.starts_with('#')
        || ["tokio = ", "serde_json = "]
            .iter()
            .any(|start| line.starts_with(start));
    is_foreign || read("Cargo.toml").lines().any(|own| own == line)
}

#[test]
fn lines_have_at_most_100_characters() {
    for document in documents() {
        // `cargo xtask bench` generates lines of this document.
        let width = if document == "benches/README.md" {
            140
        } else {
            100
        };
        for (line, text) in prose(&read(&document)) {
            let table = text.starts_with('|');
            assert!(
                table || text.chars().count() <= width,
                "{document}:{line}: {} characters",
                text.chars().count()
            );
        }
    }
}

#[test]
fn the_session_prints_the_documented_output() {
    let readme = blocks(&read("README.md"));
    let commands = readme
        .iter()
        .filter(|b| b.kind == "sh")
        .flat_map(|b| b.text.lines());
    assert!(
        commands.eq(COMMANDS),
        "the README starts the application, registers, and starts it on another database"
    );
    check_session(&[]);
}

/// The same session on PostgreSQL.
#[cfg(feature = "postgres")]
#[test]
fn the_session_prints_the_documented_output_on_postgres() {
    check_session(&[(
        "LINCHPIN_DATABASE_URL",
        &example_support::postgres::fresh_url(),
    )]);
}

fn check_session(variables: &[(&str, &str)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_with(BINARY, folder.path(), variables);
    let register = REGISTER
        .replace("curl", "curl -s")
        .replace("localhost:3000", &format!("localhost:{}", server.port));
    let registered = run(&[register], folder.path()).remove(0).output;
    assert!(
        registered.contains(r#""email":"alice@example.com""#)
            && registered.contains(r#""token":""#),
        "{registered}"
    );
    let differences = differences("README.md", "quickstart", &server);
    assert!(
        differences.is_empty(),
        "README.md shows another output for these commands:\n{differences}"
    );
}

#[test]
fn records_survive_a_killed_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(BINARY, folder.path());
    let alice = Client::user(&server, "alice", &[]);
    let created = alice.send("POST", "/posts", json!({"slug": "kept", "title": "T"}));
    assert_eq!(
        (created.status, &created.body["slug"]),
        (201, &json!("kept"))
    );
    drop(server);
    let server = Server::start(BINARY, folder.path());
    assert_eq!(
        Client::anonymous(&server)
            .ask("GET", "/posts/by-slug/kept", "")
            .body,
        created.body
    );
    // A session is a record as well.
    assert_eq!(
        alice
            .at(&server)
            .send("POST", "/posts", json!({"slug": "more", "title": "T"}))
            .status,
        201
    );
}

#[test]
fn the_golden_openapi_document_is_up_to_date() {
    golden(BINARY, "quickstart");
}
