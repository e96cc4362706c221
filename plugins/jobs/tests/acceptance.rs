//! Jobs of an app on SQLite, run by its worker.
#![allow(missing_docs, clippy::unwrap_used)] // a test entity, and cases that fail

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use linchpin::entity::ListQuery;
use linchpin::prelude::*;
use linchpin::{Cx, Error, Field, Running};
use linchpin_jobs::{Job, JobCx, JobQueue, JobStatus, Jobs, QueuedJob};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// What ran, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn of(cx: &JobCx) -> Arc<Self> {
        cx.adapters.provided::<Self>().unwrap()
    }

    fn add(&self, text: impl Into<String>) {
        self.0.lock().push(text.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    async fn until(&self, count: usize) -> Vec<String> {
        let waited = tokio::time::timeout(Duration::from_secs(20), async {
            while self.all().len() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(waited.await.is_ok(), "{count} expected: {:?}", self.all());
        self.all()
    }
}

/// Logs its text.
#[derive(Serialize, Deserialize)]
struct Say {
    text: String,
}

impl Job for Say {
    const NAME: &'static str = "say";

    async fn run(self, cx: JobCx) -> Result<()> {
        Log::of(&cx).add(self.text);
        Ok(())
    }
}

/// Fails in the way that it names.
#[derive(Serialize, Deserialize)]
struct Fail {
    how: String,
}

impl Job for Fail {
    const NAME: &'static str = "fail";
    const ATTEMPTS: u32 = 3;
    const TIMEOUT: Duration = Duration::from_millis(50);

    async fn run(self, cx: JobCx) -> Result<()> {
        Log::of(&cx).add(format!("{} {}", self.how, cx.attempt));
        match self.how.as_str() {
            "panic" => panic!("as requested"),
            "hang" => tokio::time::sleep(Duration::from_hours(1)).await,
            _ => return Err(Error::unavailable("as requested")),
        }
        Ok(())
    }
}

/// Recurs.
#[derive(Serialize, Deserialize)]
struct Tick;

impl Job for Tick {
    const NAME: &'static str = "tick";

    async fn run(self, cx: JobCx) -> Result<()> {
        Log::of(&cx).add("tick");
        Ok(())
    }
}

/// A product in the shelf.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Product {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = 0)]
    pub stock: i64,
}

/// Puts ten pieces into the shelf.
#[operation(kind = "increment", field = stock, by = 10)]
pub const REFILL: Operation<Product>;

/// Refills what is sold out.
#[derive(Serialize, Deserialize)]
struct Restock;

impl Job for Restock {
    const NAME: &'static str = "restock";

    async fn run(self, cx: JobCx) -> Result<()> {
        let products = cx.adapters.get::<Product>()?;
        let sold_out = ListQuery::new().filter(product::stock.eq(0));
        for product in products.list(&cx.cx, sold_out).await?.items {
            products.refill(&cx.cx, product.id).await?;
        }
        Ok(())
    }
}

fn with_jobs(app: App) -> App {
    app.plugin(
        Jobs::new()
            .job::<Say>()
            .every("0 3 * * 1-5 Europe/Berlin", &Restock),
    )
}

static SHELF: Package = package!(name = "shelf", entities = [entity(Product, [REFILL])]);

/// An app on a database that it may share with others.
struct Bed {
    app: Running,
    queue: Arc<JobQueue>,
    log: Log,
    _folder: Arc<tempfile::TempDir>,
}

#[derive(Clone)]
struct World {
    folder: Arc<tempfile::TempDir>,
    ahead: Arc<AtomicI64>,
    log: Log,
}

impl World {
    fn new() -> Self {
        Self {
            folder: Arc::new(tempfile::tempdir().unwrap()),
            ahead: Arc::default(),
            log: Log::default(),
        }
    }

    fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.ahead.fetch_add(by, Ordering::SeqCst);
    }

    /// The time of the clock of the apps.
    fn now(&self) -> Timestamp {
        let system = Timestamp::system_now().millis();
        Timestamp::from_millis(system + self.ahead.load(Ordering::SeqCst))
    }

    async fn start(&self, jobs: Jobs) -> Bed {
        let app = self.app(jobs).start().await.unwrap();
        app.adapters().provide(self.log.clone());
        Bed {
            queue: app.adapters().provided::<JobQueue>().unwrap(),
            app,
            log: self.log.clone(),
            _folder: Arc::clone(&self.folder),
        }
    }

    fn app(&self, jobs: Jobs) -> App {
        self.bare().plugin(jobs)
    }

    fn bare(&self) -> App {
        let ahead = Arc::clone(&self.ahead);
        let config = Config::new()
            .port(0)
            .signing_secret("x".repeat(40))
            .database(format!(
                "sqlite:{}",
                self.folder.path().join("app.db").display()
            ));
        App::new(config)
            .clock(move || {
                let now = Timestamp::system_now().millis();
                Timestamp::from_millis(now + ahead.load(Ordering::SeqCst))
            })
            .package(&SHELF)
    }
}

impl Bed {
    async fn stored(&self) -> Vec<QueuedJob> {
        let jobs = self.app.adapters().get::<QueuedJob>().unwrap();
        jobs.list(&cx(), ListQuery::new().limit(500))
            .await
            .unwrap()
            .items
    }

    async fn until_empty(&self) {
        let waited = tokio::time::timeout(Duration::from_secs(20), async {
            while !self.stored().await.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(waited.await.is_ok(), "{:?}", self.stored().await);
    }
}

fn cx() -> Cx {
    Cx::system("a test")
}

fn say(text: &str) -> Say {
    Say {
        text: text.to_owned(),
    }
}

#[tokio::test]
async fn a_job_runs_once_after_the_commit_and_not_after_a_rollback() {
    let bed = World::new().start(Jobs::new().job::<Say>()).await;
    let failed: Result<()> = cx()
        .transaction(async |cx| {
            bed.queue.put(cx, &say("rolled back")).await?;
            Err(Error::forbidden())
        })
        .await;
    assert!(failed.is_err());
    let (queue, log) = (&bed.queue, &bed.log);
    cx().transaction(async |cx| {
        queue.put(cx, &say("committed")).await?;
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(log.all().is_empty(), "it ran before the commit");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(bed.log.until(1).await, ["committed"]);
    bed.until_empty().await;
    assert_eq!(bed.log.all(), ["committed"]);
}

#[tokio::test]
async fn a_job_reaches_the_records_of_the_app() {
    let bed = World::new().start(Jobs::new().job::<Restock>()).await;
    let products = bed.app.adapters().get::<Product>().unwrap();
    let (empty, full) = (
        products
            .create(&cx(), ProductCreate { stock: None })
            .await
            .unwrap(),
        products
            .create(&cx(), ProductCreate { stock: Some(3) })
            .await
            .unwrap(),
    );
    bed.queue.put(&cx(), &Restock).await.unwrap();
    bed.until_empty().await;
    for (id, stock) in [(empty.id, 10), (full.id, 3)] {
        let product = products.get(&cx(), id).await.unwrap().unwrap();
        assert_eq!(product.stock, stock);
    }
}

#[tokio::test]
async fn a_schedule_may_have_a_time_zone() {
    let world = World::new();
    let app = with_jobs(world.bare()).start().await.unwrap();
    let jobs = app.adapters().get::<QueuedJob>().unwrap();
    let job = jobs
        .list(&cx(), ListQuery::new())
        .await
        .unwrap()
        .items
        .remove(0);
    // Three in the morning in Berlin is one or two in UTC.
    let hour = job.due_at.millis() % 86_400_000 / 3_600_000;
    assert!((1..=2).contains(&hour), "{}", job.due_at);
}

#[tokio::test]
async fn a_later_job_waits_for_its_time() {
    let world = World::new();
    let bed = world.start(Jobs::new().job::<Say>()).await;
    let at = Timestamp::from_millis(Timestamp::system_now().millis() + 3_600_000);
    bed.queue.put_at(&cx(), &say("later"), at).await.unwrap();
    bed.queue.put(&cx(), &say("now")).await.unwrap();
    assert_eq!(bed.log.until(1).await, ["now"]);
    world.advance(Duration::from_mins(61));
    assert_eq!(bed.log.until(2).await, ["now", "later"]);
}

#[tokio::test]
async fn a_job_that_fails_is_tried_again_and_then_parked() {
    let world = World::new();
    let bed = world.start(Jobs::new().job::<Fail>()).await;
    for (n, how) in ["error", "panic", "hang"].into_iter().enumerate() {
        bed.queue
            .put(
                &cx(),
                &Fail {
                    how: how.to_owned(),
                },
            )
            .await
            .unwrap();
        for attempt in 1..=3_i64 {
            bed.log
                .until(n * 3 + usize::try_from(attempt).unwrap())
                .await;
            // The result is written before the clock moves on. Until then the job is due at the end
            // of its lease, in 30 s; the pauses after failures are 10 s and 40 s.
            loop {
                let jobs = bed.stored().await;
                let job = jobs
                    .into_iter()
                    .find(|job| job.payload.contains(how))
                    .unwrap();
                let wait = job.due_at.millis() - world.now().millis();
                let settled = job.status == JobStatus::Parked || !(15_000..=35_000).contains(&wait);
                if settled && job.attempts == attempt {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            world.advance(Duration::from_secs(200));
        }
        let expected: Vec<String> = (1..=3).map(|attempt| format!("{how} {attempt}")).collect();
        assert_eq!(bed.log.all()[n * 3..], expected);
    }
    world.advance(Duration::from_hours(48));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(bed.log.all().len(), 9, "a parked job does not run");
    let jobs = bed.stored().await;
    assert!(
        jobs.iter().all(|job| job.status == JobStatus::Parked),
        "{jobs:?}"
    );
    let mut errors: Vec<&str> = jobs
        .iter()
        .map(|job| job.error.as_deref().unwrap())
        .collect();
    errors.sort_unstable();
    assert!(errors[0].ends_with("as requested"), "{errors:?}");
    assert_eq!(errors[1..], ["it panicked", "it took longer than 50ms"]);
}

#[tokio::test]
async fn two_workers_share_the_jobs() {
    let world = World::new();
    let (a, b) = (
        world.start(Jobs::new().job::<Say>()).await,
        world.start(Jobs::new().job::<Say>().at_once(4)).await,
    );
    for n in 0..100 {
        let queue = if n % 2 == 0 { &a.queue } else { &b.queue };
        queue.put(&cx(), &say(&n.to_string())).await.unwrap();
    }
    a.log.until(100).await;
    a.until_empty().await;
    let mut ran: Vec<usize> = a
        .log
        .all()
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    ran.sort_unstable();
    assert_eq!(ran, (0..100).collect::<Vec<_>>(), "each ran once");
}

#[tokio::test]
async fn a_key_is_queued_once() {
    let world = World::new();
    let bed = world.start(Jobs::new().job::<Say>()).await;
    let (cx, once) = (cx(), say("once"));
    let (a, b) = tokio::join!(
        bed.queue.put_once(&cx, "k", &once),
        bed.queue.put_once(&cx, "k", &once),
    );
    let added = [a.unwrap(), b.unwrap()];
    let count = added.iter().filter(|added| **added).count();
    bed.log.until(count).await;
    bed.until_empty().await;
    assert!(
        bed.queue.put_once(&cx, "k", &say("again")).await.unwrap(),
        "the first one is done"
    );
    bed.log.until(count + 1).await;
}

#[tokio::test]
async fn a_schedule_runs_once_for_all_processes() {
    let world = World::new();
    let jobs = || Jobs::new().every("0 * * * *", &Tick);
    let (a, b) = (world.start(jobs()).await, world.start(jobs()).await);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let job = a.stored().await.remove(0);
    assert_eq!(job.due_at.millis() % 3_600_000, 0, "{}", job.due_at);
    for hour in 1..=3 {
        world.advance(Duration::from_hours(1));
        a.log.until(hour).await;
        // The next time is stored before the clock moves on.
        while a.stored().await[0].attempts != 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    assert_eq!(a.log.all().len(), 3);
    // Many missed times are one run.
    b.app.stop().await.unwrap();
    a.app.stop().await.unwrap();
    world.advance(Duration::from_hours(100));
    let c = world.start(jobs()).await;
    c.log.until(4).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(c.log.all().len(), 4);
    assert_eq!(c.stored().await.len(), 1);
    // A more frequent schedule takes effect at the next start.
    c.app.stop().await.unwrap();
    let d = world.start(Jobs::new().every("* * * * *", &Tick)).await;
    let wait = d.stored().await[0].due_at.millis()
        - world.ahead.load(Ordering::SeqCst)
        - Timestamp::system_now().millis();
    assert!(wait <= 60_000, "{wait}");
}

#[tokio::test]
async fn a_value_that_cannot_be_read_is_parked_and_unknown_jobs_wait() {
    let world = World::new();
    let bed = world.start(Jobs::new().job::<Say>()).await;
    let unknown = bed
        .queue
        .put(
            &cx(),
            &Fail {
                how: "x".to_owned(),
            },
        )
        .await
        .unwrap_err();
    assert!(format!("{unknown:?}").contains("Jobs::job"), "{unknown:?}");
    bed.app.stop().await.unwrap();
    // A release with another shape of the job, and without the job `fail`.
    let other = world.start(Jobs::new().job::<Fail>()).await;
    other
        .queue
        .put(
            &cx(),
            &Fail {
                how: "error".to_owned(),
            },
        )
        .await
        .unwrap();
    other.log.until(1).await;
    let records = other.app.adapters().get::<QueuedJob>().unwrap();
    let job = other.stored().await.remove(0);
    let patch = reshaped(&job);
    records
        .update(&cx(), job.id.as_str(), patch, None)
        .await
        .unwrap();
    for _ in 0..3 {
        world.advance(Duration::from_hours(2));
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    let job = other.stored().await.remove(0);
    assert_eq!(job.status, JobStatus::Parked, "{job:?}");
    assert_eq!(
        job.error.as_deref(),
        Some("the stored value cannot be read")
    );
}

/// A stored value of another shape.
fn reshaped(job: &QueuedJob) -> <QueuedJob as linchpin::Entity>::Patch {
    type Patch = <QueuedJob as linchpin::Entity>::Patch;
    Patch {
        payload: Some(job.payload.replace("how", "why")),
        ..Patch::default()
    }
}

#[tokio::test]
async fn mistakes_of_a_declaration_are_reported_at_once() {
    #[derive(Serialize, Deserialize)]
    struct Wrong;
    impl Job for Wrong {
        const NAME: &'static str = "say";
        const ATTEMPTS: u32 = 0;

        async fn run(self, _: JobCx) -> Result<()> {
            Ok(())
        }
    }
    let jobs = Jobs::new()
        .job::<Say>()
        .job::<Wrong>()
        .every("61 * * * *", &Tick)
        .at_once(0);
    let error = format!("{:?}", World::new().app(jobs).start().await.unwrap_err());
    for part in [
        "two jobs are named `say`",
        "`ATTEMPTS`",
        "61 * * * *",
        "`at_once`",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}
