//! A running application with seeded data, as a reader of an example's README has it.

use tempfile::TempDir;

use crate::client::Client;
use crate::markdown::{blocks, read, root};
use crate::session::{Server, differences, printed};

/// A seeded application in a folder of its own.
pub struct Seeded {
    pub server: Server,
    /// The folder of the database, removed at the end.
    _folder: TempDir,
}

impl Seeded {
    /// Runs `seed`, checks its output, and starts the application.
    pub fn start(program: &'static str, says: &str, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(
            printed(program, folder.path(), &["seed"], variables),
            format!("{says}\n")
        );
        let server = Server::start_with(program, folder.path(), variables);
        Self {
            server,
            _folder: folder,
        }
    }

    /// A user with a token.
    pub fn user(&self, name: &str, roles: &[&str]) -> Client {
        Client::user(&self.server, name, roles)
    }

    /// Checks that the README of a package shows what its commands print.
    pub fn check_readme(&self, package: &str) {
        let readme = format!("examples/{package}/README.md");
        let start: Vec<_> = blocks(&read(&readme))
            .into_iter()
            .filter(|b| b.kind == "sh")
            .map(|b| b.text)
            .collect();
        // The same commands with another database; `Seeded` runs them.
        let postgres = format!(
            "export LINCHPIN_DATABASE_URL=postgres://user@localhost/{package}\ncargo run -p {package} --features postgres -- seed\n\
             cargo run -p {package} --features postgres\n"
        );
        assert_eq!(
            start,
            [
                format!("cargo run -p {package} -- seed\ncargo run -p {package}\n"),
                postgres
            ]
        );
        for link in crate::markdown::links(&read(&readme)) {
            assert!(
                root().join("examples").join(package).join(&link).exists(),
                "{readme}: {link} leads nowhere"
            );
        }
        let differences = differences(&readme, package, &self.server);
        assert!(
            differences.is_empty(),
            "{readme} does not show what these print:\n{differences}"
        );
    }
}
