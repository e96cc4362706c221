//! The server as a user of Linchpin writes it, on SQLite or PostgreSQL, depending on the URL.
#![allow(missing_docs)] // a program

#[path = "../generated/items.rs"]
mod items;
#[path = "../generated/posts.rs"]
mod posts;

use linchpin::event::Batch;
use linchpin::prelude::*;
use linchpin::{BoxFuture, Config, Durability, EventSink};

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
    // Event consumers that ignore their events, to measure their cost. Each change stores an event
    // in the outbox, unless all consumers are live.
    let app = match std::env::var("BENCH_EVENTS").as_deref() {
        Ok("live") => app.event_sink("bench", IgnoreEvents { live: true }),
        Ok(consumers) => (0..consumers.parse().unwrap_or(1)).fold(app, |app, n| {
            app.event_sink(format!("bench {n}"), IgnoreEvents { live: false })
        }),
        Err(_) => app,
    };
    app.serve().await
}

/// A sink that receives every event and ignores it.
struct IgnoreEvents {
    live: bool,
}

impl EventSink for IgnoreEvents {
    fn publish<'a>(&'a self, _: &'a Batch) -> BoxFuture<'a, linchpin::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_live(&self) -> bool {
        self.live
    }
}
