//! The state machine of sign-ins, everywhere: each state of a small world that is reached by at
//! most [`DEPTH`] moves, and from each of them every move there is, on a real server. Walks by
//! chance (`model_walks`) go deeper, and through worlds that are larger.
//!
//! The world is one account with at most two sessions, the newest challenge, challenges that
//! survive one wrong answer, and two recovery codes. A state is what the model says of it without
//! its secrets ([`State`]); what two of its shapes have in common, they have in common with
//! whatever is reached from there, so that one of them stands for all. A server cannot be put back
//! into a state: it is walked there, along moves that are known to lead there. Time passes by the
//! moves that wait, and by a second where a token is used again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::model::{Answer, CHALLENGE, Choose, Model, Move, Walked, server};
use crate::server::{Server, Store};

/// How many moves the states are away from signing up.
const DEPTH: usize = 3;
const TRIES: i64 = 2;
/// How long a sign-in counts as recent.
const RECENT: i64 = 900;
/// More moves than a search takes.
const ENOUGH: usize = 50_000;
/// After this number of moves a new account is used, because ended sessions and tokens accumulate.
const LONG: usize = 400;

/// Which one is meant, where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Newest,
    Oldest,
}

impl Choose for End {
    fn below(&mut self, n: usize) -> usize {
        match self {
            Self::Newest => n - 1,
            Self::Oldest => 0,
        }
    }
}

/// Every move there is.
const MOVES: [(Move, End); 24] = {
    use Answer::{Recovery, Right, UsedRecovery, Wrong};
    use End::{Newest, Oldest};
    [
        (
            Move::Login {
                right: true,
                on_device: false,
            },
            Newest,
        ),
        (
            Move::Login {
                right: true,
                on_device: true,
            },
            Newest,
        ),
        (
            Move::Login {
                right: false,
                on_device: false,
            },
            Newest,
        ),
        (Move::Verify(Right), Newest),
        (Move::Verify(Wrong), Newest),
        (Move::Verify(Recovery), Newest),
        (Move::Verify(UsedRecovery), Newest),
        (Move::Enrol, Newest),
        (Move::Enrol, Oldest),
        (Move::Remove, Newest),
        (Move::SetPassword, Newest),
        (Move::SetPassword, Oldest),
        (Move::StepUp, Newest),
        (Move::StepUp, Oldest),
        (Move::Refresh { again: false }, Newest),
        (Move::Refresh { again: true }, Newest),
        (Move::Logout, Newest),
        (Move::Logout, Oldest),
        (Move::LeaveOthers, Newest),
        (Move::Suspend, Newest),
        (Move::Unsuspend, Newest),
        (Move::Wait(31), Newest),
        (Move::Wait(301), Newest),
        (Move::Wait(901), Newest),
    ]
};

/// The state of the newest challenge after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waiting {
    None,
    /// Wait for a number of responses.
    For(i64),
    /// It was answered, or voided.
    Over,
    /// Passwords or factors have changed since.
    Outdated,
    Expired,
    Spent,
}

/// A state of the world.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    suspended: bool,
    enrolled: bool,
    /// Whether a code of the present instant is new.
    code: bool,
    device: bool,
    /// The sessions, the oldest first: whether each is recent, was refreshed, and has proved an
    /// existing factor.
    sessions: Vec<(bool, bool, bool)>,
    waiting: Waiting,
    unused: usize,
    used: bool,
}

impl State {
    fn of(model: &Model, now: i64) -> Self {
        let enrolled = model.secret.is_some();
        let waiting = match model.challenges.last() {
            None => Waiting::None,
            Some(one) if one.over => Waiting::Over,
            Some(one) if one.epoch != model.epoch => Waiting::Outdated,
            Some(one) if now - one.since >= CHALLENGE => Waiting::Expired,
            Some(one) if one.left <= 0 => Waiting::Spent,
            Some(one) => Waiting::For(one.left),
        };
        Self {
            suspended: model.suspended,
            enrolled,
            code: enrolled && now.div_euclid(30) > model.last_step,
            device: model.device.is_some(),
            sessions: model
                .sessions
                .iter()
                .map(|session| {
                    let proved = enrolled && session.proved == Some(model.factors);
                    (
                        now - session.since <= RECENT,
                        session.earlier.is_some(),
                        proved,
                    )
                })
                .collect(),
            waiting,
            unused: model.unused.len(),
            used: !model.used.is_empty(),
        }
    }

