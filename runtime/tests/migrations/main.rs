//! The commands `migrate ..` and `schema ..` of an app, as processes.
//!
//! The test program runs itself as the app. The file `app` in the working directory of such a
//! process names the generation of its declarations and the arguments, because its environment is
//! empty.
#![cfg(all(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, missing_docs)] // in a test, a panic reports the failure

mod approval;
mod commands;
mod declared;
mod files;
mod leases;
mod output;
mod planning;
#[path = "../support/postgres.rs"]
mod server;
mod serving;
mod starting;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use linchpin::prelude::*;
use serde_json::Value as Json;
use tempfile::TempDir;

/// The last line before the output of the app.
const MARK: &str = "-- the output of the app --";

/// The app itself: it runs the arguments in the file `app`.
#[tokio::test]
#[ignore = "the program that other tests run"]
async fn app() {
    let Ok(text) = fs::read_to_string("app") else {
        return;
    };
    let mut lines = text.lines();
    let package = declared::generation(lines.next().unwrap());
    let args: Vec<String> = lines.map(str::to_owned).collect();
    println!("{MARK}");
    let app = App::new(Config::from_env().unwrap()).package(package);
    app.run_with(&args).await.unwrap();
    // The test harness prints nothing more.
    std::process::exit(0);
}

/// A folder in which the app runs.
struct AppFolder {
    folder: TempDir,
}

/// The output of a process.
#[derive(Debug)]
struct ProcessOutput {
    exit: i32,
    out: String,
    err: String,
}

impl ProcessOutput {
    /// Parses standard output, which must be one JSON document.
    #[track_caller]
    fn json(&self) -> Json {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl AppFolder {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A folder with a recorded migration of this generation.
    fn recorded(generation: &str) -> Self {
        let place = Self::new();
        let output = place.run(generation, "migrate record start");
        assert_eq!(output.exit, 0, "{output:?}");
        place
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        self.folder.path().join("migrations").join(file)
    }

    /// Runs the app of a generation with an empty environment.
    fn run(&self, generation: &str, words: &str) -> ProcessOutput {
        self.run_in(generation, words, &[])
    }

    /// Like [`run`](Self::run), with these environment variables.
    fn run_in(&self, generation: &str, words: &str, variables: &[(&str, &str)]) -> ProcessOutput {
        let lines: Vec<&str> = [generation]
            .into_iter()
            .chain(words.split_whitespace())
            .collect();
        fs::write(self.folder.path().join("app"), lines.join("\n")).unwrap();
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "app", "--ignored", "--nocapture"])
            .args(["--test-threads", "1"])
            .current_dir(self.folder.path())
            .env_clear()
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let out = String::from_utf8(stdout).unwrap();
        let (_, out) = out
            .split_once(&format!("{MARK}\n"))
            .unwrap_or_else(|| panic!("the app did not start: {out}"));
        ProcessOutput {
            exit: status.code().unwrap(),
            out: out.to_owned(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }

    /// The names and texts of all recorded files.
    fn files(&self) -> Vec<(String, String)> {
        texts(&self.folder.path().join("migrations"))
    }
}

fn texts(dir: &Path) -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut all: Vec<(String, String)> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    all.sort();
    all
}
