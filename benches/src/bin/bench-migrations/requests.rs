//! Response times during a backfill at its default speed, compared with no backfill.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linchpin_benches::client::{CONNECTIONS, drive};
use linchpin_benches::id;

use crate::Outcome;
use crate::databases::{Databases, Kind};
use crate::table::{Table, median};
use crate::versions::{Running, START, TEXT, Versions};

const ROWS: usize = 1_000_000;
/// How long each load takes, unless the backfill ends first.
const LOAD_DURATION: Duration = Duration::from_secs(5);
/// The rounds of a route, each with a load without a backfill and one during it. The medians count.
const ROUNDS: usize = 3;
/// The minimum duration of a load during a backfill.
const MIN_DURATION: Duration = Duration::from_secs(2);
/// How long a load runs before it is measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// The routes.
const ROUTES: [&str; 3] = ["GET by id", "list 20", "PATCH"];

pub(crate) fn measure(
    databases: &Databases<'_>,
    versions: &Versions,
    kind: Kind,
    table: &mut Table,
) -> Outcome<()> {
    let url = databases.with_posts(versions, kind, "requests", ROWS)?;
    versions.run(TEXT, &url, "apply --phase expand")?;
    for route in ROUTES {
        let (mut alone, mut during) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let url = databases.copy(kind, "requests", "loaded")?;
            let server = versions.serve(START, &url)?;
            let never = AtomicBool::new(false);
            load(server.address, route, WARM_UP, &never)?;
            alone.push(load(server.address, route, LOAD_DURATION, &never)?);
            let words = versions.backfill(TEXT, &url)?;
            let runner = Running(versions.migrate(TEXT, &url, &words)?.spawn()?);
            during.push(during_backfill(server.address, route, runner)?);
            server.stop()?;
            databases.remove(kind, "loaded")?;
        }
        let what = format!(
            "{}: p99 of {route} during a backfill of a million rows, compared with no backfill",
            kind.name()
        );
        table.times(&what, (median(during), median(alone)), 2.0);
    }
    databases.remove(kind, "requests")
}

/// The 99th percentile of a route while a backfill runs.
fn during_backfill(address: SocketAddr, route: &str, mut runner: Running) -> Outcome<Duration> {
    let (ended, stop_watching) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !stop_watching.load(Ordering::Relaxed) {
                if let Ok(Some(_)) = runner.0.try_wait() {
                    ended.store(true, Ordering::Relaxed);
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        // `migrate apply` computes its plan again before the backfill starts, so a warm-up comes
        // first.
        load(address, route, WARM_UP, &ended)?;
        let started = Instant::now();
        let measured = load(address, route, LOAD_DURATION, &ended);
        let took = started.elapsed();
        stop_watching.store(true, Ordering::Relaxed);
        watch.join().map_err(|_| "the watch panicked")?;
        if took < MIN_DURATION {
            return Err(format!("{route}: the backfill ended within {took:?}").into());
        }
        measured
    })
}

/// The 99th percentile of a route, for `time` or until `ended` is true.
fn load(address: SocketAddr, route: &str, time: Duration, ended: &AtomicBool) -> Outcome<Duration> {
    let until = Instant::now() + time;
    let (mut n, mut state) = (0_u64, 0x9e37_79b9_7f4a_7c15_u64);
    let load = drive(address, CONNECTIONS, |into| {
        n += 1;
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let id = id((state >> 33) as usize % ROWS);
        let body = format!(r#"{{"title":"Title {n}"}}"#);
        // Writing to a Vec cannot fail.
        let _ = match route {
            "GET by id" => write!(into, "GET /posts/{id} HTTP/1.1\r\nhost: bench\r\n\r\n"),
            "list 20" => write!(into, "GET /posts HTTP/1.1\r\nhost: bench\r\n\r\n"),
            _ => write!(
                into,
                "PATCH /posts/{id} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            ),
        };
        Instant::now() < until && !ended.load(Ordering::Relaxed)
    })?;
    if load.failed > 0 {
        return Err(format!("{} requests of {route} failed", load.failed).into());
    }
    Ok(Duration::from_micros(load.quantile(0.99).into()))
}
