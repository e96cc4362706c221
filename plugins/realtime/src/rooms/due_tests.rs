//! Tests of rights checks for many connections at once.

use std::time::Duration;

use super::live::Affected;
use super::rights::MAX_CHECKS;
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
async fn each_connection_waits_once_and_the_number_of_concurrent_checks_is_limited() {
    const MEMBERS: usize = 3 * MAX_CHECKS;
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
        let affected = members.iter().map(Affected::to_recheck).collect();
        node.hub.end_subscriptions(&live, affected);
        assert_eq!(node.hub.due.waiting(), MEMBERS);
    }
    settle().await;
    assert_eq!(node.sessions.checks() - before, MAX_CHECKS);
    assert_eq!(node.hub.due.waiting(), MEMBERS - MAX_CHECKS);
    // A connection whose check is running waits again, because its rights may have changed since
    // the start of the check.
    node.hub.check_soon(node.hub.entry(users[0]).unwrap());
    assert_eq!(node.hub.due.waiting(), MEMBERS - MAX_CHECKS + 1);
    // A connection that has ended does not wait any more.
    node.hub.ended(&members[MEMBERS - 1]);
    assert_eq!(node.hub.due.waiting(), MEMBERS - MAX_CHECKS);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(node.hub.due.waiting(), 0);
    assert_eq!(node.sessions.checks() - before, MEMBERS);
    assert!(node.hub.live_rooms().is_empty(), "no check succeeds");
    // The next change starts workers again.
    node.hub.check_soon(node.hub.entry(users[1]).unwrap());
    settle().await;
    assert_eq!(node.sessions.checks() - before, MEMBERS + 1);
}
