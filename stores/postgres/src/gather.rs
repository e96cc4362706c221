//! Concurrent reads of one record are batched into one statement.
//!
//! The first callers run the statement themselves, as many as there are connections. Calls that
//! arrive meanwhile are answered in groups, one group after the other. If enough calls wait,
//! further groups run concurrently, up to the number of connections. One more starts when the last
//! group started some time ago, so that a slow network delays no call twice. The server's cost per
//! statement is paid once per group. Groups are separate tasks: no call waits for a caller that has
//! stopped waiting for its own answer.

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
use linchpin_sql::kept::Kept;
use linchpin_sql::names::Naming;

/// The maximum number of calls in a group.
const MOST: usize = 64;
/// The number of waiting calls that starts a concurrent group. Fewer calls wait for the end of the
/// running group, which saves the server a statement.
const ENOUGH: usize = 12;
/// The interval after which a group starts although others are running: longer than a nearby server
/// takes to answer one.
const PACE: Duration = Duration::from_micros(300);

/// The calls of a statement that can be answered together.
pub(super) struct Gather {
    sql: Sql,
    binds: Vec<Bind>,
    kinds: Vec<Type>,
    /// The column after the record's columns: the number of the call that a row answers.
    number: usize,
    /// The fields that have an earlier column as well.
    kept: Box<[Kept]>,
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
    began: Instant,
    pace: Duration,
    /// The server cannot run the combined statement: every call runs alone.
    unfit: bool,
    #[cfg(test)]
    input: usize,
}

impl State {
    /// The calls of the next group.
    fn next(&mut self) -> Vec<Call> {
        // Calls whose callers have stopped waiting are skipped.
        self.waiting.retain(|call| !call.answer.is_closed());
        let first = self.waiting.len().min(MOST);
        self.waiting.drain(..first).collect()
    }
}

/// The input of a call.
pub(super) struct Input {
    pub(super) args: Vec<Value>,
    pub(super) rows: Rows,
    /// Its permit in the limit of calls in progress.
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
    /// The statement of its group failed, perhaps because of another call: each call runs alone.
    Alone(Input),
}

/// The way in which a call runs.
#[allow(clippy::large_enum_variant)] // it is taken apart where it is made; a box would cost every read more
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
struct Turn {
    lane: Arc<Lane>,
    statement: Arc<Statement>,
    /// The generation of names of the calls that wait.
    generation: u64,
    patience: Duration,
}

