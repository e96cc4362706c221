//! Databases of the servers under test: a separate copy of one seeded database for each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::{Server, run_to_end};
use crate::postgres::Cluster;

/// The store of the servers under test.
pub(super) enum Database {
    /// Files in this folder.
    Sqlite(PathBuf),
    /// Databases of a Postgres server that xtask has started.
    Postgres(Cluster),
}

impl Database {
    /// Creates the tables with the generated server, and fills them with the driver.
    pub(super) fn seed(&self, bin: &Path) -> Result<(), String> {
        let url = match self {
            Self::Sqlite(folder) => sqlite(&folder.join("seed.db")),
            Self::Postgres(cluster) => {
                cluster.sql("CREATE DATABASE seed")?;
                cluster.url("seed")
            }
        };
        Server::start(Command::new(bin.join("bench-generated")), &url)?.stop()?;
        run_to_end(Command::new(bin.join("bench-driver")).args(["seed", &url]))
    }

    /// Makes a new copy for one server, which replaces its earlier copy; returns the URL.
    pub(super) fn new_copy(&self, server: &str) -> Result<String, String> {
        match self {
            Self::Sqlite(folder) => {
                let file = folder.join(format!("{server}.db"));
                for end in ["", "-wal", "-shm"] {
                    let _ = fs::remove_file(folder.join(format!("{server}.db{end}")));
                }
                fs::copy(folder.join("seed.db"), &file).map_err(|e| e.to_string())?;
                Ok(sqlite(&file))
            }
            Self::Postgres(cluster) => {
                let name = server.replace('-', "_");
                cluster.sql(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))?;
                cluster.sql(&format!("CREATE DATABASE {name} TEMPLATE seed"))?;
                // Flush the copy, so that its writes do not slow down the next server.
                cluster.sql("CHECKPOINT")?;
                Ok(cluster.url(&name))
            }
        }
    }
}

fn sqlite(file: &Path) -> String {
    format!("sqlite:{}", file.display())
}
