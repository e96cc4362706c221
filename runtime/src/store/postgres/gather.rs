//! Reads of one record that many ask for at a time: together, in one statement.
//!
//! The first callers run the statement at once, as many as there are connections. Those that come meanwhile wait, and whoever is
//! through has all of them answered by one statement, which finds a row for each call. So nobody waits while nothing is under way, and
//! what a statement costs beside its row is paid once for all that would have waited behind each other anyway.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_postgres::types::Type;

use super::lane::{Lane, Live};
use super::native::{Native, Sql};
use super::render::{self, Bind};
use super::row::PgRow;
use super::run::Failure;
use super::{bind, error};
use crate::entity::EntityDesc;
use crate::store::{Plan, Rows, Statement};
use crate::{Error, Result, Value};

/// Most calls that one statement answers.
const MOST: usize = 64;

/// The calls of a statement that can be answered together.
pub(super) struct Gather {
    sql: Sql,
    binds: Vec<Bind>,
    kinds: Vec<Type>,
    /// The column behind the record's: which call a row answers.
    number: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Call>,
    under_way: usize,
    /// The server cannot read the statement: every call is for itself.
    unfit: bool,
    #[cfg(test)]
    asked: usize,
}

impl State {
    fn next(&mut self) -> Vec<Call> {
        // Whoever has left is not asked for.
        self.waiting.retain(|call| !call.answer.is_closed());
        let first = self.waiting.len().min(MOST);
        self.waiting.drain(..first).collect()
    }
}

/// A call that waits.
struct Call {
    args: Vec<Value>,
    rows: Rows,
    answer: oneshot::Sender<Answer>,
}

/// What becomes of a call that has waited.
pub(super) enum Answer {
    Done(Result<Rows>),
    /// The statement for all of them failed, perhaps on account of another call: each is for itself.
    Alone(Vec<Value>, Rows),
}

/// How a call goes on.
pub(super) enum Joined {
    /// By itself, now; the turn is held until it is through.
    Now(Option<Turn>, Vec<Value>, Rows),
    /// With others, as soon as somebody is through.
    Later(oneshot::Receiver<Answer>),
}

/// One of the places of a statement; whoever gives it up has those answered that wait.
pub(super) struct Turn {
    lane: Arc<Lane>,
    statement: Arc<Statement>,
    patience: Duration,
}

impl Gather {
    /// For a plan whose calls can be answered together.
    ///
    /// # Errors
    /// As for [`render::render`].
    pub(super) fn new(entity: &'static EntityDesc, plan: &Plan) -> Result<Option<Self>> {
        let Some(rendered) = render::gathered(entity, plan)? else { return Ok(None) };
        let kinds = rendered.binds.iter().map(|bind| bind.kind.clone()).collect();
        let number = if matches!(plan, Plan::Exists { .. }) { 0 } else { entity.fields.len() };
        Ok(Some(Self { sql: Sql::new(rendered.sql), binds: rendered.binds, kinds, number, state: Mutex::default() }))
    }

    /// Takes a turn, or a place among those that wait for one.
    pub(super) fn join(&self, lane: &Arc<Lane>, statement: &Arc<Statement>, patience: Duration, args: Vec<Value>, rows: Rows) -> Joined {
        let mut state = self.state.lock();
        if state.unfit {
            return Joined::Now(None, args, rows);
        }
        if state.under_way < lane.connections() {
            state.under_way += 1;
            let turn = Turn { lane: Arc::clone(lane), statement: Arc::clone(statement), patience };
            return Joined::Now(Some(turn), args, rows);
        }
        let (answer, answered) = oneshot::channel();
        state.waiting.push(Call { args, rows, answer });
        Joined::Later(answered)
    }

    /// The calls that are answered next.
    fn next(&self) -> Vec<Call> {
        self.state.lock().next()
    }

    /// The same; when there are none, a turn has ended.
    fn next_or_end(&self) -> Vec<Call> {
        let mut state = self.state.lock();
        let calls = state.next();
        if calls.is_empty() {
            state.under_way -= 1;
        }
        calls
    }

