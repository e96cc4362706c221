//! One way to the store: every statement of CRUD and of operations is prepared and run here.
//!
//! What holds for every statement alike has its place in [`Statements::prepare`] and [`Statements::execute`], and cannot be
//! forgotten by a kind of operation: the store is private to this file. That is the [`Guard`] above all.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use super::computed;
use super::firsts::Firsts;
use super::guard::{self, Guard, Reach, RouteGuard};
use super::prepared::{Change, Prepared, changes, event};
use super::summaries::Summaries;
use crate::entity::EntityDesc;
use crate::event::Emitter;
use crate::filter::{Filter, Source};
use crate::operation::OpSpec;
use crate::permission::Only;
use crate::store::{Driver, Plan, Reply, Rows, Statement, Store};
use crate::{Code, Cx, Error, Result, Value};

/// Most statements kept per entity for shapes that requests choose (filters of lists, fields of patches).
const SHAPES: usize = 512;

/// A statement under the guard of its entity: one form per reach, each made when it is first needed.
pub(super) struct Guarded {
    /// As the route asked for it.
    plan: Plan,
    route: Arc<RouteGuard>,
    /// Where the guard's arguments begin.
    base: usize,
    /// By [`Reach`]; that of callers is the statement itself.
    others: [OnceLock<Arc<Statement>>; 6],
    /// Removes expired records that stand in the way of a write.
    eviction: OnceLock<Option<Arc<Statement>>>,
}

/// Where a statement is in memory, and the shape of the conditions that it is under.
type LimitedKey = (usize, Box<[u8]>);

/// A statement under the conditions of a permission.
struct Limited {
    /// What it was made of: kept, so that no other statement takes its place in memory.
    _of: Arc<Statement>,
    statement: Arc<Statement>,
}

/// The statements of one mounted entity.
pub(super) struct Statements {
    desc: &'static EntityDesc,
    store: Arc<dyn Store>,
    guard: Option<Guard>,
    shapes: RwLock<HashMap<Box<[u8]>, Prepared>>,
    /// What the guard is on each route, with a number for each that is different.
    routes: RwLock<HashMap<String, (u16, Arc<RouteGuard>)>>,
    /// Statements under the conditions of a permission, by the statement they were made of and the shape of the conditions.
    limited: RwLock<HashMap<LimitedKey, Limited>>,
    /// Set at start-up when somebody listens to the entity; without it nothing is recorded, and nothing of it paid for.
    emitter: OnceLock<Arc<Emitter>>,
    /// What other records keep of these; without it a statement is all there is to a change.
    summaries: Option<Summaries>,
    /// What these keep of others.
    firsts: Firsts,
}

impl Statements {
    pub(super) fn new(desc: &'static EntityDesc, store: Arc<dyn Store>) -> Result<Self> {
        Ok(Self {
            desc,
            summaries: Summaries::new(desc, &store)?,
            firsts: Firsts::default(),
            store,
            guard: Guard::new(desc),
            shapes: RwLock::default(),
            routes: RwLock::default(),
            limited: RwLock::default(),
            emitter: OnceLock::new(),
        })
    }

