//! Response times do not reveal whether an account exists. Over 200 interleaved requests for known
//! and for unknown accounts, the medians differ by less than 5 % or 2 ms, whichever is larger.
//!
//! This file is a separate test program with one test, so that no other test runs at the same time:
//! cargo runs test programs one after the other. `cargo xtask bench --auth` measures the same with
//! a release build and more requests.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, a panic reports the failure

#[path = "../../../benches/src/line.rs"]
mod line;
#[path = "../../../benches/src/times.rs"]
mod times;

use linchpin::prelude::*;
use linchpin_auth::{Argon2Cost, Auth, AuthService, NewUser};

use line::Line;
use times::{CONCEALED, OPEN, Pair, USERS, known, register, with_measured_features, without};

const TRIES: usize = 200;
/// Number of measurements of a pair. The test fails only if all of them show a difference: other
/// load on the machine disturbs single measurements, but additional work for one class shows in
/// each.
const MEASUREMENTS: usize = 5;

async fn start(folder: &std::path::Path, concealed: bool) -> linchpin::Running {
    let auth = with_measured_features(Auth::new(), concealed).configure(|config| {
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
fn measured_difference(line: &mut Line, pair: &Pair) -> Option<String> {
    let mut seen = Vec::new();
    for measurement in 0..MEASUREMENTS {
        let times = pair.ask(line, measurement * 1000, TRIES).unwrap();
        println!(
            "{}: {times:?}, difference {:?}, bound {:?}",
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
async fn response_times_do_not_depend_on_the_account() {
    let folder = tempfile::tempdir().unwrap();
    let mut differences = Vec::new();
    for (concealed, pairs) in [(false, OPEN.as_slice()), (true, &CONCEALED)] {
        let running = start(folder.path(), concealed).await;
        let service = running.adapters().provided::<AuthService>().unwrap();
        for n in 0..USERS {
            service.create_user(NewUser::new(without(n))).await.unwrap();
        }
        let address = running.address();
        // The requests are sent from another thread, so that the threads of the server are free.
        let asking = tokio::task::spawn_blocking(move || {
            let mut line = Line::to(address).unwrap();
            for n in 0..USERS {
                let (status, ..) = line.ask(&register(&known(n))).unwrap();
                assert!(matches!(status, 201 | 202), "{status}");
            }
            pairs
                .iter()
                .filter_map(|pair| measured_difference(&mut line, pair))
                .collect::<Vec<_>>()
        });
        differences.extend(asking.await.unwrap());
        running.stop().await.unwrap();
    }
    assert!(differences.is_empty(), "{differences:#?}");
}
