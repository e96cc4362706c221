//! An application that has been filled and is running: what a reader of an example's README has.

use std::path::Path;

use tempfile::TempDir;

use crate::client::Client;
use crate::markdown::{blocks, read, root};
use crate::session::{Server, command, differences};

/// A seeded application in a folder of its own.
pub struct Seeded {
    program: &'static str,
    pub server: Server,
    folder: TempDir,
}

impl Seeded {
    /// Runs `seed`, which must say what it did, and starts the application.
    pub fn start(program: &'static str, says: &str, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(printed(program, folder.path(), &["seed"], variables), format!("{says}\n"));
        let server = Server::start_with(program, folder.path(), variables);
        Self { program, server, folder }
    }

    /// Somebody with a token.
    pub fn user(&self, name: &str, roles: &[&str]) -> Client {
        Client::user(&self.server, self.program, self.folder.path(), name, roles)
    }

    /// Whether the README of a package shows what its commands print.
    pub fn check_readme(&self, package: &str) {
        let readme = format!("examples/{package}/README.md");
        let start: Vec<_> = blocks(&read(&readme)).into_iter().filter(|b| b.kind == "sh").map(|b| b.text).collect();
        // The same commands with another database: `Seeded` runs them.
        let postgres = format!(
            "export LINCHPIN_DATABASE_URL=postgres://user@localhost/{package}\ncargo run -p {package} --features postgres -- seed\n\
             cargo run -p {package} --features postgres\n"
        );
        assert_eq!(start, [format!("cargo run -p {package} -- seed\ncargo run -p {package}\n"), postgres]);
        for link in crate::markdown::links(&read(&readme)) {
            assert!(root().join("examples").join(package).join(&link).exists(), "{readme}: {link} leads nowhere");
        }
        let differences = differences(&readme, package, self.program, &self.server, self.folder.path());
        assert!(differences.is_empty(), "{readme} does not show what these print:\n{differences}");
    }
}

/// What a command of an application prints. It must succeed.
pub fn printed(program: &str, folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = command(program, folder).args(arguments).envs(variables.iter().copied()).output().expect("the program runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
