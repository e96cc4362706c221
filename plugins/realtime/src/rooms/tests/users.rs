//! Tests that users have separate checks and limits.

use super::*;

#[tokio::test]
async fn a_check_that_never_ends_does_not_delay_other_checks() {
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
async fn users_of_different_tenants_and_programs_have_separate_limits() {
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
    assert!(
        replaced[2],
        "the oldest connection of the tenant's user ends"
    );
    // A change of the user `alice` affects all connections with this id, of any tenant and kind.
    node.sessions.ended.lock().push("alice".to_owned());
    let entries = node.hub.entries.lock().users.entries_of("alice");
    assert_eq!(entries.len(), 9);
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn connections_of_a_user_share_its_limits() {
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

#[tokio::test]
async fn presence_requests_are_limited_per_user_and_room() {
    let node = node().await;
    tokio::time::pause();
    let (first, second) = (connect(&node, "1", "alice"), connect(&node, "2", "alice"));
    let bob = connect(&node, "3", "bob");
    let (room, other) = ("boards:b1:live", "boards:b2:live");
    for connection in [&first, &second, &bob] {
        assert_eq!(node.join(connection, room).await, "Fresh");
    }
    assert_eq!(node.join(&first, other).await, "Fresh");
    let present = async |connection, room| match node.hub.presence(connection, room, None).await {
        Ok(_) => "",
        Err(error) => error.code().as_str(),
    };
    for n in 0..node.hub.settings.limits.relays_per_second {
        let connection = if n % 2 == 0 { &first } else { &second };
        assert_eq!(present(connection, room).await, "");
    }
    for connection in [&first, &second] {
        assert_eq!(present(connection, room).await, "rate_limited");
    }
    assert_eq!(present(&bob, room).await, "", "another user");
    assert_eq!(present(&first, other).await, "", "another room");
    tokio::time::sleep(Duration::from_millis(101)).await;
    assert_eq!(present(&second, room).await, "");
    assert_eq!(present(&first, room).await, "rate_limited");
}

#[tokio::test]
async fn users_who_leave_at_once_need_one_task() {
    let node = node().await;
    let room = "boards:b1:live";
    let watcher = connect(&node, "watcher", "watcher");
    node.join(&watcher, room).await;
    let members: Vec<_> = (0..50)
        .map(|n| connect(&node, &format!("{n}"), &format!("user {n}")))
        .collect();
    for member in &members {
        node.join(member, room).await;
    }
    tokio::time::pause();
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    for member in &members {
        node.hub.ended(member);
    }
    assert_eq!(tasks(), before + 1);
    // One of them returns within the grace period.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let back = connect(&node, "back", "user 7");
    node.join(&back, room).await;
    while !next_event(&watcher).is_empty() {}
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut left = Vec::new();
    loop {
        match next_event(&watcher) {
            last if last.is_empty() => break,
            last => left.push(last),
        }
    }
    assert_eq!(left.len(), 49, "{left:?}");
    assert!(left.iter().all(|event| event.starts_with("presence_leave")));
    assert_eq!(tasks(), before);
    // The departure of the next user is reported, too.
    node.hub.ended(&back);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(next_event(&watcher), "presence_leave user 7");
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_connections_at_once() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    let watch = tokio::spawn(Arc::clone(&node.hub).watch());
    node.join(&alice, "boards:b1:live").await;
    // The task listens after its first run.
    tokio::task::yield_now().await;
    node.sessions.ended.lock().push("alice".to_owned());
    for _ in 0..200 {
        node.sessions.feed.user_changed("alice");
        if alice.is_closing() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(alice.closing(), Some(Close::SessionEnded));
    assert_eq!(bob.closing(), None);
    watch.abort();
    node.app.stop().await.unwrap();
}
