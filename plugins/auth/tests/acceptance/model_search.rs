//! Exhaustive search of the state machine of sign-ins: it visits each state that is at most
//! [`DEPTH`] moves away from a new account, and makes every possible move in each of them, on a
//! real server. The random walks of `model_walks` are longer and have more sessions and challenges.
//!
//! The search is limited to one account with at most two sessions, its newest challenge, challenges
//! that end after two wrong answers, and two recovery codes. A [`State`] is the state of the model
//! without its secrets: models with equal states behave equally, so one of them is enough. A server
//! cannot be reset to a state. The search reaches a state by known moves, or starts again with a
//! new account. Time advances only by the moves that wait, and by one second before a token is used
//! again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::model::{Answer, CHALLENGE_SECONDS, Choose, Model, Move, WalkResult, server};
use crate::server::{Server, Store};

/// Maximum number of moves from a new account to a state.
const DEPTH: usize = 3;
const TRIES: i64 = 2;
/// Seconds for which a sign-in counts as recent.
const RECENT: i64 = 900;
/// A search never needs this many moves. More of them mean an endless loop.
const MAX_MOVES: usize = 50_000;
/// After this number of moves a new account is used, because ended sessions and tokens accumulate.
const MAX_MOVES_PER_ACCOUNT: usize = 400;

/// The choice among several sessions or challenges.
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

/// All possible moves.
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
        (Move::EndOtherSessions, Newest),
        (Move::Suspend, Newest),
        (Move::Unsuspend, Newest),
        (Move::Wait(31), Newest),
        (Move::Wait(301), Newest),
        (Move::Wait(901), Newest),
    ]
};

/// The state of the newest challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ChallengeState {
    None,
    /// The challenge allows this number of further answers.
    Pending(i64),
    /// The challenge was answered or voided.
    Ended,
    /// Passwords or factors have changed since.
    Outdated,
    Expired,
    NoAttemptsLeft,
}

/// A state of the model without its secrets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    suspended: bool,
    enrolled: bool,
    /// Whether the current code of the authenticator app is unused.
    code_unused: bool,
    device: bool,
    /// The sessions, the oldest first: whether each is recent, was refreshed, and has proved an
    /// existing factor.
    sessions: Vec<(bool, bool, bool)>,
    challenge: ChallengeState,
    unused: usize,
    used: bool,
}

impl State {
    fn of(model: &Model, now: i64) -> Self {
        let enrolled = model.secret.is_some();
        let challenge = match model.challenges.last() {
            None => ChallengeState::None,
            Some(one) if one.ended => ChallengeState::Ended,
            Some(one) if one.epoch != model.epoch => ChallengeState::Outdated,
            Some(one) if now - one.since >= CHALLENGE_SECONDS => ChallengeState::Expired,
            Some(one) if one.attempts_left <= 0 => ChallengeState::NoAttemptsLeft,
            Some(one) => ChallengeState::Pending(one.attempts_left),
        };
        Self {
            suspended: model.suspended,
            enrolled,
            code_unused: enrolled && now.div_euclid(30) > model.last_step,
            device: model.device.is_some(),
            sessions: model
                .sessions
                .iter()
                .map(|session| {
                    let proved = enrolled && session.proved == Some(model.factors);
                    (
                        now - session.since <= RECENT,
                        session.previous_refresh.is_some(),
                        proved,
                    )
                })
                .collect(),
            challenge,
            unused: model.unused.len(),
            used: !model.used.is_empty(),
        }
    }

    /// Whether a move is part of the search: it has an effect and opens no third session.
    fn includes(&self, (step, end): (Move, End)) -> bool {
        let room = self.sessions.len() < 2;
        let several = end == End::Newest || self.sessions.len() == 2;
        let is_pending = matches!(self.challenge, ChallengeState::Pending(_));
        match step {
            Move::Login { right, on_device } => {
                (!on_device || self.device) && (!right || self.suspended || self.enrolled || room)
            }
            Move::Verify(Answer::Right) => {
                self.enrolled
                    && self.challenge != ChallengeState::None
                    && (room || !is_pending || !self.code_unused)
            }
            Move::Verify(Answer::Wrong) => self.enrolled && self.challenge != ChallengeState::None,
            Move::Verify(Answer::Recovery) => {
                self.unused > 0 && self.challenge != ChallengeState::None && (room || !is_pending)
            }
            Move::Verify(Answer::UsedRecovery) => {
                self.used && self.challenge != ChallengeState::None
            }
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
            Move::EndOtherSessions => self.sessions.len() == 2,
            Move::Suspend => !self.suspended,
            Move::Unsuspend => self.suspended,
            Move::Wait(31) => self.enrolled && !self.code_unused,
            Move::Wait(301) => is_pending,
            Move::Wait(_) => self.sessions.iter().any(|(recent, ..)| *recent),
        }
    }

