//! Restricts statements to the records that a call may read or change.
//!
//! This is the only place that applies scopes, visibility filters and permissions. A statement has
//! one prepared form per [`Reach`] of a call; the values of the caller are arguments.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use linchpin_core::operation::OpSpec;

use super::Statements;
use crate::cx::CallConditions;
use crate::filter::{Filter, Source};
use crate::resource::cursor;
use crate::resource::prepared::Prepared;
use crate::resource::restriction::{Reach, Restriction, RouteRestriction};
use crate::store::{Plan, Statement};
use crate::{Cx, Error, Result, Timestamp, Value};

/// A statement of a restricted entity: one form per reach, prepared at its first use.
pub(in crate::resource) struct Restricted {
    /// The plan without the restriction.
    pub(super) plan: Plan,
    pub(super) route: Arc<RouteRestriction>,
    /// Position of the first argument of the restriction.
    pub(super) base: usize,
    /// The forms by [`Reach`]. The form of callers is the statement itself.
    pub(super) others: [OnceLock<Arc<Statement>>; 7],
    /// Removes expired records that conflict with a write.
    pub(super) eviction: OnceLock<Option<Arc<Statement>>>,
}

impl Prepared {
    /// The arguments of the statement that removes expired records: those of the write without its
    /// restriction, and the instant of the call.
    pub(super) fn eviction_args(&self, args: &[Value], now: Timestamp) -> Vec<Value> {
        let base = self
            .restricted
            .as_ref()
            .map_or(0, |restricted| restricted.base);
        let own = args.iter().take(base).cloned();
        own.chain([Value::Date(now)]).collect()
    }
}

impl Statements {
    /// The restriction of a call as a condition with its values, for SQL that the app wrote.
    ///
    /// # Errors
    /// As [`Statements::admit`].
    pub(in crate::resource) fn condition(&self, cx: &Cx, route: &str) -> Result<Filter> {
        let (mut plan, mut args) = (
            Plan::Exists {
                filter: Filter::TRUE,
            },
            Vec::new(),
        );
        if let Some(restriction) = &self.restriction {
            let (route, mut owner) = (self.route(restriction, route).1, Vec::new());
            let reach = restriction.reach(cx, &route, &mut owner)?;
            restriction.arguments(cx, &plan, reach, &route, owner, &mut args);
            plan = restriction.plan(&plan, reach, &route, 0);
        }
        if let Some(only) = cx.only(self.desc) {
            plan = only.plan(&plan, args.len());
            args.extend(only.values());
        }
        let Plan::Exists { filter } = plan else {
            return Err(Error::internal("a restriction changed the kind of a plan"));
        };
        Ok(filter.map_sources(&mut |_, _, source| match source {
            Source::Arg { index, .. } => {
                Source::Value(args.get(index).cloned().unwrap_or_default())
            }
            source => source,
        }))
    }

    /// Records which scopes an operation declares as lifted. A route that declares none is
    /// restricted by all of them.
    pub(in crate::resource) fn declare(&self, spec: &OpSpec) {
        if let Some(restriction) = &self.restriction {
            self.register(
                spec.name,
                restriction
                    .route(spec.name, spec.kind.reads(), spec.unscoped.is_some())
                    .of_deleted(spec.kind.selects_deleted()),
            );
        }
    }

    fn register(&self, name: &str, route: RouteRestriction) -> (u16, Arc<RouteRestriction>) {
        let mut routes = self.routes.write();
        let same = routes.values().find(|(_, other)| **other == route).cloned();
        let registered = same.unwrap_or_else(|| {
            let number = routes
                .values()
                .map(|(number, _)| number + 1)
                .max()
                .unwrap_or_default();
            (number, Arc::new(route))
        });
        routes.insert(name.to_owned(), registered.clone());
        registered
    }

    /// The restriction of the entity; `None` if every caller sees all records.
    pub(in crate::resource) fn restriction(&self) -> Option<&Restriction> {
        self.restriction.as_ref()
    }

    pub(in crate::resource) fn route(
        &self,
        restriction: &Restriction,
        name: &str,
    ) -> (u16, Arc<RouteRestriction>) {
        if let Some(registered) = self.routes.read().get(name) {
            return registered.clone();
        }
        self.register(
            name,
            restriction.route(name, matches!(name, "get" | "list"), false),
        )
    }

