//! Reads of one record that many ask for at a time: together, in one statement.
//!
//! The first callers run the statement themselves, as many as there are connections. Those that
//! come meanwhile are answered together: one group after the other, beside it as many as there are
//! connections when enough wait, and one more whenever the last has begun a moment ago, so that a
//! long way to the server costs nobody a second one. What a statement costs the server beside its
//! row is paid once for a group. Groups are tasks of their own: nobody waits for a caller that has
//! stopped asking for its answer.

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

/// Most calls of a group.
const MOST: usize = 64;
/// So many are worth a group beside one that is under way: fewer wait for its end, and cost the
/// server one statement less.
const ENOUGH: usize = 12;
/// After which time a group begins though others are under way: longer than it takes a server at
/// hand to answer one.
const PACE: Duration = Duration::from_micros(300);

/// The calls of a statement that can be answered together.
pub(super) struct Gather {
    sql: Sql,
    binds: Vec<Bind>,
    kinds: Vec<Type>,
    /// The column behind the record's: which call a row answers.
    number: usize,
    state: Mutex<State>,
}

struct State {
    waiting: Vec<Call>,
    /// Calls that run by themselves.
    alone: usize,
    groups: usize,
    /// When the last group began.
    began: Instant,
    pace: Duration,
    /// The server cannot read the statement: every call is for itself.
    unfit: bool,
    #[cfg(test)]
    asked: usize,
}

impl State {
    /// The calls that are answered next.
    fn next(&mut self) -> Vec<Call> {
        // Whoever has left is not asked for.
        self.waiting.retain(|call| !call.answer.is_closed());
        let first = self.waiting.len().min(MOST);
        self.waiting.drain(..first).collect()
    }
}

/// What a call brings along.
pub(super) struct Asked {
    pub(super) args: Vec<Value>,
    pub(super) rows: Rows,
    /// Its place among what is under way.
    pub(super) admitted: OwnedSemaphorePermit,
}

/// A call that waits.
struct Call {
    asked: Asked,
    answer: oneshot::Sender<Answer>,
}

/// What becomes of a call that has waited.
pub(super) enum Answer {
    Done(Result<Rows>),
    /// The statement of its group failed, perhaps on account of another call: each is for itself.
    Alone(Asked),
}

/// How a call goes on.
#[allow(clippy::large_enum_variant)] // it is taken apart where it is made; a box would cost every read more
pub(super) enum Joined<'a> {
    /// By itself, now.
    Now(Option<Alone<'a>>, Asked),
    /// With others.
    Later(oneshot::Receiver<Answer>),
}

/// A call that runs by itself.
pub(super) struct Alone<'a>(&'a Gather);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.state.lock().alone -= 1;
    }
}

/// A group after the other, until nobody waits.
struct Turn {
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
        let Some(rendered) = render::gathered(entity, plan)? else {
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
            entity.fields.len()
        };
        let state = State {
            waiting: Vec::new(),
            alone: 0,
            groups: 0,
            began: Instant::now(),
            pace: PACE,
            unfit: false,
            #[cfg(test)]
            asked: 0,
        };
        Ok(Some(Self {
            sql: Sql::new(rendered.sql),
            binds: rendered.binds,
            kinds,
            number,
            state: Mutex::new(state),
        }))
    }

    /// Runs by itself while few do; otherwise with others.
    pub(super) fn join(
        &self,
        lane: &Arc<Lane>,
        statement: &Arc<Statement>,
        patience: Duration,
        asked: Asked,
    ) -> Joined<'_> {
        let mut state = self.state.lock();
        if state.unfit {
            return Joined::Now(None, asked);
        }
        if state.alone + state.groups < lane.connections() {
            state.alone += 1;
            return Joined::Now(Some(Alone(self)), asked);
        }
        let (answer, answered) = oneshot::channel();
        state.waiting.push(Call { asked, answer });
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
                patience,
            };
            drop(tokio::spawn(serve(turn, calls)));
        }
        Joined::Later(answered)
    }

    /// The calls of the next group; when there are none, or groups enough, one has ended.
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

    /// How many calls run by themselves, and how many groups.
    #[cfg(test)]
    pub(super) fn under_way(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.alone, state.groups)
    }

    /// No group begins beside as many as there are connections.
    #[cfg(test)]
    pub(super) fn unpaced(&self) {
        self.state.lock().pace = Duration::MAX;
    }

    /// How many calls wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// How many groups have been asked for.
    #[cfg(test)]
    pub(super) fn asked(&self) -> usize {
        self.state.lock().asked
    }

    /// Asks for all calls at once; rows, and the call that each answers, from 1.
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
            self.state.lock().asked += 1;
        }
        let args: Vec<&[Value]> = calls.iter().map(|call| &*call.asked.args).collect();
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

    /// Answers calls by one statement, or leaves each to itself when that fails: another call may
    /// be the cause.
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
                call.asked.rows.push::<[Value]>(&[]);
            } else {
                let row = PgRow::new(row, turn.statement.entity);
                call.asked.rows.push(&row);
                *sound = row.sound();
            }
        }
        for (mut call, sound) in calls.into_iter().zip(sound) {
            let rows = std::mem::take(&mut call.asked.rows);
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
        drop(self.answer.send(Answer::Alone(self.asked)));
    }
}

/// Answers calls, and those that wait meanwhile.
async fn serve(turn: Turn, calls: Vec<Call>) {
    let statement = Arc::clone(&turn.statement);
    let Some(gather) = of(&statement) else { return };
    if !calls.is_empty() {
        gather.answer(&turn, calls).await;
    }
}

fn of(statement: &Statement) -> Option<&Gather> {
    Native::of(statement).ok()?.gather.as_ref()
}

impl Drop for Turn {
    // However a group has ended, those who wait are not left alone.
    fn drop(&mut self) {
        let Some(gather) = of(&self.statement) else {
            return;
        };
        let calls = gather.next_or_end(self.lane.connections());
        if calls.is_empty() {
            return;
        }
        let next = Self {
            lane: Arc::clone(&self.lane),
            statement: Arc::clone(&self.statement),
            patience: self.patience,
        };
        // A runtime that shuts down drops what it is given: those who wait hear that nobody
        // answers.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(serve(next, calls))),
            Err(_) => drop((calls, next)),
        }
    }
}