    fn moves(&self) -> BTreeSet<usize> {
        (0..MOVES.len())
            .filter(|at| self.includes(MOVES[*at]))
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
    /// The moves that are not explored yet.
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

    /// The number of known moves from one state to each state.
    fn distances(&self, from: usize) -> Vec<usize> {
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
    fn unexplored(&self, max_depth: usize) -> Vec<usize> {
        let depth = self.distances(0);
        (0..self.states.len())
            .filter(|at| depth[*at] <= max_depth && !self.open[*at].is_empty())
            .collect()
    }

    /// The next move on the shortest path to a state with unexplored moves; `None` without such a
    /// state.
    fn next(&self, here: usize, unexplored: &[usize]) -> Option<usize> {
        if unexplored.contains(&here) {
            return self.open[here].first().copied();
        }
        // The search runs backwards, from those states to `here`.
        let mut back = vec![Vec::new(); self.states.len()];
        for (from, taken) in self.taken.iter().enumerate() {
            for (step, to) in taken {
                back[*to].push((from, *step));
            }
        }
        let mut seen: BTreeSet<usize> = unexplored.iter().copied().collect();
        let mut queue: VecDeque<usize> = unexplored.iter().copied().collect();
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
struct Summary {
    states: usize,
    moves: usize,
    /// Number of moves that were made, including those that only lead to a state.
    walked: usize,
}

/// Visits every state; returns the first difference from the model with the moves that led to it.
async fn search(app: &Server, max_depth: usize) -> Result<Summary, String> {
    let mut map = Map::default();
    let (mut accounts, mut total) = (0, 0);
    loop {
        let mut model = Model::of(app, format!("searcher-{accounts}@x.test"), TRIES).await;
        accounts += 1;
        let mut here = map.number(State::of(&model, app.now_seconds()));
        assert_eq!(
            here, 0,
            "a new account differs from the first one: {:?}",
            map.states[here]
        );
        let mut path = Vec::new();
        loop {
            let unexplored = map.unexplored(max_depth);
            if unexplored.is_empty() {
                return Ok(Summary {
                    states: map.states.len(),
                    moves: map.taken.iter().map(BTreeMap::len).sum(),
                    walked: total,
                });
            }
            let Some(step) = map
                .next(here, &unexplored)
                .filter(|_| path.len() < MAX_MOVES_PER_ACCOUNT)
            else {
                break;
            };
            path.push(MOVES[step]);
            total += 1;
            assert!(
                total < MAX_MOVES,
                "the search does not end: {:?}",
                map.unexplored(max_depth)
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
                "no known moves lead to {:?}",
                map.unexplored(max_depth)
                    .iter()
                    .map(|at| &map.states[*at])
                    .collect::<Vec<_>>()
            ));
        }
    }
}

async fn walk(app: &Server, model: &mut Model, (step, mut end): (Move, End)) -> WalkResult {
    let ended_before = model.ended_tokens.len();
    if matches!(step, Move::Refresh { again: true }) {
        // If a token is used again at the instant of its rotation, it counts as a repetition, not
        // as reuse.
        app.advance(1).await;
    }
    model.take(app, &mut end, step).await?;
    let older = model.challenges.len().saturating_sub(1);
    model.challenges.drain(..older);
    // Checks the tokens that this move invalidated, and the last token that was invalidated before
    // this move.
    model
        .check_tokens(app, model.ended_tokens.len() - ended_before + 1)
        .await
}

/// A server with the limits of this search.
async fn limited_server(change: impl FnOnce(&mut linchpin_auth::AuthConfig)) -> Server {
    let settings = |config: &mut linchpin_auth::AuthConfig| {
        config.auth.mfa.max_attempts = TRIES.unsigned_abs();
        config.auth.mfa.recovery_codes = 2;
        change(config);
    };
    server(&Store::memory(), settings).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_holds_in_every_reachable_state() {
    let app = limited_server(|_| {}).await;
    let summary = search(&app, DEPTH)
        .await
        .unwrap_or_else(|what| panic!("{what}"));
    println!(
        "{} states, {} moves, {} walked",
        summary.states, summary.moves, summary.walked
    );
    assert!(
        summary.states > 60 && summary.moves > 300,
        "{} states and {} moves only",
        summary.states,
        summary.moves
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_with_known_mistakes_are_noticed() {
    let trusting = limited_server(|config| config.auth.mfa.trust_device_seconds = 3600).await;
    let what = search(&trusting, DEPTH + 1)
        .await
        .err()
        .expect("no difference was found, although the server trusts devices");
    assert!(
        what.contains("invariant: a session without the second factor"),
        "{what}"
    );
    let patient = limited_server(|config| config.auth.mfa.challenge_seconds = 900).await;
    let what = search(&patient, DEPTH + 1)
        .await
        .err()
        .expect("no difference was found, although challenges last longer");
    assert!(
        what.contains("invariant: a session of an ended challenge")
            || what.contains("an ended challenge"),
        "{what}"
    );
    let lenient = limited_server(|config| config.auth.mfa.max_attempts = 3).await;
    let what = search(&lenient, DEPTH + 1)
        .await
        .err()
        .expect("no difference was found, although challenges allow more wrong answers");
    assert!(what.contains("an ended challenge"), "{what}");
}
