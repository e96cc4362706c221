//! The application: config, plugins, start-up in a fixed order, serving and a graceful stop.

mod abandoned;
mod build;
mod capabilities;
mod checks;
mod command;
mod config;
mod data_keys;
mod exchange;
mod graph;
mod listen;
mod migrate;
mod overrides;
mod own;
mod peers;
mod plugin;
mod registrar;
mod rekey;
mod report;
mod running;
mod schema;
mod secret;
mod setup;
mod start;
mod states;
mod stores;
mod stream;
mod summaries;

pub use build::App;
pub use config::{Config, Durability, Environment, Postgres};
pub use overrides::{Route, RouteOverride};
pub use plugin::{Command, Plugin};
pub use registrar::Registrar;
pub use running::Running;
pub use secret::SigningSecret;
pub use setup::{MiddlewareCx, MountedRoute, PostCx, RoutesCx};

/// A hook of a package: it runs at start-up once adapters exist, before anything is served.
pub type AfterAdapters = fn(crate::Adapters) -> crate::BoxFuture<'static, crate::Result<()>>;
