//! The audit of a call, as its route declares it.

use linchpin_core::policy::PermissionDesc;

use crate::Value;
use crate::entity::EntityDesc;

/// The audit declaration of a mounted route.
#[derive(Clone, Debug)]
pub(crate) struct Auditing {
    pub(crate) action: &'static str,
    pub(crate) route: Box<str>,
    /// The storage name of the route's entity, and the positions of the fields in its permission.
    permission_fields: Option<PermissionFields>,
}

#[derive(Clone, Copy, Debug)]
struct PermissionFields {
    entity: &'static str,
    owner: Option<usize>,
    resource: Option<usize>,
}

impl Auditing {
    pub(crate) fn new(
        action: &'static str,
        route: &str,
        entity: Option<&'static EntityDesc>,
        permission: Option<&PermissionDesc>,
    ) -> Self {
        let permission_fields = entity.zip(permission).map(|(entity, permission)| {
            let position = |name: Option<&str>| {
                name.and_then(|name| entity.fields.iter().position(|field| field.name == name))
            };
            PermissionFields {
                entity: entity.storage_name,
                owner: position(permission.owner_field),
                resource: position(permission.resource),
            }
        });
        Self {
            action,
            route: route.into(),
            permission_fields,
        }
    }

    /// The owner of a record by the permission of the route; `None` for records of another entity.
    pub(crate) fn owner<'a>(&self, entity: &EntityDesc, record: &'a [Value]) -> Option<&'a Value> {
        record.get(self.fields_of(entity)?.owner?)
    }

    /// The resource of a record by the permission of the route; `None` for records of another
    /// entity.
    pub(crate) fn resource<'a>(
        &self,
        entity: &EntityDesc,
        record: &'a [Value],
    ) -> Option<&'a Value> {
        record.get(self.fields_of(entity)?.resource?)
    }

    fn fields_of(&self, entity: &EntityDesc) -> Option<PermissionFields> {
        self.permission_fields
            .filter(|fields| fields.entity == entity.storage_name)
    }
}
