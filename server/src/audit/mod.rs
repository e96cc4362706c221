//! The audit log: who changed what, told by the transaction that made the change, and never changed
//! itself.
//!
//! A route whose policy says `audit = "<action>"` leaves an [`AuditEntry`] for each record that a
//! call changes. What it was before is read and locked in the transaction of the change, so nothing
//! can come in between. A call that is refused, or changes nothing, leaves none.

mod call;
mod entry;
mod log;

pub(crate) use call::{Auditing, Seen};
pub use entry::{AuditEntry, AuditEntryListQuery, audit_entry};
pub use log::{AuditLog, AuditNote};
