//! Effects of a deletion emit events like every other change.

use linchpin::event::Batch;
use linchpin::{BoxFuture, EntityEvent, EventSink, Result};
use serde_json::json;

use super::{OFFICE, people, post};
use crate::server::Server;

/// Forwards events to a channel.
struct ForwardEvents(tokio::sync::mpsc::UnboundedSender<EntityEvent>);

impl EventSink for ForwardEvents {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for event in batch {
                let _ = self.0.send(EntityEvent::clone(event));
            }
            Ok(())
        })
    }
}

/// Every affected record emits its own event, whose actor is the caller of the deletion. A
/// rolled-back deletion emits no event.
async fn effects_of_a_deletion_emit_events(start: impl AsyncFnOnce(ForwardEvents) -> Server) {
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let s = start(ForwardEvents(sender)).await;
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
    let mut received = Vec::new();
    while received.len() < 11 {
        let event = tokio::time::timeout(std::time::Duration::from_mins(1), events.recv())
            .await
            .expect("an event in time")
            .unwrap();
        received.push((
            event.name.clone(),
            event.record_id.clone().unwrap_or_default(),
            event.actor.id.clone(),
            event.id.clone(),
        ));
    }
    assert_eq!(received[7].3.as_str(), deleted.header("x-event-id"));
    let mut received: Vec<(&str, &str, Option<&str>)> = received[7..]
        .iter()
        .map(|(n, r, a, _)| (n.as_str(), r.as_str(), a.as_deref()))
        .collect();
    received.sort_unstable();
    let boss = Some("boss");
    let expected = [
        ("memos.updated", "m", boss),
        ("people.deleted", "ann", boss),
        ("projects.deleted", "p", boss),
        ("tickets.deleted", "1", boss),
    ];
    assert_eq!(received, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    effects_of_a_deletion_emit_events(async |sink| {
        Server::memory_with(&OFFICE, |app| app.event_sink("heard", sink)).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    effects_of_a_deletion_emit_events(async |sink| {
        Server::sqlite_with(&OFFICE, |app| app.event_sink("heard", sink)).await
    })
    .await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    effects_of_a_deletion_emit_events(async |sink| {
        Server::postgres_with(&OFFICE, |app| app.event_sink("heard", sink)).await
    })
    .await;
}
