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

/// A store with an outbox in the hands of the test.
struct Lone {
    /// It fails until this instant.
    away: Instant,
    in_order: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rows: Vec<Arc<OutboxRow>>,
    settled: Numbers,
    parked: Vec<(String, u32)>,
    looks: Vec<Instant>,
    /// The fencing number of this process; `None` while another one leads.
    fence: Option<i64>,
    resigned: bool,
    lost: Option<Lost>,
}

impl Lone {
    fn new(away: Duration, in_order: bool) -> Arc<Self> {
        let state = State {
            fence: Some(1),
            ..State::default()
        };
        Arc::new(Self {
            away: Instant::now() + away,
            in_order,
            state: Mutex::new(state),
        })
    }

    fn add(&self, row: &Arc<OutboxRow>) {
        self.state.lock().rows.push(Arc::clone(row));
    }
}

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

impl Outbox for Lone {
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
        state.looks.push(Instant::now());
        if Instant::now() < self.away {
            return Box::pin(async { Err(Error::unavailable("the server is gone")) });
        }
        let new = |row: &&Arc<OutboxRow>| !taken.has(row.seq) && !state.settled.has(row.seq);
        let mut rows: Vec<_> = state.rows.iter().filter(new).cloned().collect();
        rows.sort_by_key(|row| row.seq);
        rows.truncate(limit);
        let lost = state.lost;
        Box::pin(async move { Ok(Waiting { rows, lost }) })
    }
    fn told<'a>(&'a self, _: &'a str, lost: Lost) -> BoxFuture<'a, Result<()>> {
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

/// A consumer that writes down what it gets: the row and the record of each event.
#[derive(Clone)]
struct Listener(Arc<Heard>);

struct Heard {
    /// Records whose events fail, and until when.
    failing: Mutex<Vec<(&'static str, Instant)>>,
    got: watch::Sender<Vec<(i64, String, Instant)>>,
    fences: Mutex<Vec<i64>>,
    missed: Mutex<u64>,
    /// It takes no notice of lost events until this instant.
    deaf: Mutex<Option<Instant>>,
    tries: Mutex<Vec<Instant>>,
    stops: bool,
    live: bool,
}

impl Listener {
    fn new(stops: bool, live: bool) -> Self {
        Self(Arc::new(Heard {
            failing: Mutex::default(),
            got: watch::channel(Vec::new()).0,
            fences: Mutex::default(),
            missed: Mutex::default(),
            deaf: Mutex::default(),
            tries: Mutex::default(),
            stops,
            live,
        }))
    }

    fn failing(self, record: &'static str, time: Duration) -> Self {
        self.0.failing.lock().push((record, Instant::now() + time));
        self
    }

    fn deaf(self, time: Duration) -> Self {
        *self.0.deaf.lock() = Some(Instant::now() + time);
        self
    }

    /// What it got, once there are this many events.
    async fn got(&self, count: usize) -> Vec<(i64, String, Instant)> {
        let mut got = self.0.got.subscribe();
        let all = got.wait_for(|got| got.len() >= count).await;
        all.expect("it is there").clone()
    }

    async fn order(&self, count: usize) -> Vec<(i64, String)> {
        let got = self.got(count).await.into_iter();
        got.map(|(seq, record, _)| (seq, record)).collect()
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
            self.0.got.send_modify(|got| got.push((seq, record, now)));
        }
        Box::pin(async { Ok(()) })
    }

    fn missed(&self, missed: Missed) -> BoxFuture<'_, Result<()>> {
        self.0.tries.lock().push(Instant::now());
        if self
            .0
            .deaf
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
fn deliver(store: &Arc<Lone>, listeners: &[Listener]) -> Running {
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
async fn a_store_that_comes_back_is_found_within_two_seconds_however_long_it_was_gone() {
    for gone in [1, 30, 600, 7_200].map(Duration::from_secs) {
        let (store, listener) = (Lone::new(gone, true), Listener::new(false, false));
        store.add(&row(1, &["a"]));
        let running = deliver(&store, std::slice::from_ref(&listener));
        let late = listener.got(1).await[0].2 - store.away;
        assert!(
            late <= Duration::from_secs(2),
            "gone for {gone:?}: {late:?}"
        );
        // It was not called without a pause either.
        let looks = store
            .state
            .lock()
            .looks
            .iter()
            .filter(|at| **at < store.away)
            .count();
        assert!(
            looks as u64 <= 3 + gone.as_secs() * 2,
            "{looks} looks in {gone:?}"
        );
        running.relay.stop().await;
        assert!(store.state.lock().resigned, "another process may take over");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_ends_the_pause_after_failures_of_the_store() {
    let (store, listener) = (
        Lone::new(Duration::from_mins(10), true),
        Listener::new(false, false),
    );
    let running = deliver(&store, std::slice::from_ref(&listener));
    tokio::time::sleep_until(store.away).await;
    let row = row(1, &["a"]);
    store.add(&row);
    running.handover.committed(vec![row]);
    let late = listener.got(1).await[0].2 - store.away;
    assert!(late <= Duration::from_millis(20), "{late:?}");
    running.relay.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_event_holds_back_its_record_and_nothing_else() {
    let store = Lone::new(Duration::ZERO, true);
    let (gone, began) = (Duration::from_secs(100), Instant::now());
    let listener = Listener::new(false, false).failing("a", gone);
    for (seq, records) in [(1, &["a", "b"][..]), (2, &["a"][..]), (3, &["c"][..])] {
        store.add(&row(seq, records));
    }
    let running = deliver(&store, std::slice::from_ref(&listener));
    assert_eq!(listener.order(2).await, pairs(&[(1, "b"), (3, "c")]));
    assert!(began.elapsed() < Duration::from_secs(1));
    let got = listener.got(4).await;
    let order: Vec<_> = got
        .iter()
        .map(|(seq, record, _)| (*seq, record.clone()))
        .collect();
    assert_eq!(order, pairs(&[(1, "b"), (3, "c"), (1, "a"), (2, "a")]));
    let late = got[2].2 - (began + gone);
    assert!(late <= Duration::from_secs(72), "{late:?}");
    running.relay.stop().await;
    assert_eq!(store.state.lock().settled.to_string(), "1-3");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_parked_after_twenty_failures_and_told() {
    let store = Lone::new(Duration::ZERO, true);
    let listener = Listener::new(false, false).failing("a", Duration::from_hours(24));
    store.add(&row(1, &["a"]));
    let running = deliver(&store, std::slice::from_ref(&listener));
    let mut dead = running
        .bus
        .listen("linchpin.outbox.dead")
        .expect("a listener");
    let alarm = dead
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
    assert_eq!(store.state.lock().settled.to_string(), "1", "it is over");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_fails_whole_gets_everything_soon_after_it_works_again() {
    let store = Lone::new(Duration::ZERO, true);
    let gone = Duration::from_mins(5);
    let names = ["a", "b", "c", "d", "e", "f"];
    let listener = names
        .iter()
        .fold(Listener::new(false, false), |listener, name| {
            listener.failing(name, gone)
        });
    let back = Instant::now() + gone;
    store.add(&row(1, &names));
    let running = deliver(&store, std::slice::from_ref(&listener));
    let got = listener.got(names.len()).await;
    let last = got.iter().map(|(.., at)| *at).max().expect("events") - back;
    assert!(last <= Duration::from_secs(72), "{last:?}");
    running.relay.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_stops_keeps_the_order_and_degrades_readiness_until_it_works() {
    let store = Lone::new(Duration::ZERO, true);
    let gone = Duration::from_hours(2);
    let listener = Listener::new(true, false).failing("b", gone);
    let back = Instant::now() + gone;
    store.add(&row(1, &["a", "b", "c"]));
    store.add(&row(2, &["d"]));
    let running = deliver(&store, std::slice::from_ref(&listener));
    tokio::time::sleep(gone / 2).await;
    assert_eq!(
        listener.order(1).await,
        pairs(&[(1, "a")]),
        "nothing passes it"
    );
    assert!(running.health.is_degraded());
    let got = listener.got(4).await;
    let order: Vec<_> = got
        .iter()
        .map(|(seq, record, _)| (*seq, record.clone()))
        .collect();
    assert_eq!(order, pairs(&[(1, "a"), (1, "b"), (1, "c"), (2, "d")]));
    let late = got[1].2 - back;
    assert!(late <= Duration::from_secs(72), "{late:?}");
    assert!(!running.health.is_degraded());
    assert!(store.state.lock().parked.is_empty());
    running.relay.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_delivers_and_its_number_is_given_to_the_sink() {
    let (store, listener) = (
        Lone::new(Duration::ZERO, false),
        Listener::new(false, false),
    );
    store.state.lock().fence = None;
    store.add(&row(1, &["a"]));
    let running = deliver(&store, std::slice::from_ref(&listener));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(listener.0.tries.lock().is_empty(), "another process leads");
    store.state.lock().fence = Some(7);
    listener.got(1).await;
    // Another one takes over, and then gives up: what was settled is not delivered again.
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
        Lone::new(Duration::ZERO, false),
        Listener::new(false, false),
    );
    let running = deliver(&store, std::slice::from_ref(&listener));
    let later = row(2, &["b"]);
    store.add(&later);
    running.handover.committed(vec![later]);
    listener.got(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.state.lock().settled.to_string(), "2");
    // It took its number earlier, and commits now, in another process.
    store.add(&row(1, &["a"]));
    assert_eq!(listener.order(2).await, pairs(&[(2, "b"), (1, "a")]));
    running.relay.stop().await;
    assert_eq!(store.state.lock().settled.to_string(), "1-2");
}

#[tokio::test(start_paused = true)]
async fn a_gap_in_what_was_handed_over_is_read_from_the_table() {
    let (store, listener) = (Lone::new(Duration::ZERO, true), Listener::new(false, false));
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
async fn live_consumers_get_events_without_the_store_and_are_told_of_lost_ones() {
    let store = Lone::new(Duration::from_hours(24), true);
    let listener = Listener::new(false, true);
    let running = deliver(&store, std::slice::from_ref(&listener));
    running.handover.committed(vec![row(0, &["a"])]);
    listener.got(1).await;
    let entries: Vec<Entry> = row(0, &["b", "c"]).events.clone();
    running.handover.lost(&entries);
    // More at once than there is room for.
    for _ in 0..20_000 {
        running.handover.committed(vec![row(0, &["d"])]);
    }
    let got = listener.got(16_385).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let missed = *listener.0.missed.lock();
    assert_eq!(got.len() as u64 - 1 + missed, 20_002);
    assert!(
        store.state.lock().looks.is_empty(),
        "the store is not asked"
    );
    running.relay.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_consumer_is_told_of_lost_events_until_it_takes_notice() {
    let gone = Duration::from_secs(100);
    for live in [false, true] {
        let (store, began) = (Lone::new(Duration::ZERO, true), Instant::now());
        let listener = Listener::new(true, live).deaf(gone);
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
        tokio::time::sleep(gone / 2).await;
        assert!(running.health.is_degraded());
        // It is not called without a pause, and gets nothing meanwhile.
        let calls = listener.0.tries.lock().len();
        assert!((5..=12).contains(&calls), "{calls} calls");
        assert!(listener.0.got.borrow().is_empty());
        assert_eq!(store.state.lock().lost, (!live).then_some(lost));
        let late = listener.got(1).await[0].2 - (began + gone);
        assert!(late <= Duration::from_secs(72), "{late:?}");
        assert_eq!(*listener.0.missed.lock(), 3, "told once");
        assert_eq!(store.state.lock().lost, None);
        assert!(!running.health.is_degraded());
        running.relay.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_was_not_told_is_told_by_the_next_leader() {
    let store = Lone::new(Duration::ZERO, true);
    let lost = Lost { count: 2, until: 2 };
    store.state.lock().lost = Some(lost);
    let deaf = Listener::new(false, false).deaf(Duration::from_hours(1));
    let first = deliver(&store, std::slice::from_ref(&deaf));
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.relay.stop().await;
    assert_eq!(store.state.lock().lost, Some(lost));
    let listener = Listener::new(false, false);
    let second = deliver(&store, std::slice::from_ref(&listener));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*listener.0.missed.lock(), 2);
    second.relay.stop().await;
}
