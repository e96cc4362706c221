//! Tests of the limits of a server.

use linchpin_realtime::engine::{Attendance, EngineError};

use super::*;
use crate::nats_server::with_settings;

/// The settings of a server with the default maximum length of a message: 1 MiB.
const DEFAULT: &str = "jetstream { store_dir: 'store' }";

/// If the engine sent a message that is too long, the server would end the node's connection.
#[tokio::test]
async fn a_frame_that_is_too_long_for_the_server_is_refused_and_the_connection_stays() {
    let nats = with_settings(DEFAULT);
    let engine = nats.node(TestClock::default().clock()).await;
    let stream = Stream::new("tasks:1:live", History::default());
    let mut live = engine.subscribe(&stream).await.unwrap();
    let mut taken = 0;
    for shorter_by in (0..1000).step_by(50).chain([200_000]) {
        let name = format!("long-{shorter_by}");
        let long = Append {
            frame: vec![b'x'; (1 << 20) - shorter_by].into(),
            ..append(&stream, &name, None)
        };
        match engine.append(&[long]).await {
            Ok(_) => taken += 1,
            Err(EngineError::TooLarge { bytes, max }) => assert!(bytes > max - 200),
            Err(other) => panic!("{shorter_by}: {other:?}"),
        }
        let next_one = format!("short-{shorter_by}");
        engine
            .append(&[append(&stream, &next_one, None)])
            .await
            .unwrap();
        loop {
            match next(&mut live).await {
                Delivery::Frame(frame) if *frame.event.as_str() == *next_one => break,
                Delivery::Frame(frame) => assert_eq!(frame.event.as_str(), name),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(taken > 1, "{taken}");
    let slice = engine.read(&stream, 0, 500).await.unwrap();
    assert!(!slice.gap);
}

/// The users of a room must fit into one message. If it is full, present users stay, and new ones
/// are added when others leave.
#[tokio::test]
async fn a_room_with_too_many_users_keeps_the_first_ones() {
    let (nats, clock) = (with_settings(DEFAULT), TestClock::default());
    let (a, b) = (
        nats.node(clock.clock()).await,
        nats.node(clock.clock()).await,
    );
    let stream = Stream::new("tasks:1:live", History::default());
    let other = Stream::new("tasks:2:live", History::default());
    let users: Vec<String> = (0..15_000).map(|n| format!("{n:036}")).collect();
    let ids: Vec<&str> = users.iter().map(String::as_str).collect();
    let first = a.presence_enter(&stream, &ids[..5_000]).await.unwrap();
    assert_eq!(first.len(), 5_000);
    let more = a.presence_enter(&stream, &ids[5_000..]).await.unwrap();
    assert!((1_000..10_000).contains(&more.len()), "{}", more.len());
    let mut count = 5_000 + more.len();
    assert_eq!(a.presence(&stream, 9).await.unwrap().count, count);
    // The leases of all rooms are renewed.
    let attendance = [(&stream, &users), (&other, &vec!["ada".to_owned()])];
    let attendance = attendance.map(|(stream, users)| Attendance {
        stream: stream.clone(),
        users: users.clone(),
    });
    for _ in 0..4 {
        clock.advance(Duration::from_secs(15));
        let changes = a.presence_renew(&attendance).await.unwrap();
        // The length of users is estimated, so a few more may fit.
        count += changes[0].arrived.len();
        assert!(changes[0].left.is_empty());
        assert_eq!(b.presence(&stream, 9).await.unwrap().count, count);
        assert_eq!(b.presence(&other, 9).await.unwrap().count, 1);
    }
    let left = a.presence_leave(&stream, &ids[..100]).await.unwrap();
    assert_eq!(left.len(), 100);
    let taken = b.presence_enter(&stream, &ids[14_000..]).await.unwrap();
    assert!((50..=100).contains(&taken.len()), "{}", taken.len());
}

/// Appends fail until the operator frees space. Then they succeed again.
#[tokio::test]
async fn a_server_without_space_is_reported_and_loses_nothing() {
    let nats = with_settings("jetstream { store_dir: 'store', max_file: 4MB }");
    let engine = nats.node(TestClock::default().clock()).await;
    let (stream, other) = (
        Stream::new("tasks:1:live", History::default()),
        Stream::new("tasks:2:live", History::default()),
    );
    let mut live = engine.subscribe(&other).await.unwrap();
    let mut appended = 0;
    let error = loop {
        let long = Append {
            frame: vec![b'x'; 100_000].into(),
            ..append(&stream, &appended.to_string(), None)
        };
        match engine.append(&[long]).await {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
        assert!(appended < 100);
    };
    assert!(error.to_string().contains("JetStream"), "{error}");
    nats.ask(
        "PURGE.linchpin_frames",
        json!({ "filter": subject(stream.name()), "keep": 1 }),
    )
    .await;
    until_back(&*engine, &other, "1").await;
    match next(&mut live).await {
        Delivery::Frame(frame) => assert_eq!(frame.position.offset, 1),
        other => panic!("{other:?}"),
    }
    assert_eq!(engine.top(&stream).await.unwrap().offset, appended);
}
