//! Evaluates the declared permission of a route and limits the call to the permitted records.

mod call;
mod grant;
mod record;

use std::sync::Arc;

use linchpin_core::policy::PermissionDesc;

use self::grant::RecordConditions;
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
    /// Position of the field whose value the evaluator gets as resource.
    resource: Option<usize>,
    /// Position of the field with the id of the user whom the record describes. The caller must
    /// rank above this user.
    target: Option<usize>,
    /// Whether the path contains the resource.
    in_path: bool,
}

/// The values that a call writes into the fields of a permission, if any.
#[derive(Default)]
pub(crate) struct WrittenValues {
    resource: Option<Value>,
    target: Option<Value>,
}

impl Permit {
    /// # Errors
    /// The problem of the declaration, as text that the caller puts after the name of the route:
    /// `has a permission that …`.
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
        let (owner, resource, target) = (
            position(declared.owner_field)?,
            position(declared.resource)?,
            position(declared.rank)?,
        );
        // The macro cannot see through a type alias, so the type of the field is checked here.
        for (key, name, field) in [
            ("owner_field", declared.owner_field, owner),
            ("rank", declared.rank, target),
        ] {
            if let (Some(name), Some(field)) = (name, field)
                && !matches!(entity.fields[field].kind, Kind::String)
            {
                return Err(format!(
                    "has a permission whose {key} `{name}` is not a string"
                ));
            }
        }
        if target.is_some() && matches!(subject, Subject::Records | Subject::Foreign) {
            return Err(
                "has a permission with a `rank`, but does not work on one record".to_owned(),
            );
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
            target,
            in_path,
        })
    }

    /// Position of the field with the resource, unless the path contains the resource.
    fn resource(&self) -> Option<usize> {
        self.resource.filter(|_| !self.in_path)
    }

    /// The values that a call writes into the fields of the permission, by position.
    pub(crate) fn written_values(&self, written: impl Fn(usize) -> Option<Value>) -> WrittenValues {
        WrittenValues {
            resource: self.resource().and_then(&written),
            target: self.target.and_then(&written),
        }
    }

    /// Makes the decisions that do not depend on the record. If nothing depends on the record,
    /// these are all decisions. Returns the call, limited to the records that it may touch.
    ///
    /// # Errors
    /// 403, or 404 if the policy hides records; 503 if the evaluator fails.
    pub(crate) async fn check_before_record(&self, cx: Cx) -> Result<Cx> {
        match self.resource {
            // The user is a field of the record, so the decision waits for the record.
            _ if self.target.is_some() => Ok(cx),
            Some(field) if self.in_path => {
                let resource = cx.bound(self.entity, field);
                self.limit(cx, resource, RecordConditions::None).await
            }
            // The resource comes from the record or from the arguments of the call.
            Some(_) if self.subject != Subject::Foreign => Ok(cx),
            _ => self.limit(cx, None, RecordConditions::None).await,
        }
    }

    /// Whether the evaluator needs values of the record.
    pub(crate) fn needs_record(&self) -> bool {
        (self.resource().is_some() || self.target.is_some()) && self.subject != Subject::Foreign
    }

    /// The call of a list, limited to the permitted records.
    ///
    /// # Errors
    /// Like [`Permit::check_before_record`].
    pub(crate) async fn list(&self, cx: &Cx) -> Result<Cx> {
        if self.needs_record() {
            self.limit(cx.clone(), None, RecordConditions::None).await
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
/// Like [`Permit::check_before_record`].
pub(crate) async fn may_list(table: &Table, cx: &Cx) -> Result<Cx> {
    let Some(declared) = table.desc.list_policy().permission else {
        return Ok(cx.clone());
    };
    let evaluator = table
        .evaluator()
        .ok_or_else(|| Error::internal("no permission evaluator is installed"))?;
    let permit = Permit::new(declared, table, Subject::Records, "list", evaluator)
        .map_err(Error::internal)?;
    let cx = permit.check_before_record(cx.clone()).await?;
    permit.list(&cx).await
}
