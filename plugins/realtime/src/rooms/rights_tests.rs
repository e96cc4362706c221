//! Tests of open subscriptions whose members get other rights, or cannot be checked.

use std::future::poll_fn;
use std::task::Poll;

use tokio::sync::Notify;

use super::tests::*;
use super::*;
use crate::channel::Channel;
use crate::engine::{History, Stream};

const ROOM: &str = "boards:b1:live";

impl Node {
    /// Makes the sessions of bob belong to another user, and checks his subscriptions again.
    async fn acts_as(&self, user: &'static str) {
        *self.sessions.acting.lock() = Some(("bob", user));
        let entry = self.hub.entry("1").unwrap();
        self.hub.check_rights(&entry).await;
        // Restore the earlier identity for the next change.
        entry.connection.bind(credential("bob"));
    }
}

#[tokio::test]
async fn a_member_with_changed_rights_gets_a_reset() {
    let node = node().await;
    let bob = connect(&node, "1", "bob");
    node.join(&bob, ROOM).await;
    assert_eq!(next_event(&bob), "subscribed 0");
    node.card("c1", "alice", false).await;
    node.card("c2", "bob", false).await;
    assert_eq!(event_soon(&bob).await, "created 2");
    node.acts_as("alice").await;
    assert_eq!(next_event(&bob), "reset 2 rights_changed");
    node.card("c3", "alice", false).await;
    assert_eq!(event_soon(&bob).await, "created 3");
    node.acts_as("alice").await;
    assert_eq!(next_event(&bob), "", "nothing has changed");
    // Fewer rights cause a reset, and so do more rights.
    node.acts_as("bob").await;
    assert_eq!(next_event(&bob), "reset 3 rights_changed");
    node.card("c4", "alice", false).await;
    node.card("c5", "bob", false).await;
    assert_eq!(event_soon(&bob).await, "created 5");
    node.acts_as("alice").await;
    assert_eq!(next_event(&bob), "reset 5 rights_changed");
    assert_eq!(next_event(&bob), "");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_change_of_rights_while_frames_are_replayed_is_checked_again() {
    let node = node().await;
    let bob = connect(&node, "1", "bob");
    let entry = node.hub.entry("1").unwrap();
    let carrier = Carrier::Channel(BoardLive::DESC);
    let guards = node.hub.guards_of(carrier).unwrap();
    let at = (carrier, ROOM, Some("b1"));
    let entered = node.hub.enter_stream(&entry, at, guards, None).await;
    let entered = entered.unwrap();
    node.acts_as("alice").await;
    assert_eq!(next_event(&bob), "", "the join is not complete yet");
    entered.joining.complete(entered.replay.top);
    assert_eq!(event_soon(&bob).await, "reset 0 rights_changed");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_check_that_exceeds_its_time_limit_is_a_refusal() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    node.join(&alice, ROOM).await;
    assert!(next_event(&alice).starts_with("subscribed"));
    node.card("c1", "alice", false).await;
    assert_eq!(event_soon(&alice).await, "created 1");
    node.sessions.stuck.lock().extend(["alice", "bob"]);
    tokio::time::pause();
    assert_eq!(node.join(&bob, ROOM).await, "unavailable");
    let entry = node.hub.entry("1").unwrap();
    node.hub.check_rights(&entry).await;
    assert_eq!(next_event(&alice), "reset 1 unavailable");
    assert_eq!(next_event(&alice), "unsubscribed unavailable");
    assert_eq!(next_event(&alice), "");
    assert!(node.hub.live_rooms().is_empty());
}

#[tokio::test]
async fn a_reset_has_the_position_of_the_last_delivered_frame() {
    let node = node().await;
    let bob = connect(&node, "1", "bob");
    node.card("c1", "bob", false).await;
    node.join(&bob, ROOM).await;
    assert_eq!(next_event(&bob), "subscribed 1");
    // The node does not receive the next frame yet.
    node.engine.cut();
    node.card("c2", "bob", false).await;
    node.acts_as("alice").await;
    let reset = bob.pop().unwrap();
    let reset: serde_json::Value = serde_json::from_str(reset.as_str()).unwrap();
    let stream = Stream::new(ROOM, History::default());
    let top = node.engine.top(&stream).await.unwrap();
    assert_eq!(reset["epoch"], top.epoch.as_str());
    assert_eq!(reset["offset"], 1, "later frames come after the reset");
    node.acts_as("bob").await;
    assert_eq!(next_event(&bob), "reset 1 rights_changed");
    node.engine.recover();
    assert_eq!(event_soon(&bob).await, "created 2");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn the_result_of_an_earlier_check_does_not_replace_a_later_one() {
    let node = node().await;
    let bob = connect(&node, "1", "bob");
    node.join(&bob, ROOM).await;
    assert_eq!(next_event(&bob), "subscribed 0");
    let entry = node.hub.entry("1").unwrap();
    *node.sessions.acting.lock() = Some(("bob", "alice"));
    let answer = Arc::new(Notify::new());
    *node.sessions.late.lock() = Some(Arc::clone(&answer));
    let mut early = Box::pin(node.hub.check_rights(&entry));
    let waits = poll_fn(|cx| Poll::Ready(early.as_mut().poll(cx).is_pending()));
    assert!(waits.await, "the session is not known yet");
    // Meanwhile bob gets his own rights back, and a second check completes.
    *node.sessions.acting.lock() = None;
    node.hub.check_rights(&entry).await;
    assert_eq!(next_event(&bob), "");
    answer.notify_one();
    early.await;
    assert_eq!(
        next_event(&bob),
        "",
        "the result of the first check is outdated"
    );
    node.card("c1", "alice", false).await;
    node.card("c2", "bob", false).await;
    assert_eq!(event_soon(&bob).await, "created 2");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn the_result_of_an_earlier_session_check_does_not_replace_a_later_one() {
    let node = node().await;
    let bob = connect(&node, "1", "bob");
    let entry = node.hub.entry("1").unwrap();
    let user = || bob.identity().and_then(|who| who.actor.id.clone());
    for later in ["a check", "a token"] {
        *node.sessions.acting.lock() = Some(("bob", "alice"));
        let answer = Arc::new(Notify::new());
        *node.sessions.late.lock() = Some(Arc::clone(&answer));
        let mut early = Box::pin(node.hub.check_rights(&entry));
        let waits = poll_fn(|cx| Poll::Ready(early.as_mut().poll(cx).is_pending()));
        assert!(waits.await, "the session is not known yet");
        *node.sessions.acting.lock() = None;
        match later {
            "a check" => node.hub.check_rights(&entry).await,
            _ => bob.bind(credential("bob")),
        }
        answer.notify_one();
        early.await;
        assert_eq!(user().as_deref(), Some("bob"), "{later}");
    }
    node.app.stop().await.unwrap();
}
