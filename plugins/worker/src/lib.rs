//! The loop of background workers, for plugins: jobs, mail, webhooks and push run on it.
//!
//! A plugin implements [`Source`]: it leases work that is due in the store, and runs a piece of it.
//! A [`Worker`] asks for work, runs several pieces at the same time, and sleeps until a commit wakes
//! it or time has passed. Several processes may run the same source, because a lease belongs to one
//! of them.

mod time;
mod worker;

pub use time::{later, spread};
pub use worker::{Source, Worker};
