//! Encryption of stored secrets, with the keys that all plugins of an app share.
//!
//! The app configures the keys, newest first: `LINCHPIN_DATA_KEYS`, or
//! [`Config::data_keys`](crate::Config::data_keys). A plugin can add older ones with
//! [`MiddlewareCx::add_data_keys`](crate::MiddlewareCx::add_data_keys). All plugins get them from
//! [`RoutesCx::data_keys`](crate::RoutesCx::data_keys) and
//! [`PostCx::data_keys`](crate::PostCx::data_keys).
//!
//! An encrypted value contains the id of its key, so keys are rotated by adding a new key in the
//! first position. The value is bound to its [`Place`], so a value that was copied to another
//! record or field cannot be decrypted.
//!
//! After a new key was added, the command `rekey` encrypts the values of all plugins with it. A
//! plugin registers a field with [`PostCx::sealed_field`](crate::PostCx::sealed_field), and other
//! values with [`Registrar::reseal`](crate::Registrar::reseal).
//!
//! ```
//! use linchpin::seal::{DataKeys, Key, Place};
//!
//! # fn main() -> linchpin::Result<()> {
//! let keys = DataKeys::new([("2026-11".to_owned(), Key::new([7; 32]))])?;
//! let place = Place { entity: "endpoints", id: "e1", field: "secret" };
//! let stored = keys.seal(place, b"hunter2")?;
//! assert!(stored.starts_with("v1.2026-11."));
//! assert_eq!(keys.open(place, &stored).unwrap().expose(), b"hunter2");
//! # Ok(())
//! # }
//! ```

mod data_keys;
mod field;
mod key;
mod place;
mod rekey;

pub use data_keys::{DataKeys, SealError};
pub(crate) use field::SealedField;
pub use key::{Key, SecretBytes};
pub use place::Place;
pub use rekey::{Rekey, Reseal, Resealed};