    /// Whether a move belongs to the world: it does something, and leaves no third session.
    fn takes(&self, (step, end): (Move, End)) -> bool {
        let room = self.sessions.len() < 2;
        let several = end == End::Newest || self.sessions.len() == 2;
        let waits = matches!(self.waiting, Waiting::For(_));
        match step {
            Move::Login { right, on_device } => {
                (!on_device || self.device) && (!right || self.suspended || self.enrolled || room)
            }
            Move::Verify(Answer::Right) => {
                self.enrolled && self.waiting != Waiting::None && (room || !waits || !self.code)
            }
            Move::Verify(Answer::Wrong) => self.enrolled && self.waiting != Waiting::None,
            Move::Verify(Answer::Recovery) => {
                self.unused > 0 && self.waiting != Waiting::None && (room || !waits)
            }
            Move::Verify(Answer::UsedRecovery) => self.used && self.waiting != Waiting::None,
            Move::Remove => self.enrolled && !self.sessions.is_empty(),
            Move::Refresh { again: true } => self
                .sessions
                .last()
                .is_some_and(|(_, refreshed, _)| *refreshed),
            Move::Enrol
            | Move::SetPassword
            | Move::StepUp
            | Move::Refresh { .. }
            | Move::Logout => !self.sessions.is_empty() && several,
            Move::LeaveOthers => self.sessions.len() == 2,
            Move::Suspend => !self.suspended,
            Move::Unsuspend => self.suspended,
            Move::Wait(31) => self.enrolled && !self.code,
            Move::Wait(301) => waits,
            Move::Wait(_) => self.sessions.iter().any(|(recent, ..)| *recent),
        }
    }

    fn moves(&self) -> BTreeSet<usize> {
        (0..MOVES.len())
            .filter(|at| self.takes(MOVES[*at]))
            .collect()
    }
}

/// The explored states.
#[derive(Default)]
struct Map {
    states: Vec<State>,
    numbers: BTreeMap<State, usize>,
    /// The next state of each explored move.
    taken: Vec<BTreeMap<usize, usize>>,
    /// Those that were not.
    open: Vec<BTreeSet<usize>>,
}

impl Map {
    fn number(&mut self, state: State) -> usize {
        if let Some(known) = self.numbers.get(&state) {
            return *known;
        }
        let number = self.states.len();
        self.open.push(state.moves());
        self.taken.push(BTreeMap::new());
        self.states.push(state.clone());
        self.numbers.insert(state, number);
        number
    }

    fn take(&mut self, from: usize, step: usize, to: usize) {
        self.open[from].remove(&step);
        self.taken[from].insert(step, to);
    }

    /// How many moves each state is away from one, by those that are known.
    fn away(&self, from: usize) -> Vec<usize> {
        let mut out = vec![usize::MAX; self.states.len()];
        out[from] = 0;
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for to in self.taken[at].values() {
                if out[*to] == usize::MAX {
                    out[*to] = out[at] + 1;
                    queue.push_back(*to);
                }
            }
        }
        out
    }

    /// States with unexplored moves, below the maximum depth.
    fn waiting(&self, deep: usize) -> Vec<usize> {
        let depth = self.away(0);
        (0..self.states.len())
            .filter(|at| depth[*at] <= deep && !self.open[*at].is_empty())
            .collect()
    }

    /// The next move on the shortest path to a state with unvisited moves; `None` if there is none.
    fn next(&self, here: usize, waiting: &[usize]) -> Option<usize> {
        if waiting.contains(&here) {
            return self.open[here].first().copied();
        }
        // From there to here, against the direction of the moves.
        let mut back = vec![Vec::new(); self.states.len()];
        for (from, taken) in self.taken.iter().enumerate() {
            for (step, to) in taken {
                back[*to].push((from, *step));
            }
        }
        let mut seen: BTreeSet<usize> = waiting.iter().copied().collect();
        let mut queue: VecDeque<usize> = waiting.iter().copied().collect();
        while let Some(at) = queue.pop_front() {
            for (from, step) in &back[at] {
                if *from == here {
                    return Some(*step);
                }
                if seen.insert(*from) {
                    queue.push_back(*from);
                }
            }
        }
        None
    }
}

