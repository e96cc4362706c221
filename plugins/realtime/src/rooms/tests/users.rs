//! The checks and the limits of users, one beside the other.

use super::*;

#[tokio::test]
async fn a_check_without_an_end_delays_no_other_one() {
    let node = node().await;
    let alice = connect(&node, "1", "alice");
    let bob = connect(&node, "2", "bob");
    let watch = tokio::spawn(Arc::clone(&node.hub).watch());
    for connection in [&alice, &bob] {
        node.join(connection, "boards:b1:live").await;
    }
    tokio::task::yield_now().await;
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    node.sessions.stuck.lock().push("alice");
    node.sessions.ended.lock().push("bob".to_owned());
    node.sessions.feed.user_changed("alice");
    node.sessions.feed.user_changed("bob");
    while !bob.is_closing() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(bob.closing(), Some(Close::SessionEnded));
    let took = began.elapsed();
    assert!(took < Duration::from_millis(500), "{took:?}");
    watch.abort();
}

#[tokio::test]
async fn users_of_other_tenants_and_programs_have_limits_of_their_own() {
    let node = node().await;
    let tenant = |tenant: &str| Actor {
        tenant_id: Some(tenant.to_owned()),
        ..Actor::user("alice")
    };
    let program = Actor {
        kind: ActorKind::Service,
        ..Actor::user("alice")
    };
    let all: Vec<_> = [tenant("a"), tenant("b"), Actor::user("alice"), program]
        .into_iter()
        .enumerate()
        .flat_map(|(n, actor)| {
            let first = connect_as(&node, &format!("{n}.1"), actor.clone());
            [first, connect_as(&node, &format!("{n}.2"), actor)]
        })
        .collect();
    assert!(all.iter().all(|connection| connection.closing().is_none()));
    let _third = connect_as(&node, "third", tenant("b"));
    let replaced = |connection: &Arc<Connection>| connection.closing().is_some();
    let replaced: Vec<bool> = all.iter().map(replaced).collect();
    assert_eq!(replaced.iter().filter(|replaced| **replaced).count(), 1);
    assert!(replaced[2], "the oldest of its tenant");
    // A change of a user concerns all of them.
    node.sessions.ended.lock().push("alice".to_owned());
    let entries = node.hub.entries.lock().users.entries_of("alice");
    assert_eq!(entries.len(), 9);
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn another_connection_begins_with_what_is_left_of_the_limits() {
    let node = node().await;
    tokio::time::pause();
    let most = node.hub.settings.limits.subscribes_per_minute;
    let first = connect(&node, "1", "alice");
    let entry = node.hub.entry("1").unwrap();
    assert!((0..most).all(|_| node.hub.take_subscribe(&entry).is_ok()));
    assert!(node.hub.take_subscribe(&entry).is_err());
    node.hub.ended(&first);
    let second = connect(&node, "2", "alice");
    let entry = node.hub.entry("2").unwrap();
    assert!(node.hub.take_subscribe(&entry).is_err());
    node.hub.ended(&second);
    assert!(!node.hub.entries.lock().users.is_empty());
    tokio::time::sleep(Duration::from_mins(1)).await;
    let (limits, now) = (&node.hub.settings.limits, tokio::time::Instant::now());
    node.hub.entries.lock().users.forget_idle(limits, now);
    assert!(node.hub.entries.lock().users.is_empty());
}
