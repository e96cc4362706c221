//! The plain server on SQLite: axum and sqlx as a careful person writes them.
#![allow(missing_docs)] // a program

#[path = "../plain/sqlite.rs"]
mod db;
#[path = "../plain/items.rs"]
mod items;
#[path = "../plain/posts.rs"]
mod posts;
#[path = "../plain/server.rs"]
mod server;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    server::serve().await
}
