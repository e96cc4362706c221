//! The conformance suite that every engine must pass.
//!
//! The tests of an engine implement [`Harness`] and call
//! [`engine_conformance!`](crate::engine_conformance), which expands to one test for each case:
//!
//! ```ignore
//! linchpin_realtime::engine_conformance!(MyHarness::start());
//! ```
#![allow(clippy::expect_used, clippy::unwrap_used)] // a failing case must panic

pub mod appends;
pub mod faults;
pub mod histories;
pub mod joins;
pub mod messages;
pub mod presences;
pub mod renewals;
pub mod restarts;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use linchpin::{BoxFuture, Timestamp};

use super::{
    Append, Clock, Delivery, Engine, EventId, Fence, Frame, History, Stream, Subscription,
};

/// How long a case waits for a delivery before it fails.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(20);

/// An engine under test: its storage, its nodes, and the faults of a server.
pub trait Harness: Send + Sync {
    /// Starts a further node on the same storage, with this clock.
    fn node(&self, clock: Clock) -> BoxFuture<'_, Arc<dyn Engine>>;

    /// Deletes all data, as `FLUSHALL` or a truncation of every table does. Nodes get no notice.
    fn flush(&self) -> BoxFuture<'_, ()>;

    /// Deletes a stream: its position and its frames.
    fn lose_stream<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, ()>;

    /// Deletes the frames of a stream, and keeps its position.
    fn lose_frames<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, ()>;

    /// Sets a stream back to an earlier offset, as a restored backup does.
    fn rewind<'a>(&'a self, stream: &'a str, offset: u64) -> BoxFuture<'a, ()>;

    /// Ends the connections over which nodes are notified of frames. Notifications are lost until
    /// the nodes have connected again.
    fn cut(&self) -> BoxFuture<'_, ()>;

    /// Restores the connections after [`cut`](Self::cut), if nodes do not connect again on their
    /// own.
    fn mend(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Stops the server. Its data stays.
    fn stop(&self) -> BoxFuture<'_, ()>;

    /// Starts the server again.
    fn start(&self) -> BoxFuture<'_, ()>;
}

/// A clock that a case sets. It starts at the system time.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<AtomicI64>);

impl Default for TestClock {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(Timestamp::system_now().millis())))
    }
}

impl TestClock {
    /// Returns the clock in the form that an engine needs.
    pub fn clock(&self) -> Clock {
        let millis = Arc::clone(&self.0);
        Arc::new(move || Timestamp::from_millis(millis.load(Ordering::SeqCst)))
    }

