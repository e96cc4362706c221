//! Response times do not reveal whether an account exists. Over 200 interleaved tries of each class
//! the medians of known and unknown ones differ by less than 5 % or 2 ms, whichever is larger.
//!
//! It is a program of its own with one test, so that nothing of ours runs beside it: cargo runs
//! such programs one after the other. `cargo xtask bench --auth` asks the same of a release build,
//! more often.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, stopping is the report

#[path = "../../../benches/src/line.rs"]
mod line;
#[path = "../../../benches/src/times.rs"]
mod times;

use linchpin::prelude::*;
use linchpin_auth::{Argon2Cost, Auth, AuthService, NewUser};

use line::Line;
use times::{CONCEALED, OPEN, Pair, USERS, asked_about, known, register, without};

const TRIES: usize = 200;
/// The number of measurements of a pair that must all show a difference. Other load on the machine
/// disturbs single measurements in both directions; work for one class only shows in each of them.
const MEASUREMENTS: usize = 5;

async fn start(folder: &std::path::Path, concealed: bool) -> linchpin::Running {
    let auth = asked_about(Auth::new(), concealed).configure(|config| {
        // The smallest allowed cost: a skipped hash is still measurable.
        config.auth.password.argon2 = Argon2Cost {
            m: 19_456,
            t: 2,
            p: 1,
        };
    });
    let database = format!(
        "sqlite:{}",
        folder.join(format!("{concealed}.db")).display()
    );
    let config = Config::new()
        .signing_secret("a-secret-of-tests-of-32-bytes-or-more")
        .port(0)
        .database(database);
    App::new(config).plugin(auth).start().await.unwrap()
}

/// Measures a pair, and repeats the measurement if it shows a difference. Returns the measured
/// times if every repetition showed one.
fn tells(line: &mut Line, pair: &Pair) -> Option<String> {
    let mut seen = Vec::new();
    for measurement in 0..MEASUREMENTS {
        let times = pair.ask(line, measurement * 1000, TRIES).unwrap();
        println!(
            "{}: {times:?}, {:?} apart of {:?}",
            pair.name,
            times.apart(),
            times.bound()
        );
        if times.holds() {
            return None;
        }
        seen.push(times);
    }
    Some(format!("{}: {seen:?}", pair.name))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_take_as_long_whether_or_not_there_is_an_account() {
    let folder = tempfile::tempdir().unwrap();
    let mut told = Vec::new();
    for (concealed, pairs) in [(false, OPEN.as_slice()), (true, &CONCEALED)] {
        let running = start(folder.path(), concealed).await;
        let service = running.adapters().provided::<AuthService>().unwrap();
        for n in 0..USERS {
            service.create_user(NewUser::new(without(n))).await.unwrap();
        }
        let address = running.address();
        // It asks from a thread of its own: those of the server answer meanwhile.
        let asking = tokio::task::spawn_blocking(move || {
            let mut line = Line::to(address).unwrap();
            for n in 0..USERS {
                let (status, ..) = line.ask(&register(&known(n))).unwrap();
                assert!(matches!(status, 201 | 202), "{status}");
            }
            pairs
                .iter()
                .filter_map(|pair| tells(&mut line, pair))
                .collect::<Vec<_>>()
        });
        told.extend(asking.await.unwrap());
        running.stop().await.unwrap();
    }
    assert!(told.is_empty(), "{told:#?}");
}