/// The result of a search.
struct Seen {
    states: usize,
    moves: usize,
    /// Moves that were walked, those that only led somewhere with them.
    walked: usize,
}

/// Visits every state; returns the first difference from the model with the moves that led to it.
async fn search(app: &Server, deep: usize) -> Result<Seen, String> {
    let mut map = Map::default();
    let (mut accounts, mut total) = (0, 0);
    loop {
        let mut model = Model::of(app, format!("searcher-{accounts}@x.test"), TRIES).await;
        accounts += 1;
        let mut here = map.number(State::of(&model, app.now_seconds()));
        assert_eq!(
            here, 0,
            "an account is not as the first one was: {:?}",
            map.states[here]
        );
        let mut path = Vec::new();
        loop {
            let waiting = map.waiting(deep);
            if waiting.is_empty() {
                return Ok(Seen {
                    states: map.states.len(),
                    moves: map.taken.iter().map(BTreeMap::len).sum(),
                    walked: total,
                });
            }
            let Some(step) = map.next(here, &waiting).filter(|_| path.len() < LONG) else {
                break;
            };
            path.push(MOVES[step]);
            total += 1;
            assert!(
                total < ENOUGH,
                "it goes round in circles: {:?}",
                map.waiting(deep)
                    .iter()
                    .map(|at| &map.states[*at])
                    .collect::<Vec<_>>()
            );
            let walked = walk(app, &mut model, MOVES[step]).await;
            walked.map_err(|what| format!("{what} after {path:?}"))?;
            let to = map.number(State::of(&model, app.now_seconds()));
            map.take(here, step, to);
            here = to;
        }
        if path.is_empty() {
            return Err(format!(
                "there is no way to {:?}",
                map.waiting(deep)
                    .iter()
                    .map(|at| &map.states[*at])
                    .collect::<Vec<_>>()
            ));
        }
    }
}

async fn walk(app: &Server, model: &mut Model, (step, mut end): (Move, End)) -> Walked {
    let dead = model.dead.len();
    if matches!(step, Move::Refresh { again: true }) {
        // A token that comes back within the instant of its successor is a repetition, and no
        // reuse.
        app.advance(1).await;
    }
    model.take(app, &mut end, step).await?;
    let over = model.challenges.len().saturating_sub(1);
    model.challenges.drain(..over);
    // Whatever has just ended, and what ended before it.
    model.held(app, model.dead.len() - dead + 1).await
}

/// A server that is the small world.
async fn small(change: impl FnOnce(&mut linchpin_auth::AuthConfig)) -> Server {
    let settings = |config: &mut linchpin_auth::AuthConfig| {
        config.auth.mfa.max_attempts = TRIES.unsigned_abs();
        config.auth.mfa.recovery_codes = 2;
        change(config);
    };
    server(&Store::memory(), settings).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_state_and_move() {
    let app = small(|_| {}).await;
    let seen = search(&app, DEPTH)
        .await
        .unwrap_or_else(|what| panic!("{what}"));
    println!(
        "{} states, {} moves, {} walked",
        seen.states, seen.moves, seen.walked
    );
    assert!(
        seen.states > 60 && seen.moves > 300,
        "{} states and {} moves only",
        seen.states,
        seen.moves
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_servers_are_noticed() {
    let trusting = small(|config| config.auth.mfa.trust_device_seconds = 3600).await;
    let what = search(&trusting, DEPTH + 1)
        .await
        .err()
        .expect("it trusts devices");
    assert!(
        what.contains("invariant: a session without the second factor"),
        "{what}"
    );
    let patient = small(|config| config.auth.mfa.challenge_seconds = 900).await;
    let what = search(&patient, DEPTH + 1)
        .await
        .err()
        .expect("its challenges last");
    assert!(
        what.contains("invariant: a session of a dead challenge")
            || what.contains("a dead challenge"),
        "{what}"
    );
    let lenient = small(|config| config.auth.mfa.max_attempts = 3).await;
    let what = search(&lenient, DEPTH + 1)
        .await
        .err()
        .expect("its challenges survive more wrong answers");
    assert!(what.contains("a dead challenge"), "{what}");
}