    /// Returns the current time of the clock.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("a short time");
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

/// Returns a stream with a new name.
fn stream(history: History) -> Stream {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Stream::new(format!("tasks:{number}~{{a}} b%C3:live"), history)
}

/// Returns limits that no case reaches.
fn long() -> History {
    History {
        size: 10_000,
        ttl: Duration::from_hours(1),
    }
}

fn event(name: &str) -> EventId {
    EventId::new(name).expect("an event id")
}

/// Returns an append of an event. The frame holds the event's name.
fn append(stream: &Stream, name: &str) -> Append {
    Append {
        stream: stream.clone(),
        event: event(name),
        frame: Bytes::copy_from_slice(name.as_bytes()),
        fence: None,
    }
}

fn fenced(stream: &Stream, name: &str, consumer: &str, number: u64) -> Append {
    Append {
        fence: Some(Fence {
            consumer: consumer.into(),
            number,
        }),
        ..append(stream, name)
    }
}

/// Appends events, each in a separate call.
async fn append_all(engine: &dyn Engine, stream: &Stream, names: &[&str]) {
    for name in names {
        engine
            .append(&[append(stream, name)])
            .await
            .expect("appended");
    }
}

/// Appends an event. It retries until the engine is available again.
async fn append_until_back(engine: &dyn Engine, stream: &Stream, name: &str) {
    let until = tokio::time::Instant::now() + DELIVERY_TIMEOUT;
    while let Err(error) = engine.append(&[append(stream, name)]).await {
        assert!(error.is_unavailable(), "{error:?}");
        assert!(tokio::time::Instant::now() < until, "{error:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the next delivery.
async fn next(subscription: &mut Subscription) -> Delivery {
    tokio::time::timeout(DELIVERY_TIMEOUT, subscription.next())
        .await
        .expect("a delivery in time")
        .expect("the engine is open")
}

/// Returns the next delivery, which must be a frame.
async fn frame(subscription: &mut Subscription) -> Frame {
    match next(subscription).await {
        Delivery::Frame(frame) => frame,
        other => panic!("not a frame: {other:?}"),
    }
}

/// Checks that the next deliveries are the frames of these events at these offsets.
async fn expect(subscription: &mut Subscription, expected: &[(u64, &str)]) {
    for (offset, name) in expected {
        let frame = frame(subscription).await;
        assert_eq!(
            (frame.position.offset, frame.event.as_str(), &*frame.data),
            (*offset, *name, name.as_bytes())
        );
    }
}

/// Expands to one test for each case. Each test has a new harness.
///
/// The argument is a [`Harness`](crate::engine::conformance::Harness); it is evaluated for each
/// case. If starting a server takes long, pass two harnesses after `@suite`: the first for most of
/// the cases, which may share a server, and the second for the cases that stop the server.
#[macro_export]
macro_rules! engine_conformance {
    (@suite $harness:expr, $own:expr) => {
        $crate::engine_conformance!(@cases $harness;
            appends: all_subscribers_get_the_frames_in_one_order,
                an_event_is_appended_once,
                two_nodes_that_append_one_event_get_one_position,
                a_batch_goes_to_several_streams,
                a_fence_lower_than_one_seen_is_refused,
                a_frame_of_any_bytes_arrives_unchanged;
            histories: a_read_ends_at_the_declared_size,
                a_read_ends_at_the_declared_age,
                an_offset_beyond_the_top_reads_nothing,
                a_position_outlives_the_history_by_seven_days,
                a_stream_without_history_delivers_live_frames_only,
                a_read_returns_at_most_as_many_frames_as_requested,
                a_read_ends_before_more_bytes_than_allowed;
            joins: a_subscription_begins_at_the_top,
                a_join_under_load_neither_loses_nor_doubles_a_frame,
                a_subscriber_that_reads_late_gets_everything,
                a_stream_can_be_left_and_joined_again,
                a_canceled_wait_loses_nothing;
            messages: a_message_reaches_the_subscribers_of_all_nodes_in_order,
                a_long_message_arrives_and_a_longer_one_is_refused,
                a_control_message_reaches_one_node_or_all;
            presences: the_first_arrival_and_the_last_departure_are_reported_once,
                two_nodes_that_enter_a_user_at_once_report_one_arrival,
                a_lease_that_is_not_renewed_ends,
                a_snapshot_lists_the_earliest_arrivals_and_counts_all,
                presence_is_rebuilt_by_renewal_after_a_loss,
                leases_of_many_streams_are_renewed_at_once;
            renewals: a_renewal_gives_every_stream_a_new_epoch,
                a_renewal_during_appends_is_one_reset_without_a_gap,
                a_renewal_keeps_fences;
            faults: lost_data_is_one_reset_and_a_new_epoch,
                a_lost_stream_is_one_reset_and_a_new_epoch,
                lost_frames_end_recovery_but_not_live_delivery,
                a_reused_offset_replaces_the_epoch_on_all_nodes,
                frames_missed_during_a_cut_arrive_in_order,
                long_frames_missed_during_a_cut_arrive_in_order,
                more_frames_missed_than_kept_is_a_reset,
                a_closed_engine_ends_its_subscriptions;
        );
        // These cases stop the server, so they must not share it.
        $crate::engine_conformance!(@cases $own;
            restarts: a_stopped_engine_is_unavailable_and_continues_after_its_start,
                a_stream_without_history_can_be_joined_while_the_engine_is_down;
        );
    };
    (@cases $harness:expr; $($group:ident: $($case:ident),*;)*) => {$(
        mod $group {
            #[allow(unused_imports)] // the harness expression may use no item of the outer module
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let harness = $harness;
                    $crate::engine::conformance::$group::$case(&harness).await;
                }
            )*
        }
    )*};
    ($harness:expr) => {
        $crate::engine_conformance!(@suite $harness, $harness);
    };
}
