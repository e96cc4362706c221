//! The benchmark app. Creating a post emits an event; webhooks deliver it, or a consumer drops it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use linchpin::event::Batch;
use linchpin::prelude::*;
use linchpin::store::Store;
use linchpin::testing::Client;
use linchpin::{Actor, ActorKind, BoxFuture, Config, Durability, EventSink, Running};
use linchpin_benches::SECRET;
use linchpin_webhooks::{Webhooks, webhook_events};
use serde_json::{Value as Json, json};

use crate::Outcome;
use crate::posts::{POSTS, Post};

/// The signing secret of every endpoint.
pub(super) const SIGNING: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const DATA_KEY: (&str, &str) = ("first", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE");

fn config(port: u16, url: &str) -> Config {
    Config::new()
        .port(port)
        .signing_secret(SECRET)
        .database(url)
        .durability(Durability::Full)
        .data_keys([DATA_KEY])
}

fn app(config: Config) -> App {
    let webhooks = Webhooks::new(webhook_events! { Post: [created] }).configure(|config| {
        config.allow_http = true;
        config.allow_cidrs = "127.0.0.0/8".parse().into_iter().collect();
    });
    App::new(config)
        .plugin(JwtAuth::new())
        .plugin(webhooks)
        .package(&POSTS)
}

pub(super) async fn start(file: &Path) -> Outcome<Running> {
    let config = config(0, &format!("sqlite:{}", file.display()));
    Ok(app(config).start().await?)
}

/// Starts the app on an open store.
pub(super) async fn start_on(store: Arc<dyn Store>) -> Outcome<Running> {
    let config = config(0, "memory:");
    Ok(app(config).store(store).start().await?)
}

/// Serves until it is stopped; without webhooks, a consumer ignores the events.
pub(crate) async fn serve(port: u16, url: &str, webhooks: bool) -> Outcome<()> {
    let config = config(port, url);
    let app = if webhooks {
        app(config)
    } else {
        App::new(config)
            .plugin(JwtAuth::new())
            .package(&POSTS)
            .event_sink("bench", IgnoreEvents)
    };
    Ok(app.serve().await?)
}

struct IgnoreEvents;

impl EventSink for IgnoreEvents {
    fn publish<'a>(&'a self, _: &'a Batch) -> BoxFuture<'a, linchpin::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Creates an endpoint with the highest limits; returns its id.
pub(super) async fn endpoint(running: &Running, url: &str) -> Outcome<String> {
    let actor = Actor {
        kind: ActorKind::User,
        id: Some("bench".to_owned()),
        roles: vec!["admin".to_owned()],
        ..Actor::anonymous()
    };
    let token = JwtAuth::token(SECRET, &actor, Duration::from_hours(24))?;
    let body = json!({
        "url": url, "events": ["*"], "secret": SIGNING,
        "maxPerSecond": 1_000, "maxInFlight": 50, "deliveryTimeoutMs": 30_000,
    });
    let client = Client::new(running).bearer(&token)?;
    let response = client.post("/webhooks/endpoints", body).await?;
    let record: Json = response.json()?;
    let id = record["id"].as_str();
    Ok(id
        .ok_or_else(|| response.text().map(str::to_owned).unwrap_or_default())?
        .to_owned())
}

/// Creates a file with the tables of the app and one endpoint, whose deliveries start a day later.
pub(crate) async fn seed(file: &Path) -> Outcome<()> {
    let running = start(file).await?;
    endpoint(&running, "http://127.0.0.1:9999/").await?;
    running.stop().await?;
    super::queue::hold(file)
}
