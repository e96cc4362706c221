//! Web push: encrypted messages to browsers that are closed.
//!
//! Pages subscribe under `/__push/subscribe`. Handlers send messages with [`PushQueue`], which
//! `adapters.provided::<PushQueue>()` returns. A message is written in the transaction of the
//! caller, and a worker sends it to every browser of the user. Messages are encrypted (RFC 8291),
//! and a signed token identifies the app (RFC 8292).
//!
//! ```no_run
//! use linchpin::prelude::*;
//! use linchpin::{Adapters, Cx};
//! use linchpin_push::{Push, PushConfig, PushMessage, PushQueue};
//!
//! async fn order_sent(adapters: &Adapters, cx: &Cx, customer: &str) -> linchpin::Result<()> {
//!     let message = PushMessage::new(customer, "Your order is on its way").url("/orders");
//!     adapters.provided::<PushQueue>()?.send(cx, &message).await?;
//!     Ok(())
//! }
//!
//! # static SHOP: Package = package!(name = "shop", entities = []);
//! # async fn start() -> linchpin::Result<()> {
//! App::new(Config::from_env()?)
//!     .plugin(JwtAuth::new())
//!     .plugin(Push::new(PushConfig::from_env()))
//!     .package(&SHOP)
//!     .run()
//!     .await
//! # }
//! ```

#[doc(hidden)]
pub mod __private;
mod command;
mod config;
mod crypto;
mod entity;
mod message;
mod metrics;
mod plugin;
mod queue;
mod records;
mod routes;
mod sender;
mod worker;

pub use config::PushConfig;
pub use crypto::{VapidKey, VapidKeyError};
pub use linchpin_safe_client::{IpNet, Resolve, Roots};
pub use message::{Priority, PushMessage};
pub use plugin::{Push, Waiting};
pub use queue::{PushQueue, PushSender};
