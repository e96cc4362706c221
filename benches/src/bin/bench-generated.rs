//! The generated server: what a user of Linchpin writes. On SQLite or Postgres, as the URL says.
#![allow(missing_docs)] // a program

#[path = "../generated/items.rs"]
mod items;
#[path = "../generated/posts.rs"]
mod posts;

use linchpin::prelude::*;
use linchpin::{Config, Durability};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(worker_threads = 2)]
async fn main() -> linchpin::Result<()> {
    let (port, url) = linchpin_benches::arguments();
    let config = Config::new().port(port).signing_secret(linchpin_benches::SECRET).database(url).durability(Durability::Full);
    App::new(config).plugin(JwtAuth::new()).package(&posts::POSTS).package(&items::ITEMS).serve().await
}
