//! Statements under the guard of their entity: the form of each for how far a call reaches, with
//! the guard's arguments.

use std::sync::{Arc, OnceLock};

use super::Statements;
use crate::filter::{Filter, Source};
use crate::operation::OpSpec;
use crate::resource::cursor;
use crate::resource::guard::{Guard, Reach, RouteGuard};
use crate::resource::prepared::Prepared;
use crate::store::{Plan, Reply, Rows, Statement};
use crate::{Code, Cx, Error, Result, Value};

/// A statement under the guard of its entity: one form per reach, each made when it is first
/// needed.
pub(in crate::resource) struct Guarded {
    /// As the route asked for it.
    pub(super) plan: Plan,
    pub(super) route: Arc<RouteGuard>,
    /// Where the guard's arguments begin.
    pub(super) base: usize,
    /// By [`Reach`]; that of callers is the statement itself.
    pub(super) others: [OnceLock<Arc<Statement>>; 7],
    /// Removes expired records that stand in the way of a write.
    pub(super) eviction: OnceLock<Option<Arc<Statement>>>,
}

impl Statements {
    /// What the guard is for a call on a route, as a condition with its values in place: for
    /// statements that are not ours.
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
        if let Some(guard) = &self.guard {
            let (route, mut owner) = (self.route(guard, route).1, Vec::new());
            let reach = guard.reach(cx, &route, &mut owner)?;
            guard.arguments(cx, &plan, reach, &route, owner, &mut args);
            plan = guard.plan(&plan, reach, &route, 0);
        }
        if let Some(only) = cx.only(self.desc) {
            plan = only.plan(&plan, args.len());
            args.extend(only.values());
        }
        let Plan::Exists { filter } = plan else {
            return Err(Error::internal(
                "a guard turned a question into something else",
            ));
        };
        Ok(filter.map_sources(&mut |_, _, source| match source {
            Source::Arg { index, .. } => {
                Source::Value(args.get(index).cloned().unwrap_or_default())
            }
            source => source,
        }))
    }

    /// Notes what an operation leaves out of the guard. A route nobody has declared is guarded in
    /// full.
    pub(in crate::resource) fn declare(&self, spec: &OpSpec) {
        if let Some(guard) = &self.guard {
            self.note(
                spec.name,
                guard
                    .route(spec.name, spec.kind.reads(), spec.unscoped.is_some())
                    .of_deleted(spec.kind.deleted()),
            );
        }
    }

    fn note(&self, name: &str, route: RouteGuard) -> (u16, Arc<RouteGuard>) {
        let mut routes = self.routes.write();
        let same = routes.values().find(|(_, other)| **other == route).cloned();
        let noted = same.unwrap_or_else(|| {
            let number = routes
                .values()
                .map(|(number, _)| number + 1)
                .max()
                .unwrap_or_default();
            (number, Arc::new(route))
        });
        routes.insert(name.to_owned(), noted.clone());
        noted
    }

    pub(super) fn route(&self, guard: &Guard, name: &str) -> (u16, Arc<RouteGuard>) {
        if let Some(noted) = self.routes.read().get(name) {
            return noted.clone();
        }
        self.note(
            name,
            guard.route(name, matches!(name, "get" | "list"), false),
        )
    }

    pub(super) fn execute_guarded<'a>(
        &'a self,
        guard: &Guard,
        guarded: &'a Guarded,
        cx: &Cx,
        prepared: &'a Prepared,
        mut args: Vec<Value>,
        rows: Rows,
    ) -> Result<Reply<'a>> {
        let statement = self.under_guard(guard, guarded, cx, prepared, &mut args)?;
        let Some(eviction) = self.eviction(guard, guarded)? else {
            return Ok(self.run_limited(cx, statement, args, rows));
        };
        let (cx, now) = (cx.clone(), Value::Date(cx.now()));
        let upserts = matches!(guarded.plan, Plan::Upsert { .. });
        Ok(Reply::Later(Box::pin(async move {
            let first = self
                .run_limited(&cx, statement, args.clone(), rows.clone())
                .await;
            let stopped = match &first {
                Err(error) => error.code() == Code::Conflict,
                // An upsert that meets a record out of reach answers no row.
                Ok(rows) => rows.count == 0 && upserts,
            };
            if !stopped {
                return first;
            }
            // Expired records never block. They are gone for everybody already, so it is safe to
            // remove them whether or not the write succeeds then.
            let mut expired = args.clone();
            expired.truncate(guarded.base);
            expired.push(now);
            let mut removed = Rows::count();
            removed.recording = self.emitter.get().and_then(|emitter| emitter.expiry(&cx));
            self.run(&cx, eviction, expired, removed).await?;
            // Also when nothing was left to remove: somebody else, the sweeper say, may have done
            // it meanwhile.
            self.run_limited(&cx, statement, args, rows).await
        })))
    }

    /// The statement for a call's reach, with the arguments of the guard.
    pub(super) fn under_guard<'a>(
        &self,
        guard: &Guard,
        guarded: &'a Guarded,
        cx: &Cx,
        prepared: &'a Prepared,
        args: &mut Vec<Value>,
    ) -> Result<&'a Arc<Statement>> {
        guard.refuse_mark(&guarded.plan, args)?;
        if matches!(guarded.plan, Plan::Insert) {
            guard.stamp(cx, &guarded.route, args)?;
            return Ok(&prepared.statement);
        }
        let mut owner = Vec::new();
        let reach = guard.reach(cx, &guarded.route, &mut owner)?;
        if args.len() < guarded.base {
            return Err(Error::internal("a statement lacks an argument"));
        }
        if matches!(guarded.plan, Plan::Upsert { .. }) {
            guard.stamp(cx, &guarded.route, args)?;
        }
        // Arguments that the plan does not use would stand where those of the guard belong.
        args.truncate(guarded.base);
        guard.arguments(cx, &guarded.plan, reach, &guarded.route, owner, args);
        self.statement_of(guard, guarded, prepared, reach)
    }

    fn statement_of<'a>(
        &self,
        guard: &Guard,
        guarded: &'a Guarded,
        prepared: &'a Prepared,
        reach: Reach,
    ) -> Result<&'a Arc<Statement>> {
        if reach == Reach::Caller {
            return Ok(&prepared.statement);
        }
        let slot = &guarded.others[reach as usize];
        if let Some(statement) = slot.get() {
            return Ok(statement);
        }
        let plan = guard.plan(&guarded.plan, reach, &guarded.route, guarded.base);
        let statement = self.store.prepare(self.desc, plan)?;
        Ok(slot.get_or_init(|| statement))
    }

    fn eviction<'a>(
        &self,
        guard: &Guard,
        guarded: &'a Guarded,
    ) -> Result<Option<&'a Arc<Statement>>> {
        if let Some(eviction) = guarded.eviction.get() {
            return Ok(eviction.as_ref());
        }
        let plan = guard.eviction(&guarded.plan, guarded.base);
        let eviction = plan
            .map(|plan| self.store.prepare(self.desc, plan))
            .transpose()?;
        Ok(guarded.eviction.get_or_init(|| eviction).as_ref())
    }

    /// Whether a call may go on at all on a route, before anything else about it is looked at.
    ///
    /// # Errors
    /// 401 or 403 when tenant or scope need a value that the caller has not.
    pub(in crate::resource) fn admit(&self, cx: &Cx, route: &str) -> Result<()> {
        self.fingerprint(cx, route, &mut Vec::new())
    }

    /// Appends what a page has in common with the one before because of the guard.
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
        let Some(guard) = &self.guard else {
            return Ok(());
        };
        let mut owner = Vec::new();
        let reach = guard.reach(cx, &self.route(guard, route).1, &mut owner)?;
        Guard::fingerprint(reach, &owner, out);
        Ok(())
    }

    /// Whose records a call sees on a route: fields and values; nothing for the application itself.
    ///
    /// # Errors
    /// As [`Statements::admit`].
    pub(in crate::resource) fn owners(&self, cx: &Cx, route: &str) -> Result<Vec<(usize, Value)>> {
        match &self.guard {
            Some(guard) => guard.owners(cx, &self.route(guard, route).1),
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
        match &self.guard {
            Some(guard) => guard.stamp(cx, &self.route(guard, route).1, values),
            None => Ok(()),
        }
    }
}
