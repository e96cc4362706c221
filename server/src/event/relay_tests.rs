//! Delivery with a paused clock: order, back-off after failures, leases, and live consumers.

use std::pin::Pin;

use tokio::time::Instant;

use super::*;
use crate::entity::EntityDesc;
use crate::event::{Batch, Entry, Missed, OutboxRow, StoredText};
use crate::store::{
    Committed, Lost, Numbers, Parked, Plan, Reply, Rows, Statement, StoreKind, Waiting,
};
use crate::{BoxFuture, Uuid, Value};

/// A row with one event per record.
fn row(seq: i64, records: &[&str]) -> Arc<OutboxRow> {
    let events = records.iter().map(|record| {
        let text = StoredText {
            id: Uuid::new_v7(),
            entity: "posts".to_owned(),
            record: Some((*record).to_owned()),
            at: Timestamp::from_millis(0),
            event: format!(
                r#"{{"name":"n","route":"create","payload":{{"row":{seq}}},"actor":"system","request":""}}"#
            ),
        };
        text.decode(seq).events.remove(0)
    });
    Arc::new(OutboxRow::new(seq, events.collect()))
}

/// A store whose outbox the test controls.
struct TestStore {
    /// The store fails until this instant.
    fails_until: Instant,
    in_order: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rows: Vec<Arc<OutboxRow>>,
    settled: Numbers,
    parked: Vec<(String, u32)>,
    reads: Vec<Instant>,
    /// The fencing number of this process; `None` while another one leads.
    fence: Option<i64>,
    resigned: bool,
    lost: Option<Lost>,
}

impl TestStore {
    fn new(fails_until: Duration, in_order: bool) -> Arc<Self> {
        let state = State {
            fence: Some(1),
            ..State::default()
        };
        Arc::new(Self {
            fails_until: Instant::now() + fails_until,
            in_order,
            state: Mutex::new(state),
        })
    }

    fn add(&self, row: &Arc<OutboxRow>) {
        self.state.lock().rows.push(Arc::clone(row));
    }
}

impl Store for TestStore {
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
    fn outbox(&self) -> Option<&dyn Outbox> {
        Some(self)
    }
    fn ready(&self) -> Pin<Box<dyn Future<Output = Result<()>> + Send + '_>> {
        Box::pin(async { Ok(()) })
    }
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {})
    }
}

impl Outbox for TestStore {
    fn open<'a>(&'a self, _: &'a [&'a str], _: Arc<dyn Committed>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn knows<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async { Ok(true) })
    }
    fn is_in_commit_order(&self) -> bool {
        self.in_order
    }
    fn lead<'a>(
        &'a self,
        consumers: &'a [&'a str],
        _: Duration,
    ) -> BoxFuture<'a, Result<Vec<Option<i64>>>> {
        let fence = self.state.lock().fence;
        Box::pin(async move { Ok(vec![fence; consumers.len()]) })
    }
    fn resign<'a>(&'a self, _: &'a [&'a str]) -> BoxFuture<'a, Result<()>> {
        self.state.lock().resigned = true;
        Box::pin(async { Ok(()) })
    }
    fn waiting<'a>(
        &'a self,
        _: &'a str,
        taken: &'a Numbers,
        _: &'a [Arc<OutboxRow>],
        limit: usize,
    ) -> BoxFuture<'a, Result<Waiting>> {
        let mut state = self.state.lock();
        state.reads.push(Instant::now());
        if Instant::now() < self.fails_until {
            return Box::pin(async { Err(Error::unavailable("the server is gone")) });
        }
        let new = |row: &&Arc<OutboxRow>| !taken.has(row.seq) && !state.settled.has(row.seq);
        let mut rows: Vec<_> = state.rows.iter().filter(new).cloned().collect();
        rows.sort_by_key(|row| row.seq);
        rows.truncate(limit);
        let lost = state.lost;
        Box::pin(async move { Ok(Waiting { rows, lost }) })
    }
    fn lost_reported<'a>(&'a self, _: &'a str, lost: Lost) -> BoxFuture<'a, Result<()>> {
        let reported = self.state.lock().lost.take();
        assert_eq!(reported, Some(lost));
        Box::pin(async { Ok(()) })
    }
    fn settle<'a>(&'a self, _: &'a str, done: &'a Numbers) -> BoxFuture<'a, Result<()>> {
        self.state.lock().settled.extend(done);
        Box::pin(async { Ok(()) })
    }
    fn park<'a>(&'a self, _: &'a str, parked: &'a Parked) -> BoxFuture<'a, Result<()>> {
        let record = parked.event.event.record_id.clone().unwrap_or_default();
        self.state.lock().parked.push((record, 0));
        Box::pin(async { Ok(()) })
    }
    fn prune<'a>(
        &'a self,
        _: &'a [&'a str],
        _: Timestamp,
        _: Timestamp,
        _: usize,
    ) -> BoxFuture<'a, Result<usize>> {
        Box::pin(async { Ok(0) })
    }
}

