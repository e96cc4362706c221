//! Calls on one record: the record that a call matches, and a record that it creates.

use super::{Moved, Permit};
use crate::cx::CallConditions;
use crate::filter::Filter;
use crate::resource::{Form, Table};
use crate::{Code, Cx, Error, Result, Value};

impl Permit {
    /// The call, limited to the one matching record. `moved` are the values that it writes into the
    /// fields of the permission. `looks` says that the following code is the app's own, so the
    /// record is checked first.
    ///
    /// # Errors
    /// `not_found` if the record is not visible; else like [`Permit::enter`].
    pub(crate) async fn record(
        &self,
        table: &Table,
        cx: &Cx,
        matches: &Filter,
        moved: Moved,
        looks: bool,
    ) -> Result<Cx> {
        if !self.waits() {
            if let (Some(only), true) = (cx.only(self.entity), looks) {
                let found = self
                    .look(table, cx, matches)
                    .await?
                    .ok_or_else(Error::not_found)?;
                only.admits(&found)?;
            }
            return Ok(cx.clone());
        }
        let found = self
            .look(table, cx, matches)
            .await?
            .ok_or_else(Error::not_found)?;
        let resource = self.resource.map(|field| found[field].clone());
        let target = self.rank.map(|field| found[field].clone());
        let moved_to = moved
            .resource
            .filter(|moved| Some(moved) != resource.as_ref());
        let about = moved.target.filter(|moved| Some(moved) != target.as_ref());
        if moved_to.is_some() || about.is_some() {
            self.may_move(
                cx,
                moved_to.as_ref().or(resource.as_ref()),
                about.as_ref().or(target.as_ref()),
            )
            .await?;
        }
        let cx = self.limit(cx.clone(), resource, target, true).await?;
        if let Some(only) = cx.only(self.entity) {
            only.admits(&found)?;
        }
        Ok(cx)
    }

    /// The call, limited for a record that it creates.
    ///
    /// # Errors
    /// Like [`Permit::enter`].
    pub(crate) async fn new_record(&self, cx: &Cx, values: &[Value]) -> Result<Cx> {
        let value = |field: Option<usize>| {
            field.and_then(|field| {
                cx.bound(self.entity, field)
                    .or_else(|| values.get(field).cloned())
            })
        };
        let cx = if self.waits() {
            self.limit(cx.clone(), value(self.resource), value(self.rank), true)
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
                if self.waits()
                    && self
                        .resource
                        .into_iter()
                        .chain(self.rank)
                        .any(|field| !same(only, field, &found)) =>
            {
                // The record was moved during the check: the decision was about another resource.
                Error::kept_changing()
            }
            Ok(Some(found)) => only.admits(&found).err().unwrap_or(error),
            Ok(None) => error,
            Err(failed) => failed,
        }
    }

    /// The matching record among those that the call can see, with any permission. It is read
    /// before the change, so outside of the transaction of the call.
    pub(super) async fn look(
        &self,
        table: &Table,
        cx: &Cx,
        matches: &Filter,
    ) -> Result<Option<Box<[Value]>>> {
        self.find(table, &cx.unlimited().beside_transaction(), matches)
            .await
    }

    /// Like [`Permit::look`], within the transaction, after it has found nothing.
    async fn find(&self, table: &Table, cx: &Cx, matches: &Filter) -> Result<Option<Box<[Value]>>> {
        let found = table
            .first(cx, self.route, matches.clone(), Vec::new(), &Form::Records)
            .await?;
        Ok(found.records.into_iter().next())
    }
}

/// Whether a record has the value of a field that a call is limited to.
fn same(only: &CallConditions, field: usize, record: &[Value]) -> bool {
    only.conditions()
        .iter()
        .all(|(at, value)| *at != field || record.get(field) == Some(value))
}
