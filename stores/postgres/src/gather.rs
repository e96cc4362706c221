//! Concurrent reads of one record are batched into one statement.
//!
//! While fewer calls run than there are connections, each caller runs the statement itself. Calls
//! that arrive later are combined into groups, one group after the other. If 12 or more calls wait,
//! further groups run concurrently, up to the number of connections. A further group also starts if
//! the last one started 300 µs ago or more, so that on a slow network no call waits for a whole
//! round trip of another group. The server's cost per statement is paid once per group. Groups run
//! in separate tasks, so a caller that stops waiting does not stop its group.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_postgres::types::Type;

use super::lane::{Lane, Live};
use super::native::{Native, Sql};
use super::render::{self, Bind};
use super::row::PgRow;
use super::run::Failure;
use super::{bind, error};
use linchpin_core::entity::EntityDesc;
use linchpin_core::store::{Plan, Rows, Statement};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::names::Naming;
use linchpin_sql::replaced::ReplacedField;

/// The maximum number of calls in a group.
const MAX_GROUP: usize = 64;
/// The number of waiting calls that starts a concurrent group. Fewer calls wait for the end of the
/// running group, which saves the server a statement.
const CONCURRENT_FROM: usize = 12;
/// A further group starts this long after the last one, even if others are running. A nearby server
/// answers a group in less time.
const START_INTERVAL: Duration = Duration::from_micros(300);

/// Combines concurrent calls of a statement.
pub(super) struct Gather {
    sql: Sql,
    binds: Vec<Bind>,
    kinds: Vec<Type>,
    /// The position of the column that contains the number of the call that a row belongs to. It
    /// follows the columns of the record.
    number_column: usize,
    /// The fields that also have an earlier column.
    replaced: Box<[ReplacedField]>,
    /// The generation of names that the statement is rendered for.
    generation: u64,
    state: Mutex<State>,
}

struct State {
    waiting: Vec<Call>,
    /// The number of calls that run by themselves.
    alone: usize,
    groups: usize,
    /// The start of the last group.
    last_start: Instant,
    start_interval: Duration,
    /// Whether the server cannot run the combined statement. Every call then runs alone.
    is_unsupported: bool,
    /// The number of combined statements so far.
    #[cfg(test)]
    combined: usize,
}

impl State {
    /// The calls of the next group.
    fn next(&mut self) -> Vec<Call> {
        // Calls whose callers have stopped waiting are skipped.
        self.waiting.retain(|call| !call.answer.is_closed());
        let first = self.waiting.len().min(MAX_GROUP);
        self.waiting.drain(..first).collect()
    }
}

/// The input of a call.
pub(super) struct Input {
    pub(super) args: Vec<Value>,
    pub(super) rows: Rows,
    /// The permit of the call in the limit of statements in progress.
    pub(super) admitted: OwnedSemaphorePermit,
}

/// A waiting call.
struct Call {
    input: Input,
    answer: oneshot::Sender<Answer>,
}

/// The result of a call that has waited.
pub(super) enum Answer {
    Done(Result<Rows>),
    /// The statement of the group failed, perhaps because of another call. Each call must run
    /// alone.
    Alone(Input),
}

/// The way in which a call runs.
#[allow(clippy::large_enum_variant)] // the value is short-lived; a box would make every read slower
pub(super) enum Joined<'a> {
    /// By itself, now.
    Now(Option<Alone<'a>>, Input),
    /// In a group.
    Later(oneshot::Receiver<Answer>),
}

/// A call that runs by itself.
pub(super) struct Alone<'a>(&'a Gather);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.state.lock().alone -= 1;
    }
}

/// Runs one group after the other, until no call waits.
struct GroupRunner {
    lane: Arc<Lane>,
    statement: Arc<Statement>,
    /// The generation of names of the waiting calls.
    generation: u64,
    answer_timeout: Duration,
}