/// A consumer that records the row and the record key of each event.
#[derive(Clone)]
struct Listener(Arc<Received>);

struct Received {
    /// The records whose events fail, each with the instant until which its events fail.
    failing: Mutex<Vec<(&'static str, Instant)>>,
    received: watch::Sender<Vec<(i64, String, Instant)>>,
    fences: Mutex<Vec<i64>>,
    missed: Mutex<u64>,
    /// Reports of lost events fail until this instant.
    fails_on_loss: Mutex<Option<Instant>>,
    tries: Mutex<Vec<Instant>>,
    stops: bool,
    live: bool,
}

impl Listener {
    fn new(stops: bool, live: bool) -> Self {
        Self(Arc::new(Received {
            failing: Mutex::default(),
            received: watch::channel(Vec::new()).0,
            fences: Mutex::default(),
            missed: Mutex::default(),
            fails_on_loss: Mutex::default(),
            tries: Mutex::default(),
            stops,
            live,
        }))
    }

    fn failing(self, record: &'static str, time: Duration) -> Self {
        self.0.failing.lock().push((record, Instant::now() + time));
        self
    }

    fn fails_on_loss(self, time: Duration) -> Self {
        *self.0.fails_on_loss.lock() = Some(Instant::now() + time);
        self
    }

    /// Waits until `count` events have arrived, and returns all received events.
    async fn received(&self, count: usize) -> Vec<(i64, String, Instant)> {
        let mut received = self.0.received.subscribe();
        let all = received.wait_for(|received| received.len() >= count).await;
        all.expect("the sender is not dropped").clone()
    }

    async fn order(&self, count: usize) -> Vec<(i64, String)> {
        let received = self.received(count).await.into_iter();
        received.map(|(seq, record, _)| (seq, record)).collect()
    }
}

impl EventSink for Listener {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<()>> {
        self.0.fences.lock().push(batch.fence());
        self.0.tries.lock().push(Instant::now());
        let failing = self.0.failing.lock().clone();
        for (done, event) in batch.iter().enumerate() {
            batch.done(done);
            let record = event.record_id.clone().unwrap_or_default();
            let now = Instant::now();
            let fails = |(failing, until): &(&str, Instant)| *failing == record && now < *until;
            if failing.iter().any(fails) {
                return Box::pin(async { Err(Error::unavailable("busy")) });
            }
            let seq = event.payload["row"].as_i64().unwrap_or_default();
            self.0
                .received
                .send_modify(|received| received.push((seq, record, now)));
        }
        Box::pin(async { Ok(()) })
    }

    fn missed(&self, missed: Missed) -> BoxFuture<'_, Result<()>> {
        self.0.tries.lock().push(Instant::now());
        if self
            .0
            .fails_on_loss
            .lock()
            .is_some_and(|until| Instant::now() < until)
        {
            return Box::pin(async { Err(Error::unavailable("busy")) });
        }
        *self.0.missed.lock() += missed.count;
        Box::pin(async { Ok(()) })
    }

    fn is_live(&self) -> bool {
        self.0.live
    }

    fn stops_at_failure(&self) -> bool {
        self.0.stops
    }
}

struct Running {
    relay: Relay,
    handover: Arc<Handover>,
    bus: EventBus,
    health: Health,
}

