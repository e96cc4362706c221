//! The command line: `migrate ..` and `schema ..`, in an app and in the program `linchpin`.
//!
//! [`parse`] turns arguments into an [`Invocation`]. [`offline`] carries out the commands that need
//! no database, and [`online`] the others. [`finish`] prints the outcome of any command and returns
//! the exit status.

mod command;
mod offline;
mod online;
mod output;
mod parse;
mod plan_text;
mod priority;
mod signals;
mod spec;
mod standalone;
mod undo;

pub use command::{ApplyArgs, Color, Command, Common, FOLDER, Invocation, shown_url};
pub use offline::{Context, offline};
pub use online::online;
pub use output::{Outcome, finish};
pub use parse::parse;
pub use standalone::{Open, standalone};

#[cfg(test)]
mod tests;
