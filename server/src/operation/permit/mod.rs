//! Evaluates the declared permission of a route and limits the call to the permitted records.

mod call;
mod grant;
mod record;

use std::sync::Arc;

use linchpin_core::policy::PermissionDesc;

use super::Subject;
use crate::cx::refused;
use crate::entity::{EntityDesc, Kind, ScopeFrom};
use crate::permission::Evaluator;
use crate::resource::Table;
use crate::{Cx, Error, Result, Value};

/// The permission of a route, with its names resolved.
pub(crate) struct Permit {
    evaluator: Arc<dyn Evaluator>,
    declared: &'static PermissionDesc,
    entity: &'static EntityDesc,
    route: &'static str,
    subject: Subject,
    /// Position of the field that holds the owner.
    owner: Option<usize>,
    /// Position of the field that holds the resource.
    resource: Option<usize>,
    /// Position of the field that holds the user whom a record is about.
    rank: Option<usize>,
    /// Whether the path contains the resource.
    in_path: bool,
}

/// The values that a call writes into the fields of a permission, if any.
#[derive(Default)]
pub(crate) struct Moved {
    resource: Option<Value>,
    target: Option<Value>,
}

impl Permit {
    /// # Errors
    /// The name of a field that the entity lacks, as text that follows the name of the route.
    pub(crate) fn new(
        declared: &'static PermissionDesc,
        table: &Table,
        subject: Subject,
        route: &'static str,
        evaluator: Arc<dyn Evaluator>,
    ) -> Result<Self, String> {
        let entity = table.desc;
        let position = |name: Option<&'static str>| {
            let Some(name) = name else { return Ok(None) };
            let found = entity.fields.iter().position(|field| field.name == name);
            found.map(Some).ok_or_else(|| {
                format!("has a permission that names `{name}`, which the entity lacks")
            })
        };
        let (owner, resource, rank) = (
            position(declared.owner_field)?,
            position(declared.resource)?,
            position(declared.rank)?,
        );
        // The type of an aliased field is known only here.
        for (key, name, field) in [
            ("owner_field", declared.owner_field, owner),
            ("rank", declared.rank, rank),
        ] {
            if let (Some(name), Some(field)) = (name, field)
                && !matches!(entity.fields[field].kind, Kind::String)
            {
                return Err(format!(
                    "has a permission whose {key} `{name}` is no string"
                ));
            }
        }
        if rank.is_some() && matches!(subject, Subject::Records | Subject::Foreign) {
            return Err("has a permission with a `rank`, and works on no one record".to_owned());
        }
        let in_path = entity
            .scope
            .iter()
            .any(|scope| Some(scope.field) == resource && matches!(scope.from, ScopeFrom::Path(_)));
        Ok(Self {
            evaluator,
            declared,
            entity,
            route,
            subject,
            owner,
            resource,
            rank,
            in_path,
        })
    }

    /// Position of the field that holds the resource, if the record contains it.
    fn resource(&self) -> Option<usize> {
        self.resource.filter(|_| !self.in_path)
    }

    /// The values that a call writes into the fields of the permission, by position.
    pub(crate) fn moved(&self, written: impl Fn(usize) -> Option<Value>) -> Moved {
        Moved {
            resource: self.resource().and_then(&written),
            target: self.rank.and_then(&written),
        }
    }

    /// The decisions that need nothing of the request: all of them, if nothing depends on the
    /// record. Returns the call, limited to the records that it may touch.
    ///
    /// # Errors
    /// 403, or 404 if the policy hides records; 503 if the evaluator fails.
    pub(crate) async fn enter(&self, cx: Cx) -> Result<Cx> {
        match self.resource {
            // The record contains the user that it is about.
            _ if self.rank.is_some() => Ok(cx),
            Some(field) if self.in_path => {
                let resource = cx.bound(self.entity, field);
                self.limit(cx, resource, None, false).await
            }
            // The resource comes from the record or from the arguments of the call.
            Some(_) if self.subject != Subject::Foreign => Ok(cx),
            _ => self.limit(cx, None, None, false).await,
        }
    }

    /// Whether the evaluator needs values of the record.
    pub(crate) fn waits(&self) -> bool {
        (self.resource().is_some() || self.rank.is_some()) && self.subject != Subject::Foreign
    }

    /// The call of a list, limited to the permitted records.
    ///
    /// # Errors
    /// Like [`Permit::enter`].
    pub(crate) async fn list(&self, cx: &Cx) -> Result<Cx> {
        if self.waits() {
            self.limit(cx.clone(), None, None, false).await
        } else {
            Ok(cx.clone())
        }
    }

    fn refused(&self) -> Error {
        refused(self.declared.hide)
    }
}

/// Checks the permission to list an entity, in addition to auth and roles: returns the call,
/// limited to the visible records.
///
/// # Errors
/// Like [`Permit::enter`].
pub(crate) async fn may_list(table: &Table, cx: &Cx) -> Result<Cx> {
    let Some(declared) = table.desc.list_policy().permission else {
        return Ok(cx.clone());
    };
    let evaluator = table
        .evaluator()
        .ok_or_else(|| Error::internal("no permission evaluator is installed"))?;
    let permit = Permit::new(declared, table, Subject::Records, "list", evaluator)
        .map_err(Error::internal)?;
    let cx = permit.enter(cx.clone()).await?;
    permit.list(&cx).await
}
