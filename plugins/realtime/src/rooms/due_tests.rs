//! Checks of many connections at once.

use std::time::Duration;

use super::live::Affected;
use super::rights::CHECKS;
use super::tests::*;
use super::*;

const ROOM: &str = "boards:b1:live";

/// Lets the tasks that are ready run.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn each_connection_waits_once_and_few_are_checked_at_a_time() {
    const MEMBERS: usize = 3 * CHECKS;
    let node = node().await;
    let users: Vec<&'static str> = (0..MEMBERS)
        .map(|n| &*Box::leak(format!("user {n}").into_boxed_str()))
        .collect();
    let members: Vec<_> = users
        .iter()
        .map(|user| connect(&node, user, user))
        .collect();
    for member in &members {
        assert_eq!(node.join(member, ROOM).await, "Fresh");
    }
    let live = node.hub.live_rooms().remove(0);
    // These checks end only by their time limit.
    node.sessions.stuck.lock().extend(&users);
    tokio::time::pause();
    let before = node.sessions.checks();
    for _ in 0..3 {
        let affected = members.iter().map(Affected::again).collect();
        node.hub.end_subscriptions(&live, affected);
        assert_eq!(node.hub.due.waiting(), MEMBERS);
    }
    settle().await;
    assert_eq!(node.sessions.checks() - before, CHECKS);
    assert_eq!(node.hub.due.waiting(), MEMBERS - CHECKS);
    // A connection whose check is running waits again, because of the changes since its begin.
    node.hub.check_soon(node.hub.entry(users[0]).unwrap());
    assert_eq!(node.hub.due.waiting(), MEMBERS - CHECKS + 1);
    // A connection that has ended does not wait any more.
    node.hub.ended(&members[MEMBERS - 1]);
    assert_eq!(node.hub.due.waiting(), MEMBERS - CHECKS);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(node.hub.due.waiting(), 0);
    assert_eq!(node.sessions.checks() - before, MEMBERS);
    assert!(node.hub.live_rooms().is_empty(), "none could be checked");
    // The next change starts workers again.
    node.hub.check_soon(node.hub.entry(users[1]).unwrap());
    settle().await;
    assert_eq!(node.sessions.checks() - before, MEMBERS + 1);
}