impl Gather {
    /// Returns `None` if the calls of a plan cannot be combined.
    ///
    /// # Errors
    /// Like [`render::render`].
    pub(super) fn new(
        entity: &'static EntityDesc,
        plan: &Plan,
        naming: &Naming,
    ) -> Result<Option<Self>> {
        let Some(rendered) = render::gathered(entity, plan, naming)? else {
            return Ok(None);
        };
        let kinds = rendered
            .binds
            .iter()
            .map(|bind| bind.kind.clone())
            .collect();
        let number_column = if matches!(plan, Plan::Exists { .. }) {
            0
        } else {
            entity.fields.len() + ReplacedField::width(&rendered.replaced)
        };
        let state = State {
            waiting: Vec::new(),
            alone: 0,
            groups: 0,
            last_start: Instant::now(),
            start_interval: START_INTERVAL,
            is_unsupported: false,
            #[cfg(test)]
            combined: 0,
        };
        Ok(Some(Self {
            sql: Sql::new(rendered.sql),
            binds: rendered.binds,
            kinds,
            number_column,
            replaced: rendered.replaced,
            generation: naming.generation(),
            state: Mutex::new(state),
        }))
    }

    /// Lets a call run by itself while there are free connections; otherwise adds it to a group.
    pub(super) fn join(
        &self,
        lane: &Arc<Lane>,
        statement: &Arc<Statement>,
        answer_timeout: Duration,
        input: Input,
    ) -> Joined<'_> {
        let mut state = self.state.lock();
        if state.is_unsupported {
            return Joined::Now(None, input);
        }
        if state.alone + state.groups < lane.connections() {
            state.alone += 1;
            return Joined::Now(Some(Alone(self)), input);
        }
        let (answer, answered) = oneshot::channel();
        state.waiting.push(Call { input, answer });
        let now = Instant::now();
        let max_groups = if state.waiting.len() < CONCURRENT_FROM {
            1
        } else {
            lane.connections()
        };
        if state.groups < max_groups || now.duration_since(state.last_start) >= state.start_interval
        {
            state.groups += 1;
            state.last_start = now;
            let calls = state.next();
            drop(state);
            let runner = GroupRunner {
                lane: Arc::clone(lane),
                statement: Arc::clone(statement),
                generation: self.generation,
                answer_timeout,
            };
            drop(tokio::spawn(serve(runner, calls)));
        }
        Joined::Later(answered)
    }

    /// The calls of the next group. The list is empty if no call waits or too many groups run; the
    /// group task then ends.
    fn next_or_end(&self, max_groups: usize) -> Vec<Call> {
        let mut state = self.state.lock();
        let calls = if state.groups > max_groups {
            Vec::new()
        } else {
            state.next()
        };
        if calls.is_empty() {
            state.groups -= 1;
        } else {
            state.last_start = Instant::now();
        }
        calls
    }

    /// The number of calls that run by themselves, and the number of groups.
    #[cfg(test)]
    pub(super) fn under_way(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.alone, state.groups)
    }

    /// Disables the start of groups by interval.
    #[cfg(test)]
    pub(super) fn unpaced(&self) {
        self.state.lock().start_interval = Duration::MAX;
    }

    /// The number of waiting calls.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// The number of combined statements so far.
    #[cfg(test)]
    pub(super) fn combined(&self) -> usize {
        self.state.lock().combined
    }

    /// Runs the combined statement. Returns each row with the number of its call, from 1.
    async fn run_combined(
        &self,
        live: &Live,
        calls: &[Call],
    ) -> std::result::Result<Vec<(i64, tokio_postgres::Row)>, Failure> {
        let prepared = self
            .sql
            .prepared(live, &self.kinds)
            .await
            .map_err(Failure::Unsent)?;
        #[cfg(test)]
        {
            self.state.lock().combined += 1;
        }
        let args: Vec<&[Value]> = calls.iter().map(|call| &*call.input.args).collect();
        let values = bind::gathered(&self.binds, &args).map_err(Failure::Own)?;
        let rows = live
            .client
            .query_raw(&prepared, values)
            .await
            .map_err(Failure::Server)?;
        let numbered = rows.and_then(|row| {
            std::future::ready(row.try_get(self.number_column).map(|number| (number, row)))
        });
        numbered.try_collect().await.map_err(Failure::Server)
    }

    /// Answers calls with one statement. If it fails, each call runs alone, because another call
    /// may be the cause.
    async fn answer(&self, runner: &GroupRunner, mut calls: Vec<Call>) {
        let Ok(connection) = runner.lane.connection().await else {
            return calls.into_iter().for_each(Call::alone);
        };
        let live = Arc::clone(&connection.live);
        let found =
            match tokio::time::timeout(runner.answer_timeout, self.run_combined(&live, &calls))
                .await
            {
                Ok(Ok(found)) => found,
                Ok(Err(Failure::Unsent(failure) | Failure::Server(failure)))
                    if error::is_canceled(&failure) =>
                {
                    return calls
                        .into_iter()
                        .for_each(|call| call.end(Err(error::canceled())));
                }
                Ok(Err(failure)) => {
                    self.state.lock().is_unsupported |=
                        matches!(failure, Failure::Unsent(e) if error::is_unsupported(&e));
                    return calls.into_iter().for_each(Call::alone);
                }
                Err(_) => {
                    connection.abandon();
                    return calls.into_iter().for_each(|call| {
                        call.end(Err(Error::unavailable("the database does not answer")));
                    });
                }
            };
        let mut validity: Vec<Result<()>> = calls.iter().map(|_| Ok(())).collect();
        for (number, row) in &found {
            let at = usize::try_from(*number)
                .ok()
                .and_then(|number| number.checked_sub(1));
            let Some((call, validity)) =
                at.and_then(|at| Some((calls.get_mut(at)?, validity.get_mut(at)?)))
            else {
                continue;
            };
            if self.number_column == 0 {
                call.input.rows.push::<[Value]>(&[]);
            } else {
                let row = PgRow::new(row, runner.statement.entity, &self.replaced);
                call.input.rows.push(&row);
                *validity = row.validity();
            }
        }
        for (mut call, validity) in calls.into_iter().zip(validity) {
            let rows = std::mem::take(&mut call.input.rows);
            call.end(validity.map(|()| rows));
        }
    }
}

