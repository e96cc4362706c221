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

/// A log of the jobs that ran, in order.
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
        let waited = tokio::time::timeout(Duration::from_mins(1), async {
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

/// Fails in the way that its field names.
#[derive(Serialize, Deserialize)]
struct Fail {
    failure: String,
}

impl Job for Fail {
    const NAME: &'static str = "fail";
    const ATTEMPTS: u32 = 3;
    const TIMEOUT: Duration = Duration::from_millis(50);

    async fn run(self, cx: JobCx) -> Result<()> {
        Log::of(&cx).add(format!("{} {}", self.failure, cx.attempt));
        match self.failure.as_str() {
            "panic" => panic!("as requested"),
            "hang" => tokio::time::sleep(Duration::from_hours(1)).await,
            _ => return Err(Error::unavailable("as requested")),
        }
        Ok(())
    }
}

/// A recurring job, which logs each run.
#[derive(Serialize, Deserialize)]
struct Tick;

impl Job for Tick {
    const NAME: &'static str = "tick";

    async fn run(self, cx: JobCx) -> Result<()> {
        Log::of(&cx).add("tick");
        Ok(())
    }
}

/// Logs the number of jobs that run at the same time.
#[derive(Serialize, Deserialize)]
struct Crowd;

/// The running jobs of the type [`Crowd`].
static CROWD: AtomicI64 = AtomicI64::new(0);

impl Job for Crowd {
    const NAME: &'static str = "crowd";

    async fn run(self, cx: JobCx) -> Result<()> {
        let running = CROWD.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
        CROWD.fetch_sub(1, Ordering::SeqCst);
        Log::of(&cx).add(running.to_string());
        Ok(())
    }
}

/// A recurring job that runs until its task is canceled.
#[derive(Serialize, Deserialize)]
struct Endless {
    release: u32,
}

impl Job for Endless {
    const NAME: &'static str = "endless";
    const TIMEOUT: Duration = Duration::from_hours(2);

    async fn run(self, cx: JobCx) -> Result<()> {
        Log::of(&cx).add(format!("release {}", self.release));
        std::future::pending().await
    }
}

/// A product on the shelf.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Product {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = 0)]
    pub stock: i64,
}

/// Adds ten pieces to the stock.
#[operation(kind = "increment", field = stock, by = 10)]
pub const REFILL: Operation<Product>;

/// Refills the products that are sold out.
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

/// A running app of a [`TestSetup`].
struct TestApp {
    app: Running,
    queue: Arc<JobQueue>,
    log: Log,
    _folder: Arc<tempfile::TempDir>,
}

/// The database, the clock and the log that the apps of a test share.
#[derive(Clone)]
struct TestSetup {
    folder: Arc<tempfile::TempDir>,
    clock_offset: Arc<AtomicI64>,
    log: Log,
}

impl TestSetup {
    fn new() -> Self {
        Self {
            folder: Arc::new(tempfile::tempdir().unwrap()),
            clock_offset: Arc::default(),
            log: Log::default(),
        }
    }

    fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.clock_offset.fetch_add(by, Ordering::SeqCst);
    }

    /// The time on the clock of the apps.
    fn now(&self) -> Timestamp {
        let system = Timestamp::system_now().millis();
        Timestamp::from_millis(system + self.clock_offset.load(Ordering::SeqCst))
    }

    async fn start(&self, jobs: Jobs) -> TestApp {
        let app = self.app(jobs).start().await.unwrap();
        app.adapters().provide(self.log.clone());
        TestApp {
            queue: app.adapters().provided::<JobQueue>().unwrap(),
            app,
            log: self.log.clone(),
            _folder: Arc::clone(&self.folder),
        }
    }

    fn app(&self, jobs: Jobs) -> App {
        self.app_without_plugin().plugin(jobs)
    }

    fn app_without_plugin(&self) -> App {
        let clock_offset = Arc::clone(&self.clock_offset);
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
                Timestamp::from_millis(now + clock_offset.load(Ordering::SeqCst))
            })
            .package(&SHELF)
    }
}

impl TestApp {
    async fn stored(&self) -> Vec<QueuedJob> {
        let jobs = self.app.adapters().get::<QueuedJob>().unwrap();
        jobs.list(&cx(), ListQuery::new().limit(500))
            .await
            .unwrap()
            .items
    }

