//! Tests of the help desk over HTTP: its README shows a session with two companies.

use example_support::markdown::{blocks, links, read, root};
use example_support::session::{Server, differences, golden};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tenants");
const README: &str = "examples/tenants/README.md";

#[test]
fn the_readme_matches_the_program() {
    let commands: Vec<String> = blocks(&read(README))
        .into_iter()
        .filter(|block| block.kind == "sh")
        .map(|block| block.text)
        .collect();
    assert_eq!(commands.concat().trim(), "cargo run -p tenants");
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(PROGRAM, folder.path());
    let differences = differences(README, "tenants", &server);
    assert!(
        differences.is_empty(),
        "{README} does not show what these print:\n{differences}"
    );
    for link in links(&read(README)) {
        let path = link.split_once('#').map_or(&*link, |(path, _)| path);
        assert!(
            root().join("examples/tenants").join(path).exists(),
            "{README}: {link} has no target"
        );
    }
}

#[test]
fn the_golden_openapi_document_is_up_to_date() {
    golden(PROGRAM, "tenants");
}
