//! Cases about presence: the leases of users.

use std::time::Duration;

use super::{Harness, TestClock, long, stream};
use crate::engine::{Attendance, History, LEASE, Member, RENEWAL, Stream};

const NO_USERS: [&str; 0] = [];
const SECOND: Duration = Duration::from_secs(1);

/// A user on two nodes is reported once as arrived and once as left.
pub async fn the_first_arrival_and_the_last_departure_are_reported_once(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let (stream, other) = (stream(long()), stream(long()));
    assert_eq!(
        a.presence_enter(&stream, &["ada", "o'hara \"x\""])
            .await
            .unwrap(),
        ["ada", "o'hara \"x\""]
    );
    assert_eq!(a.presence_enter(&other, &["ada"]).await.unwrap(), ["ada"]);
    assert_eq!(
        b.presence_enter(&stream, &["ada", "bob"]).await.unwrap(),
        ["bob"]
    );
    assert_eq!(a.presence_enter(&stream, &["ada"]).await.unwrap(), NO_USERS);
    assert_eq!(
        a.presence_leave(&stream, &["ada", "eve"]).await.unwrap(),
        NO_USERS
    );
    assert_eq!(a.presence_leave(&stream, &["ada"]).await.unwrap(), NO_USERS);
    assert_eq!(
        b.presence_leave(&stream, &["bob", "ada"])
            .await
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        b.presence_leave(&stream, &["bob", "ada"]).await.unwrap(),
        NO_USERS
    );
    assert_eq!(a.presence(&stream, 10).await.unwrap().count, 1);
    assert_eq!(a.presence(&other, 10).await.unwrap().count, 1);
}

/// If two nodes enter a user at once, exactly one of them reports the arrival.
pub async fn two_nodes_that_enter_a_user_at_once_report_one_arrival(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    for n in 0..20 {
        let user = format!("user{n}");
        let users = [user.as_str()];
        let (at_a, at_b) = tokio::join!(
            a.presence_enter(&stream, &users),
            b.presence_enter(&stream, &users)
        );
        let arrived = [at_a.unwrap(), at_b.unwrap()].concat();
        assert_eq!(arrived, users);
        let (at_a, at_b) = tokio::join!(
            a.presence_leave(&stream, &users),
            b.presence_leave(&stream, &users)
        );
        assert_eq!([at_a.unwrap(), at_b.unwrap()].concat(), [user]);
    }
}

/// The users of a killed node leave when its leases end. Each departure is reported once.
pub async fn a_lease_that_is_not_renewed_ends(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    a.presence_enter(&stream, &["ada", "bob"]).await.unwrap();
    b.presence_enter(&stream, &["bob"]).await.unwrap();
    for _ in 0..3 {
        time.advance(RENEWAL.saturating_sub(SECOND));
        assert_eq!(b.presence_enter(&stream, &["bob"]).await.unwrap(), NO_USERS);
        assert_eq!(b.presence_expire(&stream).await.unwrap(), NO_USERS);
    }
    time.advance(4 * SECOND);
    let present = b.presence(&stream, 10).await.unwrap();
    assert_eq!((present.count, present.users[0].user.as_str()), (1, "bob"));
    let (at_a, at_b) = tokio::join!(a.presence_expire(&stream), b.presence_expire(&stream));
    assert_eq!([at_a.unwrap(), at_b.unwrap()].concat(), ["ada"]);
    assert_eq!(b.presence_expire(&stream).await.unwrap(), NO_USERS);
    // The node was only slow. Its renewal counts as a new arrival.
    assert_eq!(
        a.presence_enter(&stream, &["ada", "bob"]).await.unwrap(),
        ["ada"]
    );
    // An expired lease counts as a departure only after its removal.
    time.advance(LEASE + SECOND);
    assert_eq!(a.presence_enter(&stream, &["ada"]).await.unwrap(), NO_USERS);
    assert_eq!(a.presence_expire(&stream).await.unwrap(), ["bob"]);
    assert_eq!(a.presence(&stream, 10).await.unwrap().count, 1);
}

/// A snapshot lists a limited number of users, and counts all of them.
pub async fn a_snapshot_lists_the_earliest_arrivals_and_counts_all(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    assert_eq!(a.presence(&stream, 2).await.unwrap().count, 0);
    let mut expected = Vec::new();
    for (node, user) in [(&a, "zoe"), (&b, "ada"), (&a, "bob")] {
        node.presence_enter(&stream, &[user]).await.unwrap();
        expected.push(Member {
            user: user.to_owned(),
            since: time.now(),
        });
        time.advance(SECOND);
    }
    // A renewal, and an arrival on a further node, do not change the time of arrival.
    a.presence_enter(&stream, &["zoe", "ada"]).await.unwrap();
    let present = b.presence(&stream, 2).await.unwrap();
    assert_eq!((&present.users[..], present.count), (&expected[..2], 3));
    let present = a.presence(&stream, 500).await.unwrap();
    assert_eq!((present.users, present.count), (expected, 3));
}

/// After a loss of data the renewals make all users present again.
pub async fn presence_is_rebuilt_by_renewal_after_a_loss(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    a.presence_enter(&stream, &["ada"]).await.unwrap();
    b.presence_enter(&stream, &["bob"]).await.unwrap();
    harness.flush().await;
    assert_eq!(a.presence(&stream, 10).await.unwrap().count, 0);
    a.presence_enter(&stream, &["ada"]).await.unwrap();
    b.presence_enter(&stream, &["bob"]).await.unwrap();
    assert_eq!(a.presence(&stream, 10).await.unwrap().count, 2);
}

/// The leases of many streams are renewed with one call, which reports the changes of each.
pub async fn leases_of_many_streams_are_renewed_at_once(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let streams: Vec<Stream> = (0..40).map(|_| stream(History::default())).collect();
    // On the other node, a user is in every second stream.
    for one in streams.iter().step_by(2) {
        b.presence_enter(one, &["bob"]).await.unwrap();
    }
    let all: Vec<Attendance> = streams
        .iter()
        .enumerate()
        .map(|(n, stream)| Attendance {
            stream: stream.clone(),
            // A node may serve a room in which no user is counted.
            users: (0..n % 3).map(|user| format!("{n}.{user}")).collect(),
        })
        .collect();
    let changes = a.presence_renew(&all).await.unwrap();
    for (one, mut changes) in all.iter().zip(changes) {
        changes.arrived.sort();
        assert_eq!(changes.arrived, one.users);
        assert!(changes.left.is_empty());
    }
    let mut left = vec![0; streams.len()];
    for _ in 0..4 {
        time.advance(RENEWAL);
        for (n, changes) in a.presence_renew(&all).await.unwrap().iter().enumerate() {
            assert!(changes.arrived.is_empty());
            assert!(changes.left.iter().all(|user| user == "bob"));
            left[n] += changes.left.len();
        }
    }
    for (n, stream) in streams.iter().enumerate() {
        assert_eq!(
            left[n],
            (n + 1) % 2,
            "the lease of the other node has run out"
        );
        let present = a.presence(stream, 10).await.unwrap();
        assert_eq!(present.count, all[n].users.len());
    }
    let nobody: Vec<Attendance> = streams
        .iter()
        .map(|stream| Attendance {
            stream: stream.clone(),
            users: Vec::new(),
        })
        .collect();
    time.advance(LEASE + RENEWAL);
    let changes = b.presence_renew(&nobody).await.unwrap();
    for (one, mut changes) in all.iter().zip(changes) {
        changes.left.sort();
        assert_eq!(changes.left, one.users);
    }
}
