//! A running application with sample data, as the README of an example starts it.

use tempfile::TempDir;

use crate::client::Client;
use crate::markdown::{blocks, read, root};
use crate::session::{Server, differences, printed};

/// An application with sample data in a temporary folder.
pub struct Seeded {
    pub server: Server,
    /// The folder of the database, removed at the end.
    _folder: TempDir,
}

impl Seeded {
    /// Runs `seed`, whose output must be this line, and starts the application.
    pub fn start(program: &'static str, expected_output: &str, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(
            printed(program, folder.path(), &["seed"], variables),
            format!("{expected_output}\n")
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

    /// Checks that the README of a package shows the output of its commands.
    pub fn check_readme(&self, package: &str) {
        let readme = format!("examples/{package}/README.md");
        let start: Vec<_> = blocks(&read(&readme))
            .into_iter()
            .filter(|b| b.kind == "sh")
            .map(|b| b.text)
            .collect();
        // `Seeded` runs these commands, except those for another database.
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
                "{readme}: {link} has no target"
            );
        }
        let differences = differences(&readme, package, &self.server);
        assert!(
            differences.is_empty(),
            "{readme} does not show what these print:\n{differences}"
        );
    }
}
