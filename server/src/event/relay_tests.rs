//! Back-off after failures, with a paused clock: how long events wait after the failed part works
//! again.

use std::collections::BTreeSet;
use std::pin::Pin;

use parking_lot::Mutex;

use super::*;
use crate::entity::EntityDesc;
use crate::event::Entry;
use crate::resource::BoxFuture;
use crate::store::{Plan, Reply, Rows, Statement, StoreKind};
use crate::{Uuid, Value};

#[test]
fn pauses_grow_up_to_a_bound_and_are_spread() {
    for (failures, whole) in [
        (0, 250),
        (1, 500),
        (4, 4000),
        (8, 15_000),
        (u32::MAX, 15_000),
    ] {
        for _ in 0..50 {
            let millis = pause(failures, LONGEST_OF_CONSUMER).as_millis();
            assert!(
                (whole * 8 / 10..=whole * 12 / 10).contains(&millis),
                "{failures}: {millis}"
            );
        }
    }
    assert!(
        (0..50).all(|failures| pause(failures, LONGEST_OF_STORE) <= Duration::from_millis(1200))
    );
    let some: BTreeSet<u128> = (0..50)
        .map(|_| pause(3, LONGEST_OF_CONSUMER).as_millis())
        .collect();
    assert!(some.len() > 10, "{some:?}");
}

/// A store with one event in it, and a consumer; each fails until an instant.
struct Away {
    store: Instant,
    consumer: Instant,
    looks: Mutex<Vec<Instant>>,
    told: watch::Sender<Option<Instant>>,
    settled: Mutex<bool>,
}

impl Away {
    fn until(store: Duration, consumer: Duration) -> Arc<Self> {
        let now = Instant::now();
        let (looks, told, settled) = (Mutex::default(), watch::channel(None).0, Mutex::default());
        Arc::new(Self {
            store: now + store,
            consumer: now + consumer,
            looks,
            told,
            settled,
        })
    }
}

struct Lone(Arc<Away>);

impl Store for Lone {
    fn kind(&self) -> &'static StoreKind {
        static KIND: StoreKind = StoreKind::new("lone", &["lone"], "lone:");
        &KIND
    }
    fn prepare(&self, _: &'static EntityDesc, _: Plan) -> Result<Arc<Statement>> {
        Err(Error::internal("no statements here"))
    }
    fn run<'a>(&'a self, _: &'a Arc<Statement>, _: Vec<Value>, _: Rows) -> Reply<'a> {
        Reply::Ready(Err(Error::internal("no statements here")))
    }
    fn may_take_long(&self, _: &Statement) -> bool {
        false
    }
    fn computes(&self, _: bool) -> bool {
        false
    }
    fn outbox(&self) -> Option<&dyn Outbox> {
        Some(self)
    }
    fn install<'a>(
        &'a self,
        _: &'a [&'static EntityDesc],
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async { Ok(()) })
    }
    fn ready(&self) -> Pin<Box<dyn Future<Output = Result<()>> + Send + '_>> {
        Box::pin(async { Ok(()) })
    }
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {})
    }
}

impl Outbox for Lone {
    fn open<'a>(&'a self, _: &'a [&'a str]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn knows<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async { Ok(true) })
    }
    fn waiting<'a>(
        &'a self,
        _: &'a str,
        given: &'a [i64],
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<(i64, Entry)>>> {
        Box::pin(async move {
            self.0.looks.lock().push(Instant::now());
            if Instant::now() < self.0.store {
                return Err(Error::unavailable("the server is gone"));
            }
            if *self.0.settled.lock() || !given.is_empty() {
                return Ok(Vec::new());
            }
            let event =
                r#"{"name":"n","route":"create","payload":{},"actor":"system","request":""}"#
                    .to_owned();
            let (entity, record, at) = (
                "posts".into(),
                Some("1".to_owned()),
                Timestamp::from_millis(0),
            );
            Ok(vec![(
                1,
                Entry {
                    id: Uuid::new_v7(),
                    entity,
                    record,
                    at,
                    event,
                },
            )])
        })
    }
    fn settle<'a>(&'a self, _: &'a str, _: &'a [i64]) -> BoxFuture<'a, Result<()>> {
        *self.0.settled.lock() = true;
        Box::pin(async { Ok(()) })
    }
    fn prune<'a>(
        &'a self,
        _: &'a [&'a str],
        _: Timestamp,
        _: usize,
    ) -> BoxFuture<'a, Result<usize>> {
        Box::pin(async { Ok(0) })
    }
}

struct Listener(Arc<Away>);

impl EventSink for Listener {
    fn publish<'a>(&'a self, _: &'a [EntityEvent]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if Instant::now() < self.0.consumer {
                return Err(Error::unavailable("busy"));
            }
            self.0.told.send_replace(Some(Instant::now()));
            Ok(())
        })
    }
}

/// Starts delivery of the event; the returned sender wakes the relay like a write.
fn deliver(away: &Arc<Away>) -> (watch::Sender<()>, Relay) {
    let consumer = Consumer::new("c".to_owned(), Arc::new(Listener(Arc::clone(away))), None);
    let (wake, _) = watch::channel(());
    let store: Arc<dyn Store> = Arc::new(Lone(Arc::clone(away)));
    let clock: Clock = Arc::new(|| Timestamp::from_millis(0));
    (
        wake.clone(),
        start(
            vec![consumer],
            store,
            clock,
            Duration::from_hours(1),
            wake,
            EventBus::default(),
        ),
    )
}

/// The delivery time by the paused clock of the test: these assertions do not depend on the
/// machine.
async fn told(away: &Away) -> Instant {
    let mut told = away.told.subscribe();
    told.wait_for(Option::is_some)
        .await
        .expect("it is there")
        .expect("told")
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_is_found_within_two_seconds_however_long_it_was_gone() {
    for gone in [1, 30, 600, 7_200].map(Duration::from_secs) {
        let away = Away::until(gone, Duration::ZERO);
        let (_wake, relay) = deliver(&away);
        let late = told(&away).await - away.store;
        assert!(
            late <= Duration::from_secs(2),
            "gone for {gone:?}: told {late:?} later"
        );
        // It was not called without a pause either.
        let looks = away
            .looks
            .lock()
            .iter()
            .filter(|at| **at < away.store)
            .count() as u64;
        assert!(looks <= 3 + gone.as_secs() * 2, "{looks} looks in {gone:?}");
        relay.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_ends_the_pause_after_failures_of_the_store() {
    let away = Away::until(Duration::from_mins(10), Duration::ZERO);
    let (wake, relay) = deliver(&away);
    tokio::time::sleep_until(away.store).await;
    wake.send_replace(());
    let late = told(&away).await - away.store;
    assert!(late <= Duration::from_millis(20), "{late:?}");
    relay.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_comes_back_is_told_within_twenty_seconds() {
    for gone in [1, 30, 600, 7_200].map(Duration::from_secs) {
        let away = Away::until(Duration::ZERO, gone);
        let (wake, relay) = deliver(&away);
        // Further writes do not shorten the back-off.
        for _ in 0..20 {
            wake.send_replace(());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(away.looks.lock().len() <= 2, "{:?}", away.looks.lock());
        let late = told(&away).await - away.consumer;
        assert!(
            late <= Duration::from_secs(20),
            "gone for {gone:?}: told {late:?} later"
        );
        relay.stop().await;
    }
}
