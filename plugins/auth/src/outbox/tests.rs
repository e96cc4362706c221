use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::join_all;
use linchpin::{Package, package};
use parking_lot::Mutex;

use super::entity::Outbox;
use super::*;
use crate::mail::{Mailer, SmtpMailer, Templates};
use crate::testing::sink::Sink;
use crate::testing::{Bed, on_stores};

static TASKS: Package = package!(name = "tasks", entities = [entity(Outbox, [])]);

on_stores!(
    &super::TASKS =>
    a_task_is_done_once,
    many_workers_share_the_work,
    a_failure_is_repeated_five_times_with_longer_pauses,
    another_worker_takes_over_from_a_dead_one,
    an_expired_task_is_not_performed,
    stored_tasks_contain_no_secrets,
    a_rolled_back_transaction_queues_no_task,
    mail_arrives_when_the_server_is_back,
    a_commit_wakes_the_worker,
);

/// Records tasks, and fails while `fails` is set.
#[derive(Default)]
struct RecordingPerformer {
    done: Mutex<Vec<Task>>,
    tried: AtomicUsize,
    fails: AtomicBool,
}

impl Perform for RecordingPerformer {
    fn perform(&self, task: Task) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.tried.fetch_add(1, Ordering::SeqCst);
            if self.fails.load(Ordering::SeqCst) {
                return Err(Error::unavailable("as requested"));
            }
            tokio::task::yield_now().await;
            self.done.lock().push(task);
            Ok(())
        })
    }
}

fn queue(bed: &Bed) -> OutboxQueue {
    OutboxQueue::new(
        bed.app.adapter::<Outbox>().unwrap(),
        bed.keys.clone(),
        bed.env.clone(),
    )
}

impl OutboxQueue {
    /// Runs due tasks, several at a time, and returns their number.
    async fn round(&self, performer: &dyn Perform) -> Result<usize> {
        let due = self.due().await?;
        let count = due.len();
        let attempts = due.into_iter().map(|task| self.attempt(performer, task));
        let done: Result<Vec<()>> = join_all(attempts).await.into_iter().collect();
        done.map(|_| count)
    }
}

fn sms(n: usize) -> Task {
    Task::Sms {
        to: "+4930123456".into(),
        text: format!("{n:06}"),
    }
}

async fn records(bed: &Bed) -> Vec<Outbox> {
    let cx = Cx::system("look").at(bed.env.clock.now());
    bed.app
        .adapter::<Outbox>()
        .unwrap()
        .list(&cx, ListQuery::new().limit(200))
        .await
        .unwrap()
        .items
}

async fn put(queue: &OutboxQueue, task: &Task) {
    queue.put(&Cx::system("test"), task, None).await.unwrap();
}

async fn a_task_is_done_once(bed: &Bed) {
    let (queue, performer) = (queue(bed), RecordingPerformer::default());
    let mail = Task::Mail {
        kind: MailKind::EmailOtp,
        to: "a@x.test".into(),
        locale: None,
        vars: BTreeMap::from([("code".into(), "1".into())]),
        counted: None,
    };
    let lookup = Task::Lookup {
        what: RequestedMail::PasswordReset,
        identifier: "a@x.test".into(),
        full: false,
        from: TaskOrigin::default(),
    };
    for task in [&sms(1), &mail, &lookup] {
        put(&queue, task).await;
    }
    assert_eq!(queue.round(&performer).await.unwrap(), 3);
    assert_eq!(queue.round(&performer).await.unwrap(), 0);
    let done = performer.done.lock().clone();
    assert!(
        done.len() == 3
            && [sms(1), mail, lookup]
                .iter()
                .all(|task| done.contains(task)),
        "{done:?}"
    );
    assert!(records(bed).await.is_empty());
}

async fn many_workers_share_the_work(bed: &Bed) {
    let (queue, performer) = (queue(bed), Arc::new(RecordingPerformer::default()));
    for n in 0..40 {
        put(&queue, &sms(n)).await;
    }
    let workers: Vec<Worker> = (0..4)
        .map(|_| queue.start_worker(performer.clone()))
        .collect();
    while performer.done.lock().len() < 40 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for worker in workers {
        worker.ended(MAX_TASK_DURATION).await;
    }
    let done: std::collections::BTreeSet<String> = performer
        .done
        .lock()
        .iter()
        .map(|t| serde_json::to_string(t).unwrap())
        .collect();
    assert_eq!(
        (done.len(), performer.tried.load(Ordering::SeqCst)),
        (40, 40)
    );
    assert!(records(bed).await.is_empty());
}

async fn a_failure_is_repeated_five_times_with_longer_pauses(bed: &Bed) {
    let (queue, performer) = (queue(bed), RecordingPerformer::default());
    performer.fails.store(true, Ordering::SeqCst);
    put(&queue, &sms(1)).await;
    assert_eq!(queue.round(&performer).await.unwrap(), 1);
    for pause in BACK_OFF {
        bed.clock
            .advance(pause.checked_sub(Duration::from_millis(1)).unwrap());
        assert_eq!(queue.round(&performer).await.unwrap(), 0, "{pause:?}");
        bed.clock.advance(Duration::from_millis(1));
        assert_eq!(queue.round(&performer).await.unwrap(), 1, "{pause:?}");
    }
    assert_eq!(performer.tried.load(Ordering::SeqCst), 6);
    assert!(
        records(bed).await.is_empty(),
        "the task is dropped after the last attempt"
    );

    // A task that succeeds in the end.
    put(&queue, &sms(2)).await;
    queue.round(&performer).await.unwrap();
    performer.fails.store(false, Ordering::SeqCst);
    bed.clock.advance(BACK_OFF[0]);
    assert_eq!(queue.round(&performer).await.unwrap(), 1);
    assert_eq!(*performer.done.lock(), [sms(2)]);
}