    /// `memory`, `sqlite` and so on.
    pub(super) fn store_name(&self) -> &'static str {
        self.store.name()
    }

    /// What handlers of custom operations reach the store by.
    pub(super) fn driver(&self) -> Driver {
        self.store.driver()
    }

    /// What the guard is for a call on a route, as a condition with its values in place: for statements that are not ours.
    ///
    /// # Errors
    /// As [`Statements::admit`].
    pub(super) fn condition(&self, cx: &Cx, route: &str) -> Result<Filter> {
        let (mut plan, mut args) = (Plan::Exists { filter: Filter::TRUE }, Vec::new());
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
            return Err(Error::internal("a guard turned a question into something else"));
        };
        Ok(filter.map_sources(&mut |_, _, source| match source {
            Source::Arg { index, .. } => Source::Value(args.get(index).cloned().unwrap_or_default()),
            source => source,
        }))
    }

    /// Whether both go to one store.
    pub(super) fn shares_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
    }

    /// Whether the store computes a number and writes it in one statement.
    pub(super) fn computes(&self, last: bool) -> bool {
        self.store.computes(last)
    }

    /// Whether calls differ in what they see.
    pub(super) fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// Notes what an operation leaves out of the guard. A route nobody has declared is guarded in full.
    pub(super) fn declare(&self, spec: &OpSpec) {
        if let Some(guard) = &self.guard {
            self.note(spec.name, guard.route(spec.name, spec.kind.reads(), spec.unscoped.is_some()).of_deleted(spec.kind.deleted()));
        }
    }

    fn note(&self, name: &str, route: RouteGuard) -> (u16, Arc<RouteGuard>) {
        let mut routes = self.routes.write();
        let same = routes.values().find(|(_, other)| **other == route).cloned();
        let noted = same.unwrap_or_else(|| {
            let number = routes.values().map(|(number, _)| number + 1).max().unwrap_or_default();
            (number, Arc::new(route))
        });
        routes.insert(name.to_owned(), noted.clone());
        noted
    }

    fn route(&self, guard: &Guard, name: &str) -> (u16, Arc<RouteGuard>) {
        if let Some(noted) = self.routes.read().get(name) {
            return noted.clone();
        }
        self.note(name, guard.route(name, matches!(name, "get" | "list"), false))
    }

    /// A statement of a route: `get`, `list` and so on, or the name of an operation.
    pub(super) fn prepare(&self, route: &'static str, plan: Plan) -> Result<Prepared> {
        let (event, change) = (event(route, &plan), Change::of(self.desc, &plan));
        let Some(guard) = &self.guard else {
            return Ok(Prepared { statement: self.store.prepare(self.desc, plan)?, guarded: None, event, change });
        };
        let (_, route) = self.route(guard, route);
        let base = guard::arity(self.desc, &plan);
        let statement = self.store.prepare(self.desc, guard.plan(&plan, Reach::Caller, &route, base))?;
        let guarded = Guarded { plan, route, base, others: Default::default(), eviction: OnceLock::new() };
        Ok(Prepared { statement, guarded: Some(Arc::new(guarded)), event, change })
    }

    /// A statement without a guard, for what the application itself does with records nobody sees any more. It makes the
    /// events of a route, or none.
    pub(super) fn unguarded(&self, event: Option<&'static str>, plan: Plan) -> Result<Prepared> {
        // What leaves without anybody being told of it has been out of sight for long.
        let change = if event.is_some() { Change::of(self.desc, &plan) } else { Change::None };
        Ok(Prepared { statement: self.store.prepare(self.desc, plan)?, guarded: None, event, change })
    }

    /// From now on what changes records makes events. Doing so again changes nothing.
    /// Answers the emitter that does it.
    pub(super) fn emit(&self, emitter: Arc<Emitter>) -> &Emitter {
        self.emitter.get_or_init(|| emitter)
    }

    /// Whether what changes records makes events.
    pub(super) fn emits(&self) -> bool {
        self.emitter.get().is_some()
    }

    /// The statement of a shape that requests choose, prepared on first use.
    pub(super) fn shape(&self, route: &'static str, key: &[u8], plan: impl FnOnce() -> Plan) -> Result<Prepared> {
        let Some(guard) = &self.guard else { return self.shaped(route, key, plan) };
        // Routes that differ in their guard share no statement. No shape begins with a zero.
        match self.route(guard, route).0.to_be_bytes() {
            [0, 0] => self.shaped(route, key, plan),
            [high, low] => self.shaped(route, &[&[0, high, low], key].concat(), plan),
        }
    }

    fn shaped(&self, route: &'static str, key: &[u8], plan: impl FnOnce() -> Plan) -> Result<Prepared> {
        if let Some(prepared) = self.shapes.read().get(key) {
            // Routes may share a statement; the events are those of the one that runs it.
            return Ok(Prepared { event: prepared.event.map(|_| route), ..prepared.clone() });
        }
        let prepared = self.prepare(route, plan())?;
        let mut shapes = self.shapes.write();
        if shapes.len() >= SHAPES {
            // Clients choose shapes; forgetting all of them bounds memory, and the common ones are back at once.
            shapes.clear();
        }
        shapes.insert(key.into(), prepared.clone());
        Ok(prepared)
    }

    /// Runs a statement; `args` fill the plan's argument slots.
    pub(super) fn execute<'a>(&'a self, cx: &Cx, prepared: &'a Prepared, args: Vec<Value>, mut rows: Rows) -> Reply<'a> {
        if let (Some(route), Some(emitter)) = (prepared.event, self.emitter.get()) {
            rows.recording = emitter.recording(cx, route);
        }
        match (&self.guard, &prepared.guarded) {
            (Some(guard), Some(guarded)) => {
                self.execute_guarded(guard, guarded, cx, prepared, args, rows).unwrap_or_else(|error| Reply::Ready(Err(error)))
            }
            _ => self.run_limited(cx, &prepared.statement, args, rows),
        }
    }

    /// Runs a statement on the records that the call may touch.
    fn run_limited<'a>(&'a self, cx: &Cx, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        let Some(only) = cx.only(self.desc) else { return self.run(cx, statement, args, rows) };
        let (statement, args) = match self.limit(statement, only, args) {
            Ok(limited) => limited,
            Err(error) => return Reply::Ready(Err(error)),
        };
        let cx = cx.clone();
        Reply::Later(Box::pin(async move { self.run(&cx, &statement, args, rows).await }))
    }

    /// A statement and its arguments under the conditions of a permission.
    ///
    /// # Errors
    /// 403 or 404 for a new record that does not meet them.
    fn limit(&self, statement: &Arc<Statement>, only: &Only, mut args: Vec<Value>) -> Result<(Arc<Statement>, Vec<Value>)> {
        if matches!(statement.plan, Plan::Insert | Plan::Upsert { .. }) {
            only.admits(&args)?;
        }
        if matches!(statement.plan, Plan::Insert) {
            return Ok((Arc::clone(statement), args));
        }
        let base = guard::arity(self.desc, &statement.plan);
        if args.len() < base {
            return Err(Error::internal("a statement lacks an argument"));
        }
        args.truncate(base);
        args.extend(only.values());
        Ok((self.kept(statement, only.shape(), || only.plan(&statement.plan, base))?, args))
    }

    /// Runs a statement as it is, with what goes along with it.
    pub(super) fn run<'a>(&'a self, cx: &Cx, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        let summaries = self.summaries.as_ref().filter(|summaries| summaries.concerned(&statement.plan));
        match cx.untold().filter(|_| changes(&statement.plan)) {
            Some((cx, auditing)) => self.with_consequences(cx, Some(auditing), summaries, statement, args, rows),
            None if summaries.is_some_and(|summaries| !summaries.is_idle(&statement.plan, &args))
                || self.firsts.concerned(self.desc, &statement.plan) =>
            {
                self.with_consequences(cx.clone(), None, summaries, statement, args, rows)
            }
            None => self.send(cx, statement, args, rows),
        }
    }

    /// Hands a statement on, with the values of computed fields where it changes what they follow from.
    pub(super) fn send<'a>(&'a self, cx: &Cx, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        if computed::concerned(statement) {
            return self.computing(cx, statement, args, rows);
        }
        self.hand(cx, statement, args, rows)
    }

    /// Hands a statement to the store, or to the transaction that the call is part of.
    pub(super) fn hand<'a>(&'a self, cx: &Cx, statement: &'a Arc<Statement>, args: Vec<Value>, mut rows: Rows) -> Reply<'a> {
        if let (Some(emitter), true) = (self.emitter.get(), rows.is_recorded()) {
            return self.record(emitter, cx, statement, args, rows);
        }
        let Some(transaction) = cx.in_transaction() else {
            if self.store.may_take_long(statement) {
                rows.caller = cx.caller();
            }
            return self.store.run(statement, args, rows);
        };
        let transaction = Arc::clone(transaction);
        Reply::Later(Box::pin(async move { transaction.run(&self.store, statement, args, rows).await }))
    }

    /// What other records keep of these.
    pub(super) fn summaries(&self) -> Option<&Summaries> {
        self.summaries.as_ref()
    }

    /// What these keep of others.
    pub(super) fn firsts(&self) -> &Firsts {
        &self.firsts
    }

    /// Where the records are.
    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Whether a transaction is the only one that writes.
    pub(super) fn alone(&self) -> bool {
        self.store.alone()
    }

    /// A statement as it will run: under the guard, and under the conditions of a permission.
    pub(super) fn settled(&self, cx: &Cx, prepared: &Prepared, mut args: Vec<Value>) -> Result<(Arc<Statement>, Vec<Value>)> {
        let statement = match (&self.guard, &prepared.guarded) {
            (Some(guard), Some(guarded)) => self.under_guard(guard, guarded, cx, prepared, &mut args)?,
            _ => &prepared.statement,
        };
        match cx.only(self.desc) {
            Some(only) => self.limit(statement, only, args),
            None => Ok((Arc::clone(statement), args)),
        }
    }

    /// The entity.
    pub(super) fn desc(&self) -> &'static EntityDesc {
        self.desc
    }

    /// A statement that stands for another one, or beside it: made once. No shape of conditions has one byte.
    pub(super) fn derived(&self, of: &Arc<Statement>, what: u8, plan: impl FnOnce() -> Plan) -> Result<Arc<Statement>> {
        self.kept(of, Box::from([what]), plan)
    }

    fn kept(&self, of: &Arc<Statement>, shape: Box<[u8]>, plan: impl FnOnce() -> Plan) -> Result<Arc<Statement>> {
        let key = (Arc::as_ptr(of) as usize, shape);
        if let Some(limited) = self.limited.read().get(&key) {
            return Ok(Arc::clone(&limited.statement));
        }
        let prepared = self.store.prepare(of.entity, plan())?;
        let mut limited = self.limited.write();
        if limited.len() >= SHAPES {
            limited.clear();
        }
        limited.insert(key, Limited { _of: Arc::clone(of), statement: Arc::clone(&prepared) });
        Ok(prepared)
    }

    /// Runs a statement that records events: notes the first of them for the answer, and wakes whoever delivers them.
    fn record<'a>(&'a self, emitter: &'a Emitter, cx: &Cx, statement: &'a Arc<Statement>, args: Vec<Value>, mut rows: Rows) -> Reply<'a> {
        if let Some(recording) = &mut rows.recording {
            recording.of(&statement.plan);
        }
        let cx = cx.clone();
        Reply::Later(Box::pin(async move {
            let mut rows = match cx.in_transaction() {
                Some(transaction) => transaction.run(&self.store, statement, args, rows).await?,
                None => self.store.run(statement, args, rows).await?,
            };
            let first = rows.recording.take().and_then(|recording| recording.first);
            match (first, cx.in_transaction()) {
                (None, _) => {}
                (Some(id), Some(transaction)) => transaction.note_event(id, emitter.wake()),
                (Some(id), None) => {
                    cx.note_event(id);
                    emitter.wake().send_replace(());
                }
            }
            Ok(rows)
        }))
    }

    fn execute_guarded<'a>(
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
            let first = self.run_limited(&cx, statement, args.clone(), rows.clone()).await;
            let stopped = match &first {
                Err(error) => error.code() == Code::Conflict,
                // An upsert that meets a record out of reach answers no row.
                Ok(rows) => rows.count == 0 && upserts,
            };
            if !stopped {
                return first;
            }
            // Expired records never block. They are gone for everybody already, so it is safe to remove them whether or not
            // the write succeeds then.
            let mut expired = args.clone();
            expired.truncate(guarded.base);
            expired.push(now);
            let mut removed = Rows::count();
            removed.recording = self.emitter.get().and_then(|emitter| emitter.expiry(&cx));
            self.run(&cx, eviction, expired, removed).await?;
            // Also when nothing was left to remove: somebody else, the sweeper say, may have done it meanwhile.
            self.run_limited(&cx, statement, args, rows).await
        })))
    }

    /// The statement for a call's reach, with the arguments of the guard.
    fn under_guard<'a>(
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

    fn statement_of<'a>(&self, guard: &Guard, guarded: &'a Guarded, prepared: &'a Prepared, reach: Reach) -> Result<&'a Arc<Statement>> {
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

    fn eviction<'a>(&self, guard: &Guard, guarded: &'a Guarded) -> Result<Option<&'a Arc<Statement>>> {
        if let Some(eviction) = guarded.eviction.get() {
            return Ok(eviction.as_ref());
        }
        let plan = guard.eviction(&guarded.plan, guarded.base);
        let eviction = plan.map(|plan| self.store.prepare(self.desc, plan)).transpose()?;
        Ok(guarded.eviction.get_or_init(|| eviction).as_ref())
    }

    /// Whether a call may go on at all on a route, before anything else about it is looked at.
    ///
    /// # Errors
    /// 401 or 403 when tenant or scope need a value that the caller has not.
    pub(super) fn admit(&self, cx: &Cx, route: &str) -> Result<()> {
        self.fingerprint(cx, route, &mut Vec::new())
    }

    /// Appends what a page has in common with the one before because of the guard.
    ///
    /// # Errors
    /// As [`Statements::admit`].
    pub(super) fn fingerprint(&self, cx: &Cx, route: &str, out: &mut Vec<u8>) -> Result<()> {
        if let Some(only) = cx.only(self.desc) {
            out.push(b'p');
            out.extend_from_slice(&only.shape());
            only.values().for_each(|value| super::cursor::encode(&value, out));
        }
        let Some(guard) = &self.guard else { return Ok(()) };
        let mut owner = Vec::new();
        let reach = guard.reach(cx, &self.route(guard, route).1, &mut owner)?;
        Guard::fingerprint(reach, &owner, out);
        Ok(())
    }

    /// Whose records a call sees on a route: fields and values; nothing for the application itself.
    ///
    /// # Errors
    /// As [`Statements::admit`].
    pub(super) fn owners(&self, cx: &Cx, route: &str) -> Result<Vec<(usize, Value)>> {
        match &self.guard {
            Some(guard) => guard.owners(cx, &self.route(guard, route).1),
            None => Ok(Vec::new()),
        }
    }

    /// Writes tenant, scopes and expiry into the values of a new record.
    ///
    /// # Errors
    /// As [`Statements::admit`].
    pub(super) fn stamp(&self, cx: &Cx, route: &str, values: &mut [Option<Value>]) -> Result<()> {
        match &self.guard {
            Some(guard) => guard.stamp(cx, &self.route(guard, route).1, values),
            None => Ok(()),
        }
    }
}
