//! Random walks through the state machine of sign-ins; each response is compared with the model.
//! Walks on servers with known mistakes show that the comparison notices them.
//!
//! The seeds are 1, 2, 3 and so on, and a failure names its seed. `LINCHPIN_WALKS=500` sets the
//! number of walks.

use crate::cases;
use crate::model::{Answer, Choose, Model, Move, TRIES, WalkResult, server};
use crate::server::{Server, Store};

cases! {
    every_store: random_walks_match_the_model;
    one_store:
        a_server_that_trusts_devices_is_noticed, a_server_whose_challenges_last_is_noticed,
        a_server_without_second_factors_is_noticed;
}

/// Reproducible pseudo-random numbers.
struct Dice(u64);

impl Choose for Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).unwrap()
    }
}

impl Dice {
    fn step(&mut self) -> Move {
        match self.below(26) {
            0..=6 => Move::Login {
                right: self.below(5) > 0,
                on_device: self.below(2) == 0,
            },
            7..=13 => Move::Verify(
                [
                    Answer::Right,
                    Answer::Wrong,
                    Answer::Wrong,
                    Answer::Recovery,
                    Answer::UsedRecovery,
                ][self.below(5)],
            ),
            14..=15 => Move::Enrol,
            16 => Move::Remove,
            17 => Move::SetPassword,
            18 => Move::StepUp,
            19..=20 => Move::Refresh {
                again: self.below(3) == 0,
            },
            21 => Move::Logout,
            22 => Move::EndOtherSessions,
            23 => Move::Suspend,
            24 => Move::Unsuspend,
            _ => Move::Wait([31, 31, 301][self.below(3)]),
        }
    }
}

/// Makes a random walk with a seed. The error is the first difference from the model, with the
/// moves that led to it.
async fn walk(app: &Server, seed: u64, length: usize) -> WalkResult {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut model = Model::of(app, format!("walker-{seed}@x.test"), TRIES).await;
    let mut taken = Vec::new();
    for _ in 0..length {
        // Half of the walks start with the set-up of a factor.
        let step = if taken.is_empty() && seed.is_multiple_of(2) {
            Move::Enrol
        } else {
            dice.step()
        };
        taken.push(step);
        // Two records of one instant would have a random order.
        app.advance(1).await;
        let walked = match model.take(app, &mut dice, step).await {
            Ok(()) if taken.len().is_multiple_of(5) => model.check_tokens(app, usize::MAX).await,
            done => done,
        };
        walked.map_err(|what| format!("seed {seed}: {what} after {taken:?}"))?;
    }
    model
        .check_tokens(app, usize::MAX)
        .await
        .map_err(|what| format!("seed {seed}: {what} at the end of {taken:?}"))
}

async fn random_walks_match_the_model(store: Store) {
    let app = server(&store, |_| {}).await;
    let usual = if store.keeps() { 8 } else { 20 };
    let count = std::env::var("LINCHPIN_WALKS").map_or(usual, |text| {
        text.parse().expect("LINCHPIN_WALKS must be a number")
    });
    for seed in 1..=count {
        if let Err(what) = walk(&app, seed, 40).await {
            panic!("{what}");
        }
    }
}

/// Checks that at least one of 60 walks reports the mistake of a server, with this reason.
async fn check_mistake_is_noticed(app: &Server, reason: &str) {
    let mut found = Vec::new();
    for seed in 1..=60 {
        match walk(app, seed, 60).await {
            Ok(()) => {}
            Err(what) if what.contains(reason) => return,
            Err(what) => found.push(what),
        }
    }
    panic!("no walk noticed `{reason}`: {found:#?}");
}

async fn a_server_that_trusts_devices_is_noticed(store: Store) {
    let app = server(&store, |config| config.auth.mfa.trust_device_seconds = 3600).await;
    check_mistake_is_noticed(&app, "invariant: a session without the second factor").await;
}

async fn a_server_whose_challenges_last_is_noticed(store: Store) {
    let app = server(&store, |config| config.auth.mfa.challenge_seconds = 900).await;
    check_mistake_is_noticed(&app, "invariant: a session of an ended challenge").await;
}

async fn a_server_without_second_factors_is_noticed(store: Store) {
    let app = server(&store, |_| {}).await;
    // The factor exists in the model and not on the server, as after a lost write.
    let mut model = Model::of(&app, "walker@x.test".to_owned(), TRIES).await;
    model.secret = Some("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP".to_owned());
    let step = Move::Login {
        right: true,
        on_device: false,
    };
    let what = model.take(&app, &mut Dice(7), step).await.unwrap_err();
    assert!(
        what.contains("invariant: a session without the second factor"),
        "{what}"
    );
}
