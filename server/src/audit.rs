//! The audit log: who changed which record, and how. The transaction of the change writes the
//! entry; entries never change.
//!
//! A route whose policy contains `audit = "<action>"` adds an [`AuditEntry`] for each record that a
//! call changes. The previous state is read and locked in the transaction of the change, so that no
//! other change can happen in between. A call that is refused, or changes nothing, adds no entry.

pub use crate::resource::audit::{
    AuditEntry, AuditEntryListQuery, AuditLog, AuditNote, audit_entry,
};
