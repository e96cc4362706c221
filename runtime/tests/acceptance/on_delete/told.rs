//! Effects of a deletion emit events like every other change.

use linchpin::event::Batch;
use linchpin::{BoxFuture, EntityEvent, EventSink, Result};
use serde_json::json;

use super::{OFFICE, people, post};
use crate::server::Server;

/// Forwards events to a channel.
struct Heard(tokio::sync::mpsc::UnboundedSender<EntityEvent>);

impl EventSink for Heard {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for event in batch {
                let _ = self.0.send(EntityEvent::clone(event));
            }
            Ok(())
        })
    }
}

/// Every affected record emits its own event, whoever deleted the first record. A rolled-back
/// deletion emits none.
async fn effects_are_told(start: impl AsyncFnOnce(Heard) -> Server) {
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let s = start(Heard(sender)).await;
    let token = s.token("boss", &[]);
    people(&s, &["ann", "bob"]).await;
    post(&s, "/desks", json!({"id": "d", "personId": "bob"})).await;
    post(&s, "/memos", json!({"id": "m", "authorId": "ann"})).await;
    post(&s, "/memos", json!({"id": "n", "authorId": "bob"})).await;
    post(&s, "/projects", json!({"id": "p", "leadId": "ann"})).await;
    post(&s, "/tickets", json!({"id": "1", "projectId": "p"})).await;
    assert_eq!(s.delete("/people/bob").await.status, 409);
    let deleted = s
        .raw("DELETE", "/people/ann", &[("authorization", &token)], "")
        .await;
    assert_eq!(deleted.status, 204);
    let mut told = Vec::new();
    while told.len() < 11 {
        let event = tokio::time::timeout(std::time::Duration::from_secs(10), events.recv())
            .await
            .expect("an event in time")
            .unwrap();
        told.push((
            event.name.clone(),
            event.record_id.clone().unwrap_or_default(),
            event.actor.id.clone(),
            event.id.clone(),
        ));
    }
    assert_eq!(told[7].3.as_str(), deleted.header("x-event-id"));
    let mut told: Vec<(&str, &str, Option<&str>)> = told[7..]
        .iter()
        .map(|(n, r, a, _)| (n.as_str(), r.as_str(), a.as_deref()))
        .collect();
    told.sort_unstable();
    let by = Some("boss");
    let expected = [
        ("memos.updated", "m", by),
        ("people.deleted", "ann", by),
        ("projects.deleted", "p", by),
        ("tickets.deleted", "1", by),
    ];
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    effects_are_told(async |heard| {
        Server::memory_with(&OFFICE, |app| app.event_sink("heard", heard)).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    effects_are_told(async |heard| {
        Server::sqlite_with(&OFFICE, |app| app.event_sink("heard", heard)).await
    })
    .await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    effects_are_told(async |heard| {
        Server::postgres_with(&OFFICE, |app| app.event_sink("heard", heard)).await
    })
    .await;
}
