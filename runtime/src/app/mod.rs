//! The application: config, plugins, start-up in a fixed order, serving and a graceful stop.

mod abandoned;
mod build;
mod capabilities;
mod checks;
mod command;
mod config;
mod exchange;
mod graph;
mod listen;
mod own;
mod peers;
mod plugin;
mod registrar;
mod report;
mod running;
mod secret;
mod start;
mod states;
mod stream;
mod suggest;
mod summaries;

pub use build::{App, Route};
pub use capabilities::{EntityGap, Gap, StartupError};
pub(crate) use checks::startup;
pub use config::{Config, Database, DatabaseUrl, Durability, Environment, Postgres};
pub use plugin::{Command, MiddlewareCx, Plugin, PostCx, RoutesCx};
pub use registrar::Registrar;
pub use running::Running;
pub use secret::SigningSecret;
pub(crate) use suggest::did_you_mean;