/// Starts delivery to consumers.
fn deliver(store: &Arc<TestStore>, listeners: &[Listener]) -> Running {
    let (bus, health) = (EventBus::default(), Health::default());
    let handover = Arc::new(Handover::new(bus.clone()));
    let consumers = listeners.iter().enumerate().map(|(n, listener)| {
        let consumer = Consumer::new(format!("c{n}"), Arc::new(listener.clone()), None);
        let queue = listener.0.live.then(|| Arc::new(LiveQueue::new(None)));
        if let Some(queue) = &queue {
            handover.add_live(Arc::clone(queue));
        }
        (consumer, queue)
    });
    let shared = Shared {
        store: Arc::clone(store) as Arc<dyn Store>,
        handover: Arc::clone(&handover),
        bus: bus.clone(),
        clock: Arc::new(|| Timestamp::from_millis(0)),
        health: health.clone(),
    };
    Running {
        relay: start(consumers.collect(), shared, Duration::from_hours(1)),
        handover,
        bus,
        health,
    }
}

fn pairs(pairs: &[(i64, &str)]) -> Vec<(i64, String)> {
    let owned = |(seq, record): &(i64, &str)| (*seq, (*record).to_owned());
    pairs.iter().map(owned).collect()
}

#[tokio::test(start_paused = true)]
async fn events_are_delivered_within_two_seconds_after_a_store_outage_of_any_length() {
    for outage in [1, 30, 600, 7_200].map(Duration::from_secs) {
        let (store, listener) = (TestStore::new(outage, true), Listener::new(false, false));
        store.add(&row(1, &["a"]));
        let running = deliver(&store, std::slice::from_ref(&listener));
        let delay = listener.received(1).await[0].2 - store.fails_until;
        assert!(
            delay <= Duration::from_secs(2),
            "gone for {outage:?}: {delay:?}"
        );
        // During the outage, the store was called with pauses.
        let reads = store
            .state
            .lock()
            .reads
            .iter()
            .filter(|at| **at < store.fails_until)
            .count();
        assert!(
            reads as u64 <= 3 + outage.as_secs() * 2,
            "{reads} reads in {outage:?}"
        );
        running.relay.stop().await;
        assert!(
            store.state.lock().resigned,
            "the stop must release the leases"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_ends_the_pause_after_failures_of_the_store() {
    let (store, listener) = (
        TestStore::new(Duration::from_mins(10), true),
        Listener::new(false, false),
    );
    let running = deliver(&store, std::slice::from_ref(&listener));
    tokio::time::sleep_until(store.fails_until).await;
    let row = row(1, &["a"]);
    store.add(&row);
    running.handover.committed(vec![row]);
    let delay = listener.received(1).await[0].2 - store.fails_until;
    assert!(delay <= Duration::from_millis(20), "{delay:?}");
    running.relay.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_event_holds_back_only_events_of_its_record() {
    let store = TestStore::new(Duration::ZERO, true);
    let (outage, began) = (Duration::from_secs(100), Instant::now());
    let listener = Listener::new(false, false).failing("a", outage);
    for (seq, records) in [(1, &["a", "b"][..]), (2, &["a"][..]), (3, &["c"][..])] {
        store.add(&row(seq, records));
    }
    let running = deliver(&store, std::slice::from_ref(&listener));
    assert_eq!(listener.order(2).await, pairs(&[(1, "b"), (3, "c")]));
    assert!(began.elapsed() < Duration::from_secs(1));
    let received = listener.received(4).await;
    let order: Vec<_> = received
        .iter()
        .map(|(seq, record, _)| (*seq, record.clone()))
        .collect();
    assert_eq!(order, pairs(&[(1, "b"), (3, "c"), (1, "a"), (2, "a")]));
    let delay = received[2].2 - (began + outage);
    assert!(delay <= Duration::from_secs(72), "{delay:?}");
    running.relay.stop().await;
    assert_eq!(store.state.lock().settled.to_string(), "1-3");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_parked_and_reported_after_twenty_failures() {
    let store = TestStore::new(Duration::ZERO, true);
    let listener = Listener::new(false, false).failing("a", Duration::from_hours(24));
    store.add(&row(1, &["a"]));
    let running = deliver(&store, std::slice::from_ref(&listener));
    let mut parked_events = running
        .bus
        .listen("linchpin.outbox.dead")
        .expect("a listener");
    let alarm = parked_events
        .next()
        .await
        .expect("an alarm")
        .expect("none is missed");
    let payload = &alarm.payload;
    assert_eq!(
        (&payload["consumer"], &payload["record"], &payload["tries"]),
        (&"c0".into(), &"a".into(), &20.into())
    );
    assert!(
        payload["error"]
            .as_str()
            .is_some_and(|error| error.contains("busy"))
    );
    assert_eq!(listener.0.tries.lock().len(), 20);
    assert_eq!(store.state.lock().parked.len(), 1);
    running.relay.stop().await;
    assert_eq!(
        store.state.lock().settled.to_string(),
        "1",
        "the parked event is settled"
    );
}

#[tokio::test(start_paused = true)]
async fn a_recovered_consumer_receives_all_events_soon() {
    let store = TestStore::new(Duration::ZERO, true);
    let outage = Duration::from_mins(5);
    let names = ["a", "b", "c", "d", "e", "f"];
    let listener = names
        .iter()
        .fold(Listener::new(false, false), |listener, name| {
            listener.failing(name, outage)
        });
    let recovery = Instant::now() + outage;
    store.add(&row(1, &names));
    let running = deliver(&store, std::slice::from_ref(&listener));
    let received = listener.received(names.len()).await;
    let last = received.iter().map(|(.., at)| *at).max().expect("events") - recovery;
    assert!(last <= Duration::from_secs(72), "{last:?}");
    running.relay.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_sink_keeps_the_order_and_degrades_readiness() {
    let store = TestStore::new(Duration::ZERO, true);
    let outage = Duration::from_hours(2);
    let listener = Listener::new(true, false).failing("b", outage);
    let recovery = Instant::now() + outage;
    store.add(&row(1, &["a", "b", "c"]));
    store.add(&row(2, &["d"]));
    let running = deliver(&store, std::slice::from_ref(&listener));
    tokio::time::sleep(outage / 2).await;
    assert_eq!(
        listener.order(1).await,
        pairs(&[(1, "a")]),
        "no event is delivered after the failed one"
    );
    assert!(running.health.is_degraded());
    let received = listener.received(4).await;
    let order: Vec<_> = received
        .iter()
        .map(|(seq, record, _)| (*seq, record.clone()))
        .collect();
    assert_eq!(order, pairs(&[(1, "a"), (1, "b"), (1, "c"), (2, "d")]));
    let delay = received[1].2 - recovery;
    assert!(delay <= Duration::from_secs(72), "{delay:?}");
    assert!(!running.health.is_degraded());
    assert!(store.state.lock().parked.is_empty());
    running.relay.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_delivers_and_the_sink_gets_its_fencing_number() {
    let (store, listener) = (
        TestStore::new(Duration::ZERO, false),
        Listener::new(false, false),
    );
    store.state.lock().fence = None;
    store.add(&row(1, &["a"]));
    let running = deliver(&store, std::slice::from_ref(&listener));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(
        listener.0.tries.lock().is_empty(),
        "nothing may be delivered while another process leads"
    );
    store.state.lock().fence = Some(7);
    listener.received(1).await;
    // Another process leads for a while. Events that were delivered before are not delivered again.
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.state.lock().fence = None;
    tokio::time::sleep(Duration::from_secs(20)).await;
    store.add(&row(2, &["b"]));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(listener.0.fences.lock().as_slice(), [7]);
    store.state.lock().fence = Some(9);
    assert_eq!(listener.order(2).await, pairs(&[(1, "a"), (2, "b")]));
    assert_eq!(listener.0.fences.lock().as_slice(), [7, 9]);
    running.relay.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_commit_with_a_lower_number_is_delivered() {
    let (store, listener) = (
        TestStore::new(Duration::ZERO, false),
        Listener::new(false, false),
    );
    let running = deliver(&store, std::slice::from_ref(&listener));
    let later = row(2, &["b"]);
    store.add(&later);
    running.handover.committed(vec![later]);
    listener.received(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.state.lock().settled.to_string(), "2");
    // Another process took this lower number earlier, and commits only now.
    store.add(&row(1, &["a"]));
    assert_eq!(listener.order(2).await, pairs(&[(2, "b"), (1, "a")]));
    running.relay.stop().await;
    assert_eq!(store.state.lock().settled.to_string(), "1-2");
}

#[tokio::test(start_paused = true)]
async fn rows_missing_from_the_handover_are_read_from_the_table() {
    let (store, listener) = (
        TestStore::new(Duration::ZERO, true),
        Listener::new(false, false),
    );
    let running = deliver(&store, std::slice::from_ref(&listener));
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Another process wrote the first row.
    let (one, two) = (row(1, &["a"]), row(2, &["a"]));
    store.add(&one);
    store.add(&two);
    running.handover.committed(vec![two]);
    assert_eq!(listener.order(2).await, pairs(&[(1, "a"), (2, "a")]));
    running.relay.stop().await;
}

#[tokio::test(start_paused = true)]
async fn live_consumers_receive_events_and_loss_reports_without_the_store() {
    let store = TestStore::new(Duration::from_hours(24), true);
    let listener = Listener::new(false, true);
    let running = deliver(&store, std::slice::from_ref(&listener));
    running.handover.committed(vec![row(0, &["a"])]);
    listener.received(1).await;
    let entries: Vec<Entry> = row(0, &["b", "c"]).events.clone();
    running.handover.lost(&entries);
    // More events than the queue can hold.
    for _ in 0..20_000 {
        running.handover.committed(vec![row(0, &["d"])]);
    }
    let received = listener.received(16_385).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let missed = *listener.0.missed.lock();
    assert_eq!(received.len() as u64 - 1 + missed, 20_002);
    assert!(store.state.lock().reads.is_empty(), "the store is not read");
    running.relay.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lost_events_are_reported_until_the_consumer_acknowledges() {
    let outage = Duration::from_secs(100);
    for live in [false, true] {
        let (store, began) = (TestStore::new(Duration::ZERO, true), Instant::now());
        let listener = Listener::new(true, live).fails_on_loss(outage);
        let lost = Lost { count: 3, until: 3 };
        let later = row(4, &["a"]);
        if !live {
            store.state.lock().lost = Some(lost);
            store.add(&later);
        }
        let running = deliver(&store, std::slice::from_ref(&listener));
        if live {
            running.handover.lost(&row(0, &["x", "y", "z"]).events);
            running.handover.committed(vec![later]);
        }
        tokio::time::sleep(outage / 2).await;
        assert!(running.health.is_degraded());
        // During the outage, the consumer is called with pauses, and receives no events.
        let calls = listener.0.tries.lock().len();
        assert!((5..=12).contains(&calls), "{calls} calls");
        assert!(listener.0.received.borrow().is_empty());
        assert_eq!(store.state.lock().lost, (!live).then_some(lost));
        let delay = listener.received(1).await[0].2 - (began + outage);
        assert!(delay <= Duration::from_secs(72), "{delay:?}");
        assert_eq!(*listener.0.missed.lock(), 3, "the loss is reported once");
        assert_eq!(store.state.lock().lost, None);
        assert!(!running.health.is_degraded());
        running.relay.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreported_loss_is_reported_by_the_next_leader() {
    let store = TestStore::new(Duration::ZERO, true);
    let lost = Lost { count: 2, until: 2 };
    store.state.lock().lost = Some(lost);
    let fails_on_loss = Listener::new(false, false).fails_on_loss(Duration::from_hours(1));
    let first = deliver(&store, std::slice::from_ref(&fails_on_loss));
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.relay.stop().await;
    assert_eq!(store.state.lock().lost, Some(lost));
    let listener = Listener::new(false, false);
    let second = deliver(&store, std::slice::from_ref(&listener));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*listener.0.missed.lock(), 2);
    second.relay.stop().await;
}