impl Gather {
    /// Creates it for a plan whose calls can be answered together.
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
        let number = if matches!(plan, Plan::Exists { .. }) {
            0
        } else {
            entity.fields.len() + Kept::width(&rendered.kept)
        };
        let state = State {
            waiting: Vec::new(),
            alone: 0,
            groups: 0,
            began: Instant::now(),
            pace: PACE,
            unfit: false,
            #[cfg(test)]
            input: 0,
        };
        Ok(Some(Self {
            sql: Sql::new(rendered.sql),
            binds: rendered.binds,
            kinds,
            number,
            kept: rendered.kept,
            generation: naming.generation(),
            state: Mutex::new(state),
        }))
    }

    /// The call runs by itself while few others do, otherwise in a group.
    pub(super) fn join(
        &self,
        lane: &Arc<Lane>,
        statement: &Arc<Statement>,
        patience: Duration,
        input: Input,
    ) -> Joined<'_> {
        let mut state = self.state.lock();
        if state.unfit {
            return Joined::Now(None, input);
        }
        if state.alone + state.groups < lane.connections() {
            state.alone += 1;
            return Joined::Now(Some(Alone(self)), input);
        }
        let (answer, answered) = oneshot::channel();
        state.waiting.push(Call { input, answer });
        let now = Instant::now();
        let most = if state.waiting.len() < ENOUGH {
            1
        } else {
            lane.connections()
        };
        if state.groups < most || now.duration_since(state.began) >= state.pace {
            state.groups += 1;
            state.began = now;
            let calls = state.next();
            drop(state);
            let turn = Turn {
                lane: Arc::clone(lane),
                statement: Arc::clone(statement),
                generation: self.generation,
                patience,
            };
            drop(tokio::spawn(serve(turn, calls)));
        }
        Joined::Later(answered)
    }

    /// The calls of the next group. If no call waits, or there are enough groups, the turn ends.
    fn next_or_end(&self, most: usize) -> Vec<Call> {
        let mut state = self.state.lock();
        let calls = if state.groups > most {
            Vec::new()
        } else {
            state.next()
        };
        if calls.is_empty() {
            state.groups -= 1;
        } else {
            state.began = Instant::now();
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
        self.state.lock().pace = Duration::MAX;
    }

    /// The number of waiting calls.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// The number of groups so far.
    #[cfg(test)]
    pub(super) fn input(&self) -> usize {
        self.state.lock().input
    }

    /// Runs the combined statement; returns rows, and for each the number of its call, from 1.
    async fn ask(
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
            self.state.lock().input += 1;
        }
        let args: Vec<&[Value]> = calls.iter().map(|call| &*call.input.args).collect();
        let values = bind::gathered(&self.binds, &args).map_err(Failure::Own)?;
        let rows = live
            .client
            .query_raw(&prepared, values)
            .await
            .map_err(Failure::Server)?;
        let numbered = rows.and_then(|row| {
            std::future::ready(row.try_get(self.number).map(|number| (number, row)))
        });
        numbered.try_collect().await.map_err(Failure::Server)
    }

    /// Answers calls with one statement, or lets each run alone if that fails: another call may be
    /// the cause.
    async fn answer(&self, turn: &Turn, mut calls: Vec<Call>) {
        let Ok(place) = turn.lane.place().await else {
            return calls.into_iter().for_each(Call::alone);
        };
        let live = Arc::clone(&place.live);
        let found = match tokio::time::timeout(turn.patience, self.ask(&live, &calls)).await {
            Ok(Ok(found)) => found,
            Ok(Err(Failure::Unsent(failure) | Failure::Server(failure)))
                if error::is_ended(&failure) =>
            {
                return calls
                    .into_iter()
                    .for_each(|call| call.end(Err(error::ended())));
            }
            Ok(Err(failure)) => {
                self.state.lock().unfit |=
                    matches!(failure, Failure::Unsent(e) if error::is_unreadable(&e));
                return calls.into_iter().for_each(Call::alone);
            }
            Err(_) => {
                place.abandon();
                return calls.into_iter().for_each(|call| {
                    call.end(Err(Error::unavailable("the database does not answer")));
                });
            }
        };
        let mut sound: Vec<Result<()>> = calls.iter().map(|_| Ok(())).collect();
        for (number, row) in &found {
            let at = usize::try_from(*number)
                .ok()
                .and_then(|number| number.checked_sub(1));
            let Some((call, sound)) =
                at.and_then(|at| Some((calls.get_mut(at)?, sound.get_mut(at)?)))
            else {
                continue;
            };
            if self.number == 0 {
                call.input.rows.push::<[Value]>(&[]);
            } else {
                let row = PgRow::new(row, turn.statement.entity, &self.kept);
                call.input.rows.push(&row);
                *sound = row.sound();
            }
        }
        for (mut call, sound) in calls.into_iter().zip(sound) {
            let rows = std::mem::take(&mut call.input.rows);
            call.end(sound.map(|()| rows));
        }
    }
}

impl Call {
    fn end(self, outcome: Result<Rows>) {
        // A caller that has stopped waiting needs no answer.
        drop(self.answer.send(Answer::Done(outcome)));
    }

    fn alone(self) {
        drop(self.answer.send(Answer::Alone(self.input)));
    }
}

/// Answers calls, and calls that arrive meanwhile.
async fn serve(turn: Turn, calls: Vec<Call>) {
    let statement = Arc::clone(&turn.statement);
    let Some(gather) = of(&statement, turn.generation) else {
        return;
    };
    if !calls.is_empty() {
        gather.answer(&turn, calls).await;
    }
}

/// The calls that wait, under the names that they were rendered with.
fn of(statement: &Statement, generation: u64) -> Option<&Gather> {
    Native::at(statement, generation)?.gather.as_ref()
}

impl Drop for Turn {
    // Waiting calls are served even if a group panics.
    fn drop(&mut self) {
        let Some(gather) = of(&self.statement, self.generation) else {
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
            patience: self.patience,
        };
        // A runtime that shuts down drops the task: waiting calls get an error.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(serve(next, calls))),
            Err(_) => drop((calls, next)),
        }
    }
}