    async fn until_empty(&self) {
        let waited = tokio::time::timeout(Duration::from_mins(1), async {
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
    let test = TestSetup::new().start(Jobs::new().job::<Say>()).await;
    let failed: Result<()> = cx()
        .transaction(async |cx| {
            test.queue.put(cx, &say("rolled back")).await?;
            Err(Error::forbidden())
        })
        .await;
    assert!(failed.is_err());
    let (queue, log) = (&test.queue, &test.log);
    cx().transaction(async |cx| {
        queue.put(cx, &say("committed")).await?;
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(log.all().is_empty(), "it ran before the commit");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(test.log.until(1).await, ["committed"]);
    test.until_empty().await;
    assert_eq!(test.log.all(), ["committed"]);
}

#[tokio::test]
async fn a_job_reads_and_changes_records_of_the_app() {
    let test = TestSetup::new().start(Jobs::new().job::<Restock>()).await;
    let products = test.app.adapters().get::<Product>().unwrap();
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
    test.queue.put(&cx(), &Restock).await.unwrap();
    test.until_empty().await;
    for (id, stock) in [(empty.id, 10), (full.id, 3)] {
        let product = products.get(&cx(), id).await.unwrap().unwrap();
        assert_eq!(product.stock, stock);
    }
}

#[tokio::test]
async fn a_schedule_may_have_a_time_zone() {
    let setup = TestSetup::new();
    let app = with_jobs(setup.app_without_plugin()).start().await.unwrap();
    let jobs = app.adapters().get::<QueuedJob>().unwrap();
    let job = jobs
        .list(&cx(), ListQuery::new())
        .await
        .unwrap()
        .items
        .remove(0);
    // 03:00 in Berlin is 01:00 or 02:00 in UTC.
    let hour = job.due_at.millis() % 86_400_000 / 3_600_000;
    assert!((1..=2).contains(&hour), "{}", job.due_at);
}

#[tokio::test]
async fn a_later_job_waits_for_its_time() {
    let setup = TestSetup::new();
    let test = setup.start(Jobs::new().job::<Say>()).await;
    let at = Timestamp::from_millis(Timestamp::system_now().millis() + 3_600_000);
    test.queue.put_at(&cx(), &say("later"), at).await.unwrap();
    test.queue.put(&cx(), &say("now")).await.unwrap();
    assert_eq!(test.log.until(1).await, ["now"]);
    setup.advance(Duration::from_mins(61));
    assert_eq!(test.log.until(2).await, ["now", "later"]);
}

#[tokio::test]
async fn a_failing_job_is_retried_and_then_parked() {
    let setup = TestSetup::new();
    let test = setup.start(Jobs::new().job::<Fail>()).await;
    for (n, failure) in ["error", "panic", "hang"].into_iter().enumerate() {
        test.queue
            .put(
                &cx(),
                &Fail {
                    failure: failure.to_owned(),
                },
            )
            .await
            .unwrap();
        for attempt in 1..=3_i64 {
            test.log
                .until(n * 3 + usize::try_from(attempt).unwrap())
                .await;
            // The result must be written before the clock advances. Until then the job is due at
            // the end of its lease, in 30 s; the pauses after failures are 10 s and 40 s.
            loop {
                let jobs = test.stored().await;
                let job = jobs
                    .into_iter()
                    .find(|job| job.payload.contains(failure))
                    .unwrap();
                let wait = job.due_at.millis() - setup.now().millis();
                let settled = job.status == JobStatus::Parked || !(15_000..=35_000).contains(&wait);
                if settled && job.attempts == attempt {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            setup.advance(Duration::from_secs(200));
        }
        let expected: Vec<String> = (1..=3)
            .map(|attempt| format!("{failure} {attempt}"))
            .collect();
        assert_eq!(test.log.all()[n * 3..], expected);
    }
    setup.advance(Duration::from_hours(48));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(test.log.all().len(), 9, "a parked job does not run");
    let jobs = test.stored().await;
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
    let setup = TestSetup::new();
    let (a, b) = (
        setup.start(Jobs::new().job::<Say>()).await,
        setup.start(Jobs::new().job::<Say>().at_once(4)).await,
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
async fn no_more_jobs_run_than_at_once_allows() {
    for at_once in [1, 3, 20] {
        let setup = TestSetup::new();
        // The worker claims no job before all are stored.
        let later = Timestamp::from_millis(setup.now().millis() + 3_600_000);
        let jobs = Jobs::new().job::<Crowd>().at_once(at_once);
        let test = setup.start(jobs).await;
        for _ in 0..40 {
            test.queue.put_at(&cx(), &Crowd, later).await.unwrap();
        }
        setup.advance(Duration::from_hours(2));
        test.until_empty().await;
        let counts: Vec<usize> = test
            .log
            .all()
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        assert_eq!(counts.len(), 40);
        assert!(counts.iter().all(|count| *count <= at_once), "{counts:?}");
    }
}

#[tokio::test]
async fn a_key_is_queued_once() {
    let setup = TestSetup::new();
    let test = setup.start(Jobs::new().job::<Say>()).await;
    let (cx, once) = (cx(), say("once"));
    let (a, b) = tokio::join!(
        test.queue.put_once(&cx, "k", &once),
        test.queue.put_once(&cx, "k", &once),
    );
    let added = [a.unwrap(), b.unwrap()];
    let count = added.iter().filter(|added| **added).count();
    test.log.until(count).await;
    test.until_empty().await;
    assert!(
        test.queue.put_once(&cx, "k", &say("again")).await.unwrap(),
        "the first one is done"
    );
    test.log.until(count + 1).await;
    let reserved = test.queue.put_once(&cx, "schedule", &once).await;
    let text = format!("{:?}", reserved.unwrap_err());
    assert!(text.contains("is reserved for recurring jobs"), "{text}");
}

#[tokio::test]
async fn a_started_process_leaves_the_lease_of_a_running_schedule() {
    let setup = TestSetup::new();
    let jobs = |release| Jobs::new().every("* * * * *", &Endless { release });
    let a = setup.start(jobs(1)).await;
    setup.advance(Duration::from_mins(1));
    a.log.until(1).await;
    let lease_end = a.stored().await[0].due_at;
    // The same release, and one with another payload.
    for release in [1, 2] {
        let b = setup.start(jobs(release)).await;
        let job = a.stored().await.remove(0);
        assert_eq!(job.due_at, lease_end, "release {release}");
        setup.advance(Duration::from_mins(10));
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(a.log.all(), ["release 1"]);
        drop(b);
    }
    // The next run uses the new payload.
    setup.advance(Duration::from_hours(2));
    assert_eq!(a.log.until(2).await[1], "release 2");
}

#[tokio::test]
async fn a_schedule_runs_once_for_all_processes() {
    let setup = TestSetup::new();
    let jobs = || Jobs::new().every("0 * * * *", &Tick);
    let (a, b) = (setup.start(jobs()).await, setup.start(jobs()).await);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let job = a.stored().await.remove(0);
    assert_eq!(job.due_at.millis() % 3_600_000, 0, "{}", job.due_at);
    for hour in 1..=3 {
        setup.advance(Duration::from_hours(1));
        a.log.until(hour).await;
        // The next time must be stored before the clock advances.
        while a.stored().await[0].attempts != 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    assert_eq!(a.log.all().len(), 3);
    // Many missed times lead to one run.
    b.app.stop().await.unwrap();
    a.app.stop().await.unwrap();
    setup.advance(Duration::from_hours(100));
    let c = setup.start(jobs()).await;
    c.log.until(4).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(c.log.all().len(), 4);
    assert_eq!(c.stored().await.len(), 1);
    // A more frequent schedule takes effect at the next start.
    c.app.stop().await.unwrap();
    let d = setup.start(Jobs::new().every("* * * * *", &Tick)).await;
    let wait = d.stored().await[0].due_at.millis()
        - setup.clock_offset.load(Ordering::SeqCst)
        - Timestamp::system_now().millis();
    assert!(wait <= 60_000, "{wait}");
}

#[tokio::test]
async fn a_job_with_an_unreadable_value_is_parked_and_unknown_jobs_wait() {
    let setup = TestSetup::new();
    let test = setup.start(Jobs::new().job::<Say>()).await;
    let unknown = test
        .queue
        .put(
            &cx(),
            &Fail {
                failure: "x".to_owned(),
            },
        )
        .await
        .unwrap_err();
    assert!(format!("{unknown:?}").contains("Jobs::job"), "{unknown:?}");
    test.app.stop().await.unwrap();
    // A release with the job `fail`, and without the job `say`.
    let other = setup.start(Jobs::new().job::<Fail>()).await;
    other
        .queue
        .put(
            &cx(),
            &Fail {
                failure: "error".to_owned(),
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
        setup.advance(Duration::from_hours(2));
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    let job = other.stored().await.remove(0);
    assert_eq!(job.status, JobStatus::Parked, "{job:?}");
    assert_eq!(
        job.error.as_deref(),
        Some("the stored payload of the job cannot be parsed")
    );
}

/// A patch that renames the member `failure` of the payload, so that the job cannot be read.
fn reshaped(job: &QueuedJob) -> <QueuedJob as linchpin::Entity>::Patch {
    type Patch = <QueuedJob as linchpin::Entity>::Patch;
    Patch {
        payload: Some(job.payload.replace("failure", "why")),
        ..Patch::default()
    }
}

#[tokio::test]
async fn all_mistakes_of_a_declaration_are_reported_together() {
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
        .every("0 * * * *", &Wrong)
        .every("61 * * * *", &Tick)
        .job::<Tick>()
        .at_once(0);
    let error = format!(
        "{:?}",
        TestSetup::new().app(jobs).start().await.unwrap_err()
    );
    for part in [
        "two jobs are named `say`",
        "`ATTEMPTS`",
        "61 * * * *",
        "`at_once`",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(
        !error.contains("`tick`: rename"),
        "one type is one job: {error}"
    );
}