    /// How many calls run the statement.
    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        self.state.lock().under_way
    }

    /// How many calls wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// How many statements have answered several.
    #[cfg(test)]
    pub(super) fn asked(&self) -> usize {
        self.state.lock().asked
    }

    /// Asks for all calls at once; rows, and the call that each answers, from 1.
    async fn ask(&self, live: &Live, calls: &[Call]) -> std::result::Result<Vec<(i64, tokio_postgres::Row)>, Failure> {
        let prepared = self.sql.prepared(live, &self.kinds).await.map_err(Failure::Unsent)?;
        #[cfg(test)]
        {
            self.state.lock().asked += 1;
        }
        let args: Vec<&[Value]> = calls.iter().map(|call| &*call.args).collect();
        let values = bind::gathered(&self.binds, &args).map_err(Failure::Own)?;
        let rows = live.client.query_raw(&prepared, values).await.map_err(Failure::Server)?;
        let numbered = rows.and_then(|row| std::future::ready(row.try_get(self.number).map(|number| (number, row))));
        numbered.try_collect().await.map_err(Failure::Server)
    }

    /// Answers calls by one statement, or leaves each to itself when that fails: another call may be the cause.
    async fn answer(&self, turn: &Turn, mut calls: Vec<Call>) {
        let Ok(place) = turn.lane.place().await else { return calls.into_iter().for_each(Call::alone) };
        let live = Arc::clone(&place.live);
        let found = match tokio::time::timeout(turn.patience, self.ask(&live, &calls)).await {
            Ok(Ok(found)) => found,
            Ok(Err(Failure::Server(failure))) if error::is_ended(&failure) => {
                return calls.into_iter().for_each(|call| call.end(Err(error::ended())));
            }
            Ok(Err(failure)) => {
                self.state.lock().unfit |= matches!(failure, Failure::Unsent(e) if error::is_unreadable(&e));
                return calls.into_iter().for_each(Call::alone);
            }
            Err(_) => {
                place.abandon();
                return calls.into_iter().for_each(|call| call.end(Err(Error::unavailable("the database does not answer"))));
            }
        };
        let mut sound: Vec<Result<()>> = calls.iter().map(|_| Ok(())).collect();
        for (number, row) in &found {
            let at = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
            let Some((call, sound)) = at.and_then(|at| Some((calls.get_mut(at)?, sound.get_mut(at)?))) else { continue };
            if self.number == 0 {
                call.rows.push::<[Value]>(&[]);
            } else {
                let row = PgRow::new(row, turn.statement.entity);
                call.rows.push(&row);
                *sound = row.sound();
            }
        }
        for (mut call, sound) in calls.into_iter().zip(sound) {
            let rows = std::mem::take(&mut call.rows);
            call.end(sound.map(|()| rows));
        }
    }
}

impl Call {
    fn end(self, outcome: Result<Rows>) {
        // Whoever has left needs no answer.
        drop(self.answer.send(Answer::Done(outcome)));
    }

    fn alone(self) {
        drop(self.answer.send(Answer::Alone(self.args, self.rows)));
    }
}

/// Answers calls, and those that wait meanwhile.
async fn serve(turn: Turn, mut calls: Vec<Call>) {
    let statement = Arc::clone(&turn.statement);
    let Some(gather) = of(&statement) else { return };
    while !calls.is_empty() {
        gather.answer(&turn, calls).await;
        calls = gather.next();
    }
}

fn of(statement: &Statement) -> Option<&Gather> {
    Native::of(statement).ok()?.gather.as_ref()
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(gather) = of(&self.statement) else { return };
        let calls = gather.next_or_end();
        if calls.is_empty() {
            return;
        }
        let next = Self { lane: Arc::clone(&self.lane), statement: Arc::clone(&self.statement), patience: self.patience };
        // A runtime that shuts down drops what it is given: those who wait hear that nobody answers.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(serve(next, calls))),
            Err(_) => drop((calls, next)),
        }
    }
}
