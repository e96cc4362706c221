//! The changes of facts of a whole entity: expiry, version, tenant and soft delete.

use linchpin_core::schema::{
    EntitySnapshot, SoftDeleteSnapshot, TenantSnapshot, TtlSnapshot, VersionSnapshot,
};

use super::{Differ, Pair};
use crate::change::Change;

impl Differ<'_> {
    /// Compares the facts under the renames of fields.
    pub(super) fn hidden(&mut self, pair: &Pair<'_>) {
        let (old, new) = (pair.old, pair.new);
        // The empty name of a field that is gone equals no other.
        let name = |field: &str| pair.name(field).unwrap_or_default().to_owned();
        let entity = || new.storage_name.clone();
        let ttl = old.ttl.as_ref().map(|ttl| TtlSnapshot {
            field: name(&ttl.field),
            after: ttl.after,
        });
        if ttl != new.ttl {
            self.changes.push(Change::ChangeTtl { entity: entity() });
        }
        let version = old.version.as_ref().map(|version| VersionSnapshot {
            field: name(&version.field),
        });
        if version != new.version {
            self.changes
                .push(Change::ChangeVersion { entity: entity() });
        }
        let tenant = old.tenant.as_ref().map(|tenant| TenantSnapshot {
            field: name(&tenant.field),
        });
        if tenant != new.tenant {
            self.changes.push(Change::ChangeTenant { entity: entity() });
        }
        if renamed_mark(pair, old) != new.soft_delete {
            self.changes
                .push(Change::ChangeSoftDelete { entity: entity() });
        }
    }
}

/// The recorded mark of deleted records under the new name of its field; an empty name if the field
/// is gone.
pub(super) fn renamed_mark(pair: &Pair<'_>, old: &EntitySnapshot) -> Option<SoftDeleteSnapshot> {
    old.soft_delete.as_ref().map(|mark| SoftDeleteSnapshot {
        field: pair.name(&mark.field).unwrap_or_default().to_owned(),
        value: mark.value.clone(),
    })
}
