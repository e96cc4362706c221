//! The loop of background workers, for plugins: jobs, mail, webhooks and push run on it.
//!
//! A plugin implements [`Source`], which leases due work in the store and runs one piece of it. A
//! [`Worker`] claims work from the source, runs several pieces at the same time, and sleeps until a
//! commit wakes it or an interval has passed. Several processes may run the same source, because
//! each lease belongs to one process.

mod time;
mod worker;

pub use time::{later, spread};
pub use worker::{Source, Worker};