impl Call {
    fn end(self, outcome: Result<Rows>) {
        // The send fails if the caller has stopped waiting.
        drop(self.answer.send(Answer::Done(outcome)));
    }

    fn alone(self) {
        drop(self.answer.send(Answer::Alone(self.input)));
    }
}

/// Answers the calls of a group. Dropping the runner starts the next group.
async fn serve(runner: GroupRunner, calls: Vec<Call>) {
    let statement = Arc::clone(&runner.statement);
    let Some(gather) = gather_of(&statement, runner.generation) else {
        return;
    };
    if !calls.is_empty() {
        gather.answer(&runner, calls).await;
    }
}

/// The combined form of a statement for one generation of names.
fn gather_of(statement: &Statement, generation: u64) -> Option<&Gather> {
    Native::at(statement, generation)?.gather.as_ref()
}

impl Drop for GroupRunner {
    // Waiting calls are served even if a group panics.
    fn drop(&mut self) {
        let Some(gather) = gather_of(&self.statement, self.generation) else {
            return;
        };
        let calls = gather.next_or_end(self.lane.connections());
        if calls.is_empty() {
            return;
        }
        let next = Self {
            lane: Arc::clone(&self.lane),
            statement: Arc::clone(&self.statement),
            generation: self.generation,
            answer_timeout: self.answer_timeout,
        };
        // A runtime that shuts down drops the task. The waiting calls then get an error.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(serve(next, calls))),
            Err(_) => drop((calls, next)),
        }
    }
}
