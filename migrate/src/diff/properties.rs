//! The changes of properties of a whole entity: expiry, version, tenant and soft delete.

use linchpin_core::schema::{
    EntitySnapshot, SoftDeleteSnapshot, TenantSnapshot, TtlSnapshot, VersionSnapshot,
};

use super::{Differ, Pair};
use crate::change::Change;

impl Differ<'_> {
    /// Compares the properties, with renamed fields under their new names.
    pub(super) fn properties(&mut self, pair: &Pair<'_>) {
        let (old, new) = (pair.old, pair.new);
        // A field that is gone has an empty name, which differs from every other name.
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

/// The recorded mark of deleted records, with the new name of its field. The name is empty if the
/// field is gone.
pub(super) fn renamed_mark(pair: &Pair<'_>, old: &EntitySnapshot) -> Option<SoftDeleteSnapshot> {
    old.soft_delete.as_ref().map(|mark| SoftDeleteSnapshot {
        field: pair.name(&mark.field).unwrap_or_default().to_owned(),
        value: mark.value.clone(),
    })
}