async fn another_worker_takes_over_from_a_dead_one(bed: &Bed) {
    struct Never;
    impl Perform for Never {
        fn perform(&self, _: Task) -> BoxFuture<'_, Result<()>> {
            Box::pin(std::future::pending())
        }
    }
    let (queue, performer) = (queue(bed), RecordingPerformer::default());
    put(&queue, &sms(1)).await;
    let dying = tokio::spawn({
        let queue = queue.clone();
        async move { queue.round(&Never).await }
    });
    while records(bed).await.iter().all(|record| record.attempts == 0) {
        tokio::task::yield_now().await;
    }
    dying.abort();
    assert_eq!(
        queue.round(&performer).await.unwrap(),
        0,
        "the lease of the dead worker has not ended"
    );
    bed.clock.advance(LEASE);
    assert_eq!(queue.round(&performer).await.unwrap(), 1);
    assert_eq!(*performer.done.lock(), [sms(1)]);
}

async fn an_expired_task_is_not_performed(bed: &Bed) {
    let (queue, performer) = (queue(bed), RecordingPerformer::default());
    queue
        .put(&Cx::system("test"), &sms(1), Some(Duration::from_mins(5)))
        .await
        .unwrap();
    bed.clock.advance(Duration::from_secs(301));
    assert_eq!(queue.round(&performer).await.unwrap(), 0);
    assert_eq!(performer.tried.load(Ordering::SeqCst), 0);
}

async fn stored_tasks_contain_no_secrets(bed: &Bed) {
    let queue = queue(bed);
    let task = Task::Mail {
        kind: MailKind::PasswordReset,
        to: "alice@example.test".into(),
        locale: None,
        vars: BTreeMap::from([("link".into(), "https://x.test/#token=hunter2".into())]),
        counted: None,
    };
    put(&queue, &task).await;
    let text = format!("{:?}", records(bed).await);
    assert!(
        !text.contains("hunter2") && !text.contains("alice") && !text.contains("password"),
        "{text}"
    );
    assert_eq!(format!("{task:?}"), "Mail(password_reset)");
    // Data that was copied to another record cannot be decrypted.
    let performer = RecordingPerformer::default();
    let cx = Cx::system("test").at(bed.env.clock.now());
    let adapter = bed.app.adapter::<Outbox>().unwrap();
    let sealed = records(bed).await[0].sealed.clone();
    adapter
        .create(
            &cx,
            OutboxCreate {
                id: "moved".into(),
                sealed,
                attempts: None,
                due_at: cx.now(),
                expires_at: None,
            },
        )
        .await
        .unwrap();
    queue.round(&performer).await.unwrap();
    assert_eq!(performer.done.lock().len(), 1);
}

async fn a_rolled_back_transaction_queues_no_task(bed: &Bed) {
    let queue = queue(bed);
    let cx = Cx::system("test").at(bed.env.clock.now());
    let failed: Result<()> = cx
        .transaction(async |cx| {
            queue.put(cx, &sms(1), None).await?;
            Err(Error::not_found())
        })
        .await;
    assert!(failed.is_err() && records(bed).await.is_empty());
}

/// Sends mail only.
struct Sends(SmtpMailer);

impl Perform for Sends {
    fn perform(&self, task: Task) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let Task::Mail {
                kind,
                to,
                locale,
                vars,
                ..
            } = task
            else {
                return Err(Error::internal("no mail"));
            };
            self.0
                .send(Templates::default().render(to, kind, locale, vars))
                .await
        })
    }
}

async fn mail_arrives_when_the_server_is_back(bed: &Bed) {
    let sink = Sink::start();
    let (port, url) = (sink.port(), sink.url());
    drop(sink);
    let queue = queue(bed);
    let mailer = Sends(SmtpMailer::new(&url, "accounts@example.test").unwrap());
    let vars = BTreeMap::from([("code".to_owned(), "012345".to_owned())]);
    put(
        &queue,
        &Task::Mail {
            kind: MailKind::EmailOtp,
            to: "alice@example.test".into(),
            locale: None,
            vars,
            counted: None,
        },
    )
    .await;
    assert_eq!(queue.round(&mailer).await.unwrap(), 1);
    let sink = Sink::at(port);
    bed.clock.advance(BACK_OFF[0]);
    assert_eq!(queue.round(&mailer).await.unwrap(), 1);
    let received = sink.received(1).await;
    assert!(received[0]["text"].as_str().unwrap().contains("012345"));
    assert!(records(bed).await.is_empty());
}

/// A clock whose background tasks look for work only when they are woken.
struct OnlyWhenWoken(crate::testing::StandingClock);

impl crate::env::Clock for OnlyWhenWoken {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn pause(&self, _: Duration) -> Duration {
        Duration::from_hours(24)
    }
}

async fn a_commit_wakes_the_worker(bed: &Bed) {
    let mut queue = queue(bed);
    queue.env.clock = Arc::new(OnlyWhenWoken(bed.clock.clone()));
    let performer = Arc::new(RecordingPerformer::default());
    let worker = queue.start_worker(performer.clone());
    Cx::system("test")
        .transaction(async |cx| {
            queue.put(cx, &sms(1), None).await?;
            // Time for a worker that was woken too early: it finds nothing and sleeps for a day.
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(())
        })
        .await
        .unwrap();
    let performed = async {
        while performer.done.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), performed)
        .await
        .expect("the commit wakes the worker");
    worker.ended(MAX_TASK_DURATION).await;
}
