//! The audit log and its entries. An audited call writes an entry for each record that it changes,
//! as an effect of the statement.

mod change;
mod entry;
mod log;

pub(super) use change::RecordChange;
pub use entry::{AuditEntry, AuditEntryListQuery, audit_entry};
pub use log::{AuditLog, AuditNote};