    /// The statement that a call may run, with its arguments: scopes, visibility filters and the
    /// conditions of a permission are added here and nowhere else. The statement is borrowed unless
    /// a permission limits the call.
    ///
    /// # Errors
    /// As [`Statements::admit`]; 403 or 404 for a new record that the permission does not allow;
    /// `validation_failed` for a value that would mark a record as deleted.
    pub(in crate::resource) fn restrict<'a>(
        &self,
        cx: &Cx,
        prepared: &'a Prepared,
        mut args: Vec<Value>,
    ) -> Result<(Cow<'a, Arc<Statement>>, Vec<Value>)> {
        let statement = match (&self.restriction, &prepared.restricted) {
            (Some(restriction), Some(restricted)) => {
                self.under_restriction(restriction, restricted, cx, prepared, &mut args)?
            }
            _ => &prepared.statement,
        };
        match cx.only(self.desc) {
            None => Ok((Cow::Borrowed(statement), args)),
            Some(only) => {
                let (statement, args) = self.authorize(statement, only, args)?;
                Ok((Cow::Owned(statement), args))
            }
        }
    }

    /// A statement and its arguments with the conditions of a permission.
    ///
    /// # Errors
    /// 403 or 404 for a new record that does not satisfy them.
    fn authorize(
        &self,
        statement: &Arc<Statement>,
        only: &CallConditions,
        mut args: Vec<Value>,
    ) -> Result<(Arc<Statement>, Vec<Value>)> {
        if matches!(statement.plan, Plan::Insert | Plan::Upsert { .. }) {
            only.admits(&args)?;
        }
        if matches!(statement.plan, Plan::Insert) {
            return Ok((Arc::clone(statement), args));
        }
        let base = statement.plan.arity(self.desc);
        if args.len() < base {
            return Err(Error::internal("a statement lacks an argument"));
        }
        args.truncate(base);
        args.extend(only.values());
        Ok((
            self.derived_with_shape(statement, only.shape(), || only.plan(&statement.plan, base))?,
            args,
        ))
    }

    /// The statement for the reach of a call. Appends the arguments of the restriction.
    fn under_restriction<'a>(
        &self,
        restriction: &Restriction,
        restricted: &'a Restricted,
        cx: &Cx,
        prepared: &'a Prepared,
        args: &mut Vec<Value>,
    ) -> Result<&'a Arc<Statement>> {
        restriction.refuse_mark(&restricted.plan, args)?;
        if matches!(restricted.plan, Plan::Insert) {
            restriction.stamp(cx, &restricted.route, args)?;
            return Ok(&prepared.statement);
        }
        let mut owner = Vec::new();
        let reach = restriction.reach(cx, &restricted.route, &mut owner)?;
        if args.len() < restricted.base {
            return Err(Error::internal("a statement lacks an argument"));
        }
        if matches!(restricted.plan, Plan::Upsert { .. }) {
            restriction.stamp(cx, &restricted.route, args)?;
        }
        // Further arguments, which the plan does not use, would occupy the slots of the
        // restriction.
        args.truncate(restricted.base);
        restriction.arguments(cx, &restricted.plan, reach, &restricted.route, owner, args);
        self.statement_of(restriction, restricted, prepared, reach)
    }

    fn statement_of<'a>(
        &self,
        restriction: &Restriction,
        restricted: &'a Restricted,
        prepared: &'a Prepared,
        reach: Reach,
    ) -> Result<&'a Arc<Statement>> {
        if reach == Reach::Caller {
            return Ok(&prepared.statement);
        }
        let slot = &restricted.others[reach as usize];
        if let Some(statement) = slot.get() {
            return Ok(statement);
        }
        let plan = restriction.plan(&restricted.plan, reach, &restricted.route, restricted.base);
        let statement = self.store.prepare(self.desc, plan)?;
        Ok(slot.get_or_init(|| statement))
    }

    /// The statement that removes expired records that conflict with a write, if there can be any.
    ///
    /// # Errors
    /// When the store refuses the statement.
    pub(super) fn eviction<'a>(
        &self,
        prepared: &'a Prepared,
    ) -> Result<Option<&'a Arc<Statement>>> {
        let (Some(restriction), Some(restricted)) = (&self.restriction, &prepared.restricted)
        else {
            return Ok(None);
        };
        if let Some(eviction) = restricted.eviction.get() {
            return Ok(eviction.as_ref());
        }
        let plan = restriction.eviction(&restricted.plan, restricted.base);
        let eviction = plan
            .map(|plan| self.store.prepare(self.desc, plan))
            .transpose()?;
        Ok(restricted.eviction.get_or_init(|| eviction).as_ref())
    }

    /// Whether a caller has the tenant and the scopes that a route needs. Checked before the body is
    /// read.
    ///
    /// # Errors
    /// 401 or 403 when the caller lacks a value for the tenant or a scope.
    pub(in crate::resource) fn admit(&self, cx: &Cx, route: &str) -> Result<()> {
        self.fingerprint(cx, route, &mut Vec::new())
    }

    /// Appends the values of the restriction that all pages of a cursor share.
    ///
    /// # Errors
    /// As [`Statements::admit`].
    pub(in crate::resource) fn fingerprint(
        &self,
        cx: &Cx,
        route: &str,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if let Some(only) = cx.only(self.desc) {
            out.push(b'p');
            out.extend_from_slice(&only.shape());
            only.values().for_each(|value| cursor::encode(&value, out));
        }
        let Some(restriction) = &self.restriction else {
            return Ok(());
        };
        let mut owner = Vec::new();
        let reach = restriction.reach(cx, &self.route(restriction, route).1, &mut owner)?;
        Restriction::fingerprint(reach, &owner, out);
        Ok(())
    }

    /// Tenant and scopes of a call: fields and values. For the application itself: only the tenant
    /// that it acts in, if one is set.
    ///
    /// # Errors
    /// As [`Statements::admit`].
    pub(in crate::resource) fn owners(&self, cx: &Cx, route: &str) -> Result<Vec<(usize, Value)>> {
        match &self.restriction {
            Some(restriction) => restriction.owners(cx, &self.route(restriction, route).1),
            None => Ok(Vec::new()),
        }
    }

    /// Writes tenant, scopes and expiry into the values of a new record.
    ///
    /// # Errors
    /// As [`Statements::admit`].
    pub(in crate::resource) fn stamp(
        &self,
        cx: &Cx,
        route: &str,
        values: &mut [Option<Value>],
    ) -> Result<()> {
        match &self.restriction {
            Some(restriction) => restriction.stamp(cx, &self.route(restriction, route).1, values),
            None => Ok(()),
        }
    }
}
