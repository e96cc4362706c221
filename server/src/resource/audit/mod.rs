//! The audit log and its entries. A statement of an audited call writes them as effects of its
//! changes.

mod change;
mod entry;
mod log;

pub(super) use change::RecordChange;
pub use entry::{AuditEntry, AuditEntryListQuery, audit_entry};
pub use log::{AuditLog, AuditNote};
