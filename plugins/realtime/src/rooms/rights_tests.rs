//! Standing subscriptions whose members see more or less than before, or cannot be checked.

use std::future::poll_fn;
use std::task::Poll;

use tokio::sync::Notify;

use super::tests::*;
use super::*;
use crate::channel::Channel;
use crate::engine::{History, Stream};

const ROOM: &str = "boards:b1:live";

impl Node {
    /// From now on the sessions of bob are of another user; his subscriptions are checked again.
    async fn acts_as(&self, user: &'static str) {
        *self.sessions.acting.lock() = Some(("bob", user));
        let entry = self.hub.entry("1").unwrap();
        self.hub.check_rights(&entry).await;
        // The earlier identity, for the next change.
        entry.connection.bind(credential("bob"));
    }
}

#[tokio::test]
async fn a_member_that_sees_other_events_than_before_starts_afresh() {
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
    // With less rights, and with more again.
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
    assert_eq!(next_event(&bob), "", "the room is not among its rooms yet");
    entered.joining.complete(entered.replay.top);
    assert_eq!(event_soon(&bob).await, "reset 0 rights_changed");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_check_without_an_end_is_a_refusal() {
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
async fn the_position_of_a_reset_is_one_of_the_stream() {
    let node = node().await;
    let bob = connect(&node, "1", "bob");
    node.card("c1", "bob", false).await;
    node.join(&bob, ROOM).await;
    assert_eq!(next_event(&bob), "subscribed 1");
    // The node does not receive it now.
    node.engine.cut();
    node.card("c2", "bob", false).await;
    node.acts_as("alice").await;
    let reset = bob.pop().unwrap();
    let reset: serde_json::Value = serde_json::from_str(reset.as_str()).unwrap();
    let stream = Stream::new(ROOM, History::default());
    let top = node.engine.top(&stream).await.unwrap();
    assert_eq!(reset["epoch"], top.epoch.as_str());
    assert_eq!(
        reset["offset"], 1,
        "what was not passed on yet comes after it"
    );
    node.acts_as("bob").await;
    assert_eq!(next_event(&bob), "reset 1 rights_changed");
    node.engine.recover();
    assert_eq!(event_soon(&bob).await, "created 2");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn an_earlier_check_that_ends_later_changes_nothing() {
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
    // Meanwhile bob has his own rights again, and a second check finds that.
    *node.sessions.acting.lock() = None;
    node.hub.check_rights(&entry).await;
    assert_eq!(next_event(&bob), "");
    answer.notify_one();
    early.await;
    assert_eq!(next_event(&bob), "", "it knows less than the second one");
    node.card("c1", "alice", false).await;
    node.card("c2", "bob", false).await;
    assert_eq!(event_soon(&bob).await, "created 2");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn an_earlier_answer_about_a_session_replaces_no_later_one() {
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
