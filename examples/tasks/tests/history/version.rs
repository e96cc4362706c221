//! A version of the app: its program, with the migrations up to this version.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use example_support::markdown::root;
use example_support::session::{Server, command};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

/// The number of the present version.
pub const PRESENT: usize = 11;

/// The names of the migrations, one for each version.
pub const MIGRATION_NAMES: [&str; PRESENT] = [
    "start",
    "name_to_title",
    "tag_to_tags",
    "add_done_at_and_priority",
    "unique_titles",
    "doing_and_blocked",
    "no_cancelled",
    "drop_notes",
    "add_title_key",
    "trim_title_key",
    "soft_delete",
];

/// A version of the app, in a temporary folder.
pub struct Version {
    pub number: usize,
    /// The number as a text, for the environment variable.
    text: String,
    url: String,
    folder: TempDir,
}

/// The output of a command.
#[derive(Debug)]
pub struct Output {
    pub exit: i32,
    pub json: Json,
}

/// The recorded migrations of the example.
pub fn recorded() -> PathBuf {
    root().join("examples/tasks/migrations")
}

/// The name of the file of a migration.
pub fn file(number: usize) -> String {
    format!("{number:04}_{}.json", MIGRATION_NAMES[number - 1])
}

impl Version {
    /// A version with the first `migrations` recorded migrations.
    pub fn with_migrations(number: usize, migrations: usize, url: &str) -> Self {
        Self::from_folder(number, (&recorded(), migrations), url)
    }

    /// A version with the first `migrations` migrations of a folder.
    pub fn from_folder(number: usize, (from, migrations): (&Path, usize), url: &str) -> Self {
        let version = Self {
            number,
            text: number.to_string(),
            url: url.to_owned(),
            folder: tempfile::tempdir().expect("a folder"),
        };
        let to = version.migrations();
        std::fs::create_dir(&to).expect("created");
        let index = std::fs::read_to_string(from.join("chain.json")).expect("chain.json");
        let mut index: Json = serde_json::from_str(&index).expect("JSON");
        let all = index["migrations"].as_array_mut().expect("a list");
        all.truncate(migrations);
        for entry in all.iter() {
            let file = entry["file"].as_str().expect("a name");
            std::fs::copy(from.join(file), to.join(file)).expect("copied");
        }
        std::fs::write(to.join("chain.json"), index.to_string()).expect("written");
        version
    }

    /// A version with its own migrations.
    pub fn new(number: usize, url: &str) -> Self {
        Self::with_migrations(number, number, url)
    }

    /// The folder of its migrations.
    pub fn migrations(&self) -> PathBuf {
        self.folder.path().join("migrations")
    }

    fn program(&self) -> &'static str {
        match self.number {
            PRESENT => env!("CARGO_BIN_EXE_tasks"),
            _ => env!("CARGO_BIN_EXE_tasks-history"),
        }
    }

    fn variables(&self) -> [(&str, &str); 3] {
        [
            ("TASKS_VERSION", &self.text),
            ("LINCHPIN_DATABASE_URL", &self.url),
            // A session of one version is valid in the next.
            (
                "LINCHPIN_SIGNING_SECRET",
                "only a test: 32 bytes or more of it",
            ),
        ]
    }

    /// Runs a command without `--json`. Returns the exit status and the output.
    pub fn run(&self, words: &str) -> (i32, String) {
        let output = command(self.program(), self.folder.path())
            .args(words.split_whitespace())
            .envs(self.variables())
            .output()
            .expect("the program runs");
        let text = [output.stdout, output.stderr].concat();
        let exit = output.status.code().expect("an exit status");
        (exit, String::from_utf8(text).expect("text"))
    }

    /// Runs `migrate WORDS --json`.
    pub fn migrate(&self, words: &str) -> Output {
        let output = command(self.program(), self.folder.path())
            .arg("migrate")
            .args(words.split(' '))
            .arg("--json")
            .envs(self.variables())
            .output()
            .expect("the program runs");
        let exit = output.status.code().expect("an exit status");
        let json: Json = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{words}: {error}: {output:?}"));
        assert_eq!(json["exit"], exit, "{json}");
        Output { exit, json }
    }

    /// Runs a command that is killed at a fault point.
    #[track_caller]
    pub fn run_killed(&self, words: &str, fault: &str) {
        let output = command(self.program(), self.folder.path())
            .arg("migrate")
            .args(words.split(' '))
            .envs(self.variables())
            .env("LINCHPIN_FAULT", fault)
            .output()
            .expect("the program runs");
        let signal = output.status.signal();
        assert_eq!(
            signal,
            Some(9),
            "version {}: {fault}: {output:?}",
            self.number
        );
    }

    /// Runs a command that must succeed, and returns its result.
    #[track_caller]
    pub fn run_to_end(&self, words: &str) -> Json {
        let Output { exit, mut json } = self.migrate(words);
        assert_eq!(exit, 0, "version {}: {words}: {json:#}", self.number);
        json["result"].take()
    }

    /// Runs a command that must fail with an exit status and an error code.
    #[track_caller]
    pub fn assert_error(&self, words: &str, exit: i32, code: &str) -> Json {
        let output = self.migrate(words);
        assert_eq!(
            (output.exit, &output.json["error"]["code"]),
            (exit, &json!(code)),
            "version {}: {words}: {:#}",
            self.number,
            output.json
        );
        output.json
    }

    /// The option that approves the present plan; empty if it needs no approval.
    pub fn approval(&self) -> String {
        let plan = self.run_to_end("plan");
        let digest = plan["approvalDigest"].as_str();
        digest.map_or_else(String::new, |digest| format!(" --approve {digest}"))
    }

    /// Starts the server.
    pub fn serve(&self) -> Server {
        Server::start_with(self.program(), self.folder.path(), &self.variables())
    }

    /// Starts a server that must not serve this database.
    #[track_caller]
    pub fn assert_not_serving(&self) {
        match Server::try_start(self.program(), self.folder.path(), &self.variables()) {
            Ok(_) => panic!("version {} serves", self.number),
            Err(status) => assert_eq!(status.code(), Some(78), "version {}", self.number),
        }
    }
}

/// The recorded migration in a folder.
pub fn migration(folder: &Path, number: usize) -> Json {
    let text = std::fs::read_to_string(folder.join(file(number)));
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", file(number)));
    serde_json::from_str(&text).expect("JSON")
}
