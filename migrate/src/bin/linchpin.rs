//! The command `linchpin`: `linchpin migrate ..` and `linchpin schema ..`.
//!
//! In the folder of a cargo package it builds the app and passes the arguments to it. The app has
//! the declarations and functions. With `--schema FILE` it uses only a saved snapshot and a folder
//! of migrations.

use std::process::ExitCode;
use std::sync::Arc;

use linchpin_core::schema::SchemaStore;
use linchpin_core::store::{DatabaseUrl, StoreProvider};
use linchpin_migrate::{Exit, Refusal, cli};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let status = cli::standalone(&args, &open);
    ExitCode::from(u8::try_from(status).unwrap_or(1))
}

fn open(url: &DatabaseUrl) -> Result<Arc<dyn SchemaStore>, Refusal> {
    let refused = |message: String| Refusal::new("target_refused", Exit::Target, message);
    let stores: [Box<dyn StoreProvider>; 2] = [
        Box::new(linchpin_sqlite::SqliteProvider::default()),
        Box::new(linchpin_postgres::PostgresProvider::default()),
    ];
    let scheme = url.scheme().unwrap_or_default();
    let store = stores
        .iter()
        .find(|store| store.kind().schemes.contains(&scheme))
        .ok_or_else(|| refused("the URL must begin with `sqlite:` or `postgres:`".to_owned()))?;
    store
        .check(url)
        .map_err(|flaw| refused(format!("the URL {}", url.redact(&flaw))))?;
    store
        .schema(url)
        .map_err(|error| refused(url.redact(error.message())))?
        .ok_or_else(|| {
            let name = store.kind().name;
            refused(format!("the store `{name}` does not support migrations"))
        })
}
