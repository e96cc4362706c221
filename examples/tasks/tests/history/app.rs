//! The former versions of the app. The variable `TASKS_VERSION` names the version.
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
        // There is no such folder: the migrations are those of the working directory.
        .migrations(linchpin::migrations!(
            "tests/history/migrations",
            transforms = [string_to_string_array]
        ))
        .run()
        .await
}
