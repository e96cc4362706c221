//! Counts the SQL statements of the intake, without its inserts. The intake is the consumer of
//! events that writes the messages and deliveries of webhooks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use linchpin::store::sqlite::{SqliteOptions, SqliteStore};
use linchpin::store::{Plan, Reply, Rows, Statement, Store, Transaction};
use linchpin::{BoxFuture, Cx, Result, Value};

use super::{app, queue};
use crate::Outcome;
use crate::around::{Around, Watch};
use crate::posts::{Post, PostCreate};
use crate::receiver::Receiver;
use crate::table::Table;

/// The events of one commit. The intake reads them in batches of at most 250.
const EVENTS: usize = 5_000;

/// Counts of statements in transactions that wrote messages: the inserts of messages, and the
/// statements that are not inserts.
#[derive(Default)]
struct Counts {
    messages: AtomicUsize,
    other: AtomicUsize,
}

/// Counts the statements of transactions that write messages.
struct Counting(Arc<Counts>);

impl Watch for Counting {
    fn run<'a>(
        &'a self,
        store: &'a dyn Store,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        store.run(statement, args, rows)
    }

    fn wrap_transaction(&self, transaction: Box<dyn Transaction>) -> Box<dyn Transaction> {
        Box::new(Counted {
            transaction,
            counts: Arc::clone(&self.0),
            messages: 0,
            other: 0,
        })
    }
}

struct Counted {
    transaction: Box<dyn Transaction>,
    counts: Arc<Counts>,
    messages: usize,
    other: usize,
}

impl Transaction for Counted {
    fn run<'a>(
        &'a mut self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, Result<Rows>> {
        if !matches!(statement.plan, Plan::Insert) {
            self.other += 1;
        } else if statement.entity.storage_name == "webhooks_webhook_messages" {
            self.messages += 1;
        }
        self.transaction.run(statement, args, rows)
    }

    fn take_advisory_lock(&mut self, key: i64) -> BoxFuture<'_, Result<()>> {
        self.transaction.take_advisory_lock(key)
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        if self.messages > 0 {
            self.counts
                .messages
                .fetch_add(self.messages, Ordering::SeqCst);
            self.counts.other.fetch_add(self.other, Ordering::SeqCst);
        }
        self.transaction.commit()
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.transaction.rollback()
    }
}

/// Counts the statements of the intake, without inserts, and records their number per 100 events.
pub(super) async fn statements(
    folder: &Path,
    receiver: &Receiver,
    table: &mut Table,
) -> Outcome<()> {
    let file = folder.join("intake.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(SqliteOptions::new(&file))?);
    let counts = Arc::new(Counts::default());
    let running =
        app::start_on(Arc::new(Around::new(store, Counting(Arc::clone(&counts))))).await?;
    app::endpoint(&running, &receiver.url("/fast")).await?;
    queue::hold(&file)?;
    let posts = running.adapter::<Post>()?;
    let cx = Cx::system("bench");
    cx.transaction(async |cx| {
        for n in 0..EVENTS {
            let post = PostCreate {
                title: format!("The title of post {n}"),
                slug: format!("post-{n}"),
                body: "A body".to_owned(),
                status: None,
                views: None,
                author_id: "author".to_owned(),
            };
            posts.create(cx, post).await?;
        }
        Ok(())
    })
    .await?;
    until_taken(&file, EVENTS)?;
    running.stop().await?;
    let taken = counts.messages.load(Ordering::SeqCst);
    if taken != EVENTS {
        return Err(format!("{taken} of {EVENTS} messages were counted").into());
    }
    let other = counts.other.load(Ordering::SeqCst) as f64;
    table.at_most(
        "statements of the intake for 100 events, without inserts",
        (other * 100.0 / EVENTS as f64, ""),
        1.0,
    );
    Ok(())
}

/// Waits until the intake has written this number of messages.
pub(crate) fn until_taken(file: &Path, messages: usize) -> Outcome<()> {
    let connection = queue::open(file)?;
    for _ in 0..6_000 {
        let sql = "SELECT count(*) FROM webhooks_webhook_messages";
        let taken: i64 = connection.query_row(sql, [], |row| row.get(0))?;
        if usize::try_from(taken)? >= messages {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err("not all events became messages within 10 minutes".into())
}
