//! Realtime: memory of idle sockets, fan-out, the time from a change to a socket, and sockets that
//! do not read. The servers are processes of their own, on another core than the driver.

mod driver;
mod servers;

use std::time::{Duration, Instant};

pub(crate) use servers::serve;

use crate::Outcome;
use crate::table::Table;
use driver::{Server, Sockets};

/// Idle sockets of one room: memory is the slope between both.
const FEW: usize = 1_000;
const MANY: usize = 5_000;
/// Sockets of the fan-out, its changes, and rounds of each server in turn.
const SOCKETS: usize = 1_000;
const CHANGES: usize = 200;
const ROUNDS: usize = 3;
/// Changes whose way to one socket is timed.
const TIMED: usize = 1_000;
/// Sockets of which one in a hundred does not read, the changes that they get, and their pause.
const MIXED: usize = 2_000;
const LONG_CHANGES: usize = 150;
const LONG: usize = 8 << 10;
const PAUSE: Duration = Duration::from_millis(100);

const SHORT: usize = 200;

pub(crate) fn measure() -> Outcome<Vec<&'static str>> {
    let mut table = Table::default();
    println!("| what | it | beside | ratio | bound |\n|---|---|---|---|---|");
    memory(&mut table)?;
    fan_out(&mut table)?;
    latency(&mut table)?;
    slow_readers()?;
    Ok(table.failed)
}

fn memory(table: &mut Table) -> Outcome<()> {
    let server = Server::start("realtime-server")?;
    let mut sockets = Sockets::new(&server)?;
    sockets.open(FEW)?;
    let few = server.rss_after_rest()?;
    sockets.open(MANY - FEW)?;
    let many = server.rss_after_rest()?;
    let each = many.saturating_sub(few) as f64 / (MANY - FEW) as f64;
    table.at_most(
        "memory of an idle signed-in socket in a room of 5,000",
        (each, " KiB"),
        8.0,
    );
    Ok(())
}

fn fan_out(table: &mut Table) -> Outcome<()> {
    let names = ["realtime-server", "broadcast-server", "fan-out-server"];
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (name, rates) in names.iter().zip(&mut rates) {
            let server = Server::start(name)?;
            let mut sockets = Sockets::new(&server)?;
            sockets.open(SOCKETS)?;
            let began = Instant::now();
            let mut changes = sockets.changes(SHORT)?;
            for n in 0..CHANGES {
                changes.send(n)?;
                // One change at a time, so that no server writes several frames at once.
                sockets.until(SOCKETS * (n + 1))?;
            }
            rates.push((SOCKETS * CHANGES) as f64 / began.elapsed().as_secs_f64());
        }
    }
    let [ours, broadcast, by_hand] = rates.map(median);
    table.at_least(
        "frames to 1,000 sockets, beside axum with tokio's broadcast",
        (ours, broadcast),
        1.5,
    );
    table.at_least(
        "frames to 1,000 sockets, beside a server by hand",
        (ours, by_hand),
        0.9,
    );
    Ok(())
}

/// From the request of a change to its frame at a socket, so it contains the commit.
fn latency(table: &mut Table) -> Outcome<()> {
    let server = Server::start("realtime-server")?;
    let mut sockets = Sockets::new(&server)?;
    sockets.open(1)?;
    let mut changes = sockets.changes(SHORT)?;
    for n in 0..TIMED {
        sockets.sent.push(Instant::now());
        changes.send(n)?;
        sockets.until(n + 1)?;
        std::thread::sleep(Duration::from_millis(2));
    }
    let millis = sockets.sorted_millis();
    table.at_most(
        "from the request of a change to its frame, p50",
        (quantile(&millis, 0.5), " ms"),
        20.0,
    );
    table.at_most(
        "from the request of a change to its frame, p99",
        (quantile(&millis, 0.99), " ms"),
        20.0,
    );
    Ok(())
}

/// The p99 of sockets that read, without and with sockets that do not.
fn slow_readers() -> Outcome<()> {
    let p99 = |deaf: usize| {
        let server = Server::start("realtime-server")?;
        let mut sockets = Sockets::new(&server)?;
        sockets.open_deaf(deaf)?;
        sockets.open(MIXED - deaf)?;
        let mut changes = sockets.changes(LONG)?;
        let mut next = Instant::now();
        for n in 0..LONG_CHANGES {
            next += PAUSE;
            sockets.sent.push(Instant::now());
            changes.send(n)?;
            while Instant::now() < next {
                sockets.read(next.saturating_duration_since(Instant::now()))?;
            }
        }
        sockets.until((MIXED - deaf) * LONG_CHANGES)?;
        Outcome::Ok(quantile(&sockets.sorted_millis(), 0.99))
    };
    let (all, some) = (p99(0)?, p99(MIXED / 100)?);
    println!(
        "| p99 of frames of 8 KiB to 2,000 sockets of which 20 do not read, beside all reading | {some:.1} ms | {all:.1} ms | {:.2} | |",
        some / all
    );
    Ok(())
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at).or(sorted.last()).copied().unwrap_or(0.0)
}
