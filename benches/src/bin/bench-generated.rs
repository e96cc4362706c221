//! The generated server: what a user of Linchpin writes. On SQLite or Postgres, as the URL says.
#![allow(missing_docs)] // a program

#[path = "../generated/items.rs"]
mod items;
#[path = "../generated/posts.rs"]
mod posts;

use linchpin::prelude::*;
use linchpin::{BoxFuture, Config, Durability, EntityEvent, EventSink};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(worker_threads = 2)]
async fn main() -> linchpin::Result<()> {
    let (port, url) = linchpin_benches::arguments();
    let config = Config::new()
        .port(port)
        .signing_secret(linchpin_benches::SECRET)
        .database(url)
        .durability(Durability::Full);
    let app = App::new(config)
        .plugin(JwtAuth::new())
        .package(&posts::POSTS)
        .package(&items::ITEMS);
    // What a listener costs: each change leaves an event in the outbox, which is delivered to
    // somebody who does nothing with it.
    let app = if std::env::var_os("BENCH_EVENTS").is_some() {
        app.event_sink("bench", Deaf)
    } else {
        app
    };
    app.serve().await
}

/// Hears everything and keeps nothing.
struct Deaf;

impl EventSink for Deaf {
    fn publish<'a>(&'a self, _: &'a [EntityEvent]) -> BoxFuture<'a, linchpin::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
