//! Durable background jobs.
//!
//! A job is a serializable value with a function. [`JobQueue::put`] stores it, in the transaction
//! of the change that causes it, so the job is stored if and only if the change is committed. A
//! worker of any process runs it at least once: if a process ends during a job, another process
//! repeats the job after the lease ends. A job that fails is retried after a pause; after its last
//! attempt it is parked, until an operator retries or drops it with the command `jobs`.
//!
//! ```no_run
//! use linchpin::prelude::*;
//! use linchpin_jobs::{Job, JobCx, JobQueue, Jobs};
//! use serde::{Deserialize, Serialize};
//!
//! /// Sends the invoice of an order.
//! #[derive(Serialize, Deserialize)]
//! struct SendInvoice {
//!     order: String,
//! }
//!
//! impl Job for SendInvoice {
//!     const NAME: &'static str = "send_invoice";
//!
//!     async fn run(self, cx: JobCx) -> Result<()> {
//!         tracing_of(&self.order, cx.attempt);
//!         Ok(())
//!     }
//! }
//! # fn tracing_of(_: &str, _: u32) {}
//!
//! async fn order(cx: &Cx, jobs: &JobQueue) -> Result<()> {
//!     cx.transaction(async |cx| {
//!         // Writes of the order come here.
//!         jobs.put(cx, &SendInvoice { order: "42".to_owned() }).await
//!     })
//!     .await
//! }
//!
//! # static SHOP: Package = package!(name = "shop", entities = []);
//! # async fn start() -> linchpin::Result<()> {
//! App::new(Config::from_env()?)
//!     .plugin(Jobs::new().job::<SendInvoice>())
//!     .package(&SHOP)
//!     .run()
//!     .await
//! # }
//! ```

mod command;
mod entity;
mod job;
mod plugin;
mod queue;
mod recurring;
mod run;

pub use entity::{JobStatus, QueuedJob};
pub use job::{Job, JobCx};
pub use plugin::Jobs;
pub use queue::JobQueue;
