//! The differences between two snapshots.

use serde::{Deserialize, Serialize};

/// A difference between two snapshots. `entity` holds a storage name, `field` the name of a field,
/// and `index` a name in the database. All names are those of the later snapshot, except `from` and
/// the names of removed objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", deny_unknown_fields)]
pub enum Change {
    /// The entity is new.
    CreateEntity {
        /// The entity.
        entity: String,
    },
    /// The entity is gone.
    DropEntity {
        /// The entity.
        entity: String,
    },
    /// The entity has another storage name.
    RenameEntity {
        /// The entity.
        entity: String,
        /// The earlier name.
        from: String,
    },
    /// The field is new. `transform` computes its value in existing records.
    AddField {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
        /// The name of the transform.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transform: Option<String>,
    },
    /// The field is gone.
    DropField {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
    },
    /// The field has another name, and perhaps another column.
    RenameField {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
        /// The earlier name.
        from: String,
    },
    /// The field has another column.
    ChangeColumn {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
    },
    /// The field has another name and another type.
    ReplaceField {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
        /// The earlier name.
        from: String,
        /// The name of the transform.
        transform: String,
        /// The name of the function that converts new values back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reverse: Option<String>,
    },
    /// The field has another type, or its items have another shape.
    ChangeType {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
        /// The name of the transform.
        transform: String,
        /// The name of the function that converts new values back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reverse: Option<String>,
    },
    /// The field may be null from now on.
    MakeOptional {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
    },
    /// The field may no longer be null. `transform` computes its value in records with null.
    MakeRequired {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
        /// The name of the transform.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transform: Option<String>,
    },
    /// The stored default differs.
    ChangeDefault {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
    },
    /// The enum has additional values.
    WidenEnum {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
        /// The values.
        values: Vec<String>,
    },
    /// Values of the enum are gone.
    NarrowEnum {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
        /// The values.
        values: Vec<String>,
    },
    /// The index is new.
    AddIndex {
        /// The entity.
        entity: String,
        /// The index.
        index: String,
    },
    /// The index is gone.
    DropIndex {
        /// The entity.
        entity: String,
        /// The index.
        index: String,
    },
    /// The index, unique or not, has another name and the same content. The names of indexes follow
    /// those of their table and columns.
    RenameIndex {
        /// The entity.
        entity: String,
        /// The index.
        index: String,
        /// The earlier name.
        from: String,
    },
    /// The unique index is new.
    AddUnique {
        /// The entity.
        entity: String,
        /// The index.
        index: String,
    },
    /// The unique index is gone.
    DropUnique {
        /// The entity.
        entity: String,
        /// The index.
        index: String,
    },
    /// The expiry of records differs.
    ChangeTtl {
        /// The entity.
        entity: String,
    },
    /// The version counter is new, is gone, or is another field.
    ChangeVersion {
        /// The entity.
        entity: String,
    },
    /// The tenant is new, is gone, or is another field.
    ChangeTenant {
        /// The entity.
        entity: String,
    },
    /// Deleted records are marked in another way.
    ChangeSoftDelete {
        /// The entity.
        entity: String,
    },
    /// The function of a computed field differs.
    Recompute {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
    },
    /// The counter in the records of this entity is new, or counts other records.
    Recount {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
        /// The entity of the counted records.
        of: String,
    },
    /// The field must name an existing record of another entity: a new gate, or a relation that is
    /// now enforced.
    AddReference {
        /// The entity.
        entity: String,
        /// The field.
        field: String,
        /// The storage name of the other entity.
        target: String,
    },
}

impl Change {
    /// The storage name of the entity.
    pub fn entity(&self) -> &str {
        match self {
            Self::CreateEntity { entity }
            | Self::DropEntity { entity }
            | Self::RenameEntity { entity, .. }
            | Self::AddField { entity, .. }
            | Self::DropField { entity, .. }
            | Self::RenameField { entity, .. }
            | Self::ChangeColumn { entity, .. }
            | Self::ReplaceField { entity, .. }
            | Self::ChangeType { entity, .. }
            | Self::MakeOptional { entity, .. }
            | Self::MakeRequired { entity, .. }
            | Self::ChangeDefault { entity, .. }
            | Self::WidenEnum { entity, .. }
            | Self::NarrowEnum { entity, .. }
            | Self::AddIndex { entity, .. }
            | Self::DropIndex { entity, .. }
            | Self::RenameIndex { entity, .. }
            | Self::AddUnique { entity, .. }
            | Self::DropUnique { entity, .. }
            | Self::ChangeTtl { entity }
            | Self::ChangeVersion { entity }
            | Self::ChangeTenant { entity }
            | Self::ChangeSoftDelete { entity }
            | Self::Recompute { entity, .. }
            | Self::Recount { entity, .. }
            | Self::AddReference { entity, .. } => entity,
        }
    }
}

/// One line of text, such as `rename field tasks.views to view_count`.
impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entity = self.entity();
        match self {
            Self::CreateEntity { .. } => write!(f, "create entity {entity}"),
            Self::DropEntity { .. } => write!(f, "drop entity {entity}"),
            Self::RenameEntity { from, .. } => write!(f, "rename entity {from} to {entity}"),
            Self::AddField { field, .. } => write!(f, "add field {entity}.{field}"),
            Self::DropField { field, .. } => write!(f, "drop field {entity}.{field}"),
            Self::RenameField { field, from, .. } => {
                write!(f, "rename field {entity}.{from} to {field}")
            }
            Self::ChangeColumn { field, .. } => write!(f, "rename column of {entity}.{field}"),
            Self::ReplaceField { field, from, .. } => {
                write!(f, "replace field {entity}.{from} by {field}")
            }
            Self::ChangeType { field, .. } => write!(f, "change type of {entity}.{field}"),
            Self::MakeOptional { field, .. } => write!(f, "make {entity}.{field} optional"),
            Self::MakeRequired { field, .. } => write!(f, "make {entity}.{field} required"),
            Self::ChangeDefault { field, .. } => write!(f, "change default of {entity}.{field}"),
            Self::WidenEnum { field, values, .. } => {
                write!(f, "add values to {entity}.{field}: {}", values.join(", "))
            }
            Self::NarrowEnum { field, values, .. } => {
                write!(
                    f,
                    "remove values from {entity}.{field}: {}",
                    values.join(", ")
                )
            }
            Self::AddIndex { index, .. } => write!(f, "add index {index} of {entity}"),
            Self::DropIndex { index, .. } => write!(f, "drop index {index} of {entity}"),
            Self::RenameIndex { index, from, .. } => {
                write!(f, "rename index {from} of {entity} to {index}")
            }
            Self::AddUnique { index, .. } => write!(f, "add unique index {index} of {entity}"),
            Self::DropUnique { index, .. } => write!(f, "drop unique index {index} of {entity}"),
            Self::ChangeTtl { .. } => write!(f, "change expiry of {entity}"),
            Self::ChangeVersion { .. } => write!(f, "change version counter of {entity}"),
            Self::ChangeTenant { .. } => write!(f, "change tenant of {entity}"),
            Self::ChangeSoftDelete { .. } => write!(f, "change soft delete of {entity}"),
            Self::Recompute { field, .. } => write!(f, "compute {entity}.{field} again"),
            Self::Recount { field, of, .. } => {
                write!(f, "count the records of {of} in {entity}.{field} again")
            }
            Self::AddReference { field, target, .. } => {
                write!(f, "require a record of {target} for {entity}.{field}")
            }
        }
    }
}
