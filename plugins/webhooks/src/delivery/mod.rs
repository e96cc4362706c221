//! Delivery: requests, their results, and the workers that make them.

mod attempt;
mod enqueue;
mod flight;
mod outcome;
mod results;
mod serving;
mod slots;
mod throttle;
mod worker;

pub(crate) use attempt::{Attempt, Content, Sender};
pub(crate) use enqueue::NewMessage;
pub(crate) use flight::{CHUNK, Records, of_endpoint, of_tenant};
pub(crate) use outcome::{Next, later};
pub(crate) use slots::Slots;
pub(crate) use worker::Workers;
