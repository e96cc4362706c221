//! Calls on one record: the record that a call matches, and a record that it creates.

use super::grant::RecordConditions;
use super::{Permit, WrittenValues};
use crate::cx::CallConditions;
use crate::filter::Filter;
use crate::resource::{Form, Table};
use crate::{Code, Cx, Error, Result, Value};

impl Permit {
    /// The call, limited to the one matching record. `written` are the values that it writes into
    /// the fields of the permission. With `runs_app_code`, code of the app runs next, so the record
    /// is read and checked before.
    ///
    /// # Errors
    /// `not_found` if the record is not visible; otherwise like [`Permit::check_before_record`].
    pub(crate) async fn record(
        &self,
        table: &Table,
        cx: &Cx,
        matches: &Filter,
        written: WrittenValues,
        runs_app_code: bool,
    ) -> Result<Cx> {
        if !self.needs_record() {
            if let (Some(only), true) = (cx.only(self.entity), runs_app_code) {
                let found = self
                    .read_record(table, cx, matches)
                    .await?
                    .ok_or_else(Error::not_found)?;
                only.admits(&found)?;
            }
            return Ok(cx.clone());
        }
        let found = self
            .read_record(table, cx, matches)
            .await?
            .ok_or_else(Error::not_found)?;
        let resource = self.resource.map(|field| found[field].clone());
        let target = self.target.map(|field| found[field].clone());
        let moved_to = written
            .resource
            .filter(|written| Some(written) != resource.as_ref());
        let about = written
            .target
            .filter(|written| Some(written) != target.as_ref());
        if moved_to.is_some() || about.is_some() {
            self.may_move(
                cx,
                moved_to.as_ref().or(resource.as_ref()),
                about.as_ref().or(target.as_ref()),
            )
            .await?;
        }
        let conditions = RecordConditions::ResourceAndTarget(target);
        let cx = self.limit(cx.clone(), resource, conditions).await?;
        if let Some(only) = cx.only(self.entity) {
            only.admits(&found)?;
        }
        Ok(cx)
    }

    /// The call, limited for a record that it creates.
    ///
    /// # Errors
    /// Like [`Permit::check_before_record`].
    pub(crate) async fn new_record(&self, cx: &Cx, values: &[Value]) -> Result<Cx> {
        let value = |field: Option<usize>| {
            field.and_then(|field| {
                cx.bound(self.entity, field)
                    .or_else(|| values.get(field).cloned())
            })
        };
        let cx = if self.needs_record() {
            let conditions = RecordConditions::ResourceAndTarget(value(self.target));
            self.limit(cx.clone(), value(self.resource), conditions)
                .await?
        } else {
            cx.clone()
        };
        if let Some(only) = cx.only(self.entity) {
            only.admits(values)?;
        }
        Ok(cx)
    }

    /// The error for a call that found nothing to change because of its permission.
    pub(crate) async fn explain(
        &self,
        table: &Table,
        cx: &Cx,
        matches: &Filter,
        error: Error,
    ) -> Error {
        let Some(only) = cx.only(self.entity) else {
            return error;
        };
        if !matches!(error.code(), Code::NotFound | Code::Conflict)
            || (self.declared.hide && error.code() == Code::NotFound)
        {
            return error;
        }
        match self.find(table, &cx.unlimited(), matches).await {
            Ok(Some(found))
                if self.needs_record()
                    && self
                        .resource
                        .into_iter()
                        .chain(self.target)
                        .any(|field| !has_limited_value(only, field, &found)) =>
            {
                // The record was moved to another resource during the check, so the decision is not
                // valid for it.
                Error::kept_changing()
            }
            Ok(Some(found)) => only.admits(&found).err().unwrap_or(error),
            Ok(None) => error,
            Err(failed) => failed,
        }
    }

    /// The matching record among those that the call can see, with any permission. The read
    /// precedes the change, so it is not part of the transaction of the call.
    pub(super) async fn read_record(
        &self,
        table: &Table,
        cx: &Cx,
        matches: &Filter,
    ) -> Result<Option<Box<[Value]>>> {
        self.find(table, &cx.unlimited().outside_transaction(), matches)
            .await
    }

    /// The matching record among those that `cx` can see, read in the transaction of `cx`, if it
    /// has one.
    async fn find(&self, table: &Table, cx: &Cx, matches: &Filter) -> Result<Option<Box<[Value]>>> {
        let found = table
            .first(cx, self.route, matches.clone(), Vec::new(), &Form::Records)
            .await?;
        Ok(found.records.into_iter().next())
    }
}

/// Whether a record has the value of a field that a call is limited to.
fn has_limited_value(only: &CallConditions, field: usize, record: &[Value]) -> bool {
    only.conditions()
        .iter()
        .all(|(at, value)| *at != field || record.get(field) == Some(value))
}
