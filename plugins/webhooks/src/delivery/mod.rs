//! Delivery: requests, their results, and the workers that make them.

mod attempt;
mod enqueue;
mod outcome;
mod records;
mod results;
mod serving;
mod slots;
mod throttle;
mod worker;

pub(crate) use attempt::{Attempt, Content, Sender};
pub(crate) use enqueue::NewMessage;
pub(crate) use outcome::{Next, later};
pub(crate) use records::{CHUNK, Records, of_endpoint, of_tenant};
pub(crate) use slots::Slots;
pub(crate) use worker::Workers;
