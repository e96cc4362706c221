//! Records by their keys: the key in a path, one record and its version, and conditions that match
//! at most one.

use std::sync::Arc;

use linchpin_core::operation::AssignSpec;

use super::{Table, by_key};
use crate::entity::{Kind, UniqueDesc};
use crate::resource::Form;
use crate::resource::key::valid_key;
use crate::store::Rows;
use crate::validate::canonical;
use crate::{Code, Cx, Error, Result, Value};

impl Table {
    /// An empty result in the requested form.
    pub fn rows(&self, form: &Form) -> Rows {
        match form {
            Form::Json(projection) => Rows::json(projection),
            Form::Noted(projection, fields) => Rows::json(projection).noting(Arc::clone(fields)),
            Form::Records => Rows::records(self.desc),
        }
        .version_of(self.desc)
    }

    /// The key in a path segment; `None` if no record of this entity can have it.
    pub fn parse_id(&self, text: &str) -> Option<Value> {
        match self.desc.primary_field().kind {
            Kind::Integer => {
                let id: i64 = text.parse().ok()?;
                (itoa::Buffer::new().format(id) == text).then_some(Value::Int(id))
            }
            _ => valid_key(text)
                .then(|| Value::Text(canonical(self.desc.primary_field().rules, text.to_owned()))),
        }
    }

    /// Reads one record; `count` is 0 when it is not visible.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn get(&self, cx: &Cx, id: Value, form: &Form) -> Result<Rows> {
        self.execute(cx, &self.fixed.get, vec![id], self.rows(form))
            .await
    }

    /// Reads one record with the restriction of a route other than `get`.
    pub(crate) async fn read(
        &self,
        cx: &Cx,
        route: &'static str,
        id: Value,
        form: &Form,
    ) -> Result<Rows> {
        let statement = self.shape(route, b"k", || by_key(self.desc))?;
        self.execute(cx, &statement, vec![id], self.rows(form))
            .await
    }

    /// Checks that there is a row and that its version is the expected one.
    ///
    /// # Errors
    /// `not_found`, `precondition_failed`.
    pub fn found(&self, rows: Rows, version: Option<i64>) -> Result<Rows> {
        if rows.count == 0 {
            return Err(Error::not_found());
        }
        match (version, rows.version) {
            (Some(expected), Some(stored)) if expected != stored => Err(Error::new(
                Code::PreconditionFailed,
                "The record has another version",
            )),
            _ => Ok(rows),
        }
    }

    /// Whether equality on these fields matches at most one record: the primary key, or all fields
    /// of a unique constraint without nulls. A value that is unique within a tenant does not count:
    /// a call of the application itself has no tenant, so it may match one record per tenant.
    pub fn pins_one(&self, fields: &[AssignSpec]) -> bool {
        let compared = |field: usize| fields.iter().any(|a| a.field == field);
        let compared_without_nulls =
            |field: &usize| compared(*field) && !self.desc.fields[*field].optional;
        let unique_for_this_call = |unique: &UniqueDesc| {
            unique.global
                || self
                    .desc
                    .tenant
                    .is_none_or(|tenant| unique.fields.contains(&tenant.field))
        };
        compared(self.desc.primary)
            || self
                .desc
                .uniques
                .iter()
                .any(|u| unique_for_this_call(u) && u.fields.iter().all(compared_without_nulls))
    }

    /// Refuses a change by a value that is unique within a tenant if no tenant is given.
    ///
    /// # Errors
    /// `internal`: the caller is code of the application.
    pub(crate) fn refuse_ambiguous(&self, cx: &Cx, fields: &[AssignSpec]) -> Result<()> {
        let within = |tenant: crate::entity::Tenant| cx.bound(self.desc, tenant.field).is_some();
        if cx.system_reason().is_none()
            || self.desc.tenant.is_none_or(within)
            || self.pins_one(fields)
        {
            return Ok(());
        }
        let entity = self.desc.name;
        Err(Error::internal(format!(
            "the values can match records of several tenants of `{entity}`: set the tenant with `cx.within(..)`, or call on behalf of an actor with a tenant"
        )))
    }
}
