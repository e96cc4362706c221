//! The earlier versions of the app. The environment variable `TASKS_VERSION` selects one.
//!
//! They have the routes of the entity, but no operations. The present version is the program
//! `tasks`.

mod versions;

use linchpin::prelude::*;
use linchpin::transforms::string_to_string_array;
use linchpin_auth::Auth;

#[tokio::main]
async fn main() -> linchpin::Result<()> {
    let version = std::env::var("TASKS_VERSION").unwrap_or_default();
    let Some(board) = versions::board(&version) else {
        return Err(linchpin::Error::internal(format!(
            "TASKS_VERSION is `{version}`; there are the versions 1 to 10"
        )));
    };
    App::new(Config::from_env()?)
        .plugin(Auth::from_env().roles(["admin"]))
        .package(board)
        // The folder does not exist, so the app reads the migrations of the working directory.
        .migrations(linchpin::migrations!(
            "tests/history/migrations",
            transforms = [string_to_string_array]
        ))
        .run()
        .await
}
