//! Realtime: memory of idle sockets, fan-out, the time from a change to a socket, and sockets that
//! do not read. The servers are separate processes and run on the first core only. The operating
//! system selects the core of the driver.

mod driver;
mod servers;

use std::time::{Duration, Instant};

pub(crate) use servers::serve;

use crate::Outcome;
use crate::table::Table;
use driver::{Server, Sockets};

/// Two numbers of idle sockets in one room. The memory per socket is the slope between them.
const FEW: usize = 1_000;
const MANY: usize = 5_000;
/// The fan-out: sockets, changes, simultaneous changes, and rounds per server. The servers take
/// turns.
const SOCKETS: usize = 1_000;
const CHANGES: usize = 200;
const SIMULTANEOUS_CHANGES: usize = 8;
const ROUNDS: usize = 3;
/// The number of changes whose delay to one socket is measured.
const TIMED: usize = 1_000;
/// The run with sockets that do not read: sockets (one in a hundred does not read), changes, bytes
/// of a change, and the pause between two changes.
const ALL_SOCKETS: usize = 2_000;
const LONG_CHANGES: usize = 150;
const LONG_CHANGE_BYTES: usize = 8 << 10;
const PAUSE: Duration = Duration::from_millis(100);

/// The bytes of a change in the other runs.
const CHANGE_BYTES: usize = 200;

/// Measures everything, or one part.
pub(crate) fn measure(part: Option<&str>) -> Outcome<Vec<&'static str>> {
    let mut table = Table::default();
    let is_selected = |name| part.is_none_or(|part| part == name);
    println!("| measurement | ours | baseline | ratio | bound |\n|---|---|---|---|---|");
    if is_selected("memory") {
        memory(&mut table)?;
    }
    if is_selected("fan-out") {
        fan_out(&mut table)?;
    }
    if is_selected("latency") {
        latency(&mut table)?;
    }
    if is_selected("slow") {
        slow_readers()?;
    }
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

/// The servers of the fan-out.
const SERVERS: [&str; 4] = [
    "realtime-server",
    "publish-server",
    "broadcast-server",
    "fan-out-server",
];

fn fan_out(table: &mut Table) -> Outcome<()> {
    let mut rates = SERVERS.map(|_| [Vec::new(), Vec::new()]);
    for _ in 0..ROUNDS {
        for (name, rates) in SERVERS.iter().zip(&mut rates) {
            for (at_once, rates) in [1, SIMULTANEOUS_CHANGES].into_iter().zip(rates) {
                rates.push(rate(name, at_once)?);
            }
        }
    }
    let [committed, published, broadcast, by_hand] = rates.map(|both| both.map(median));
    for (at, what) in [
        (
            0,
            [
                "one change at a time, committed; compared with axum and tokio's broadcast",
                "one change at a time, committed; compared with the second hand-written server",
                "one change at a time, published; compared with axum and tokio's broadcast",
                "one change at a time, published; compared with the second hand-written server",
            ],
        ),
        (
            1,
            [
                "eight changes at once, committed; compared with axum and tokio's broadcast",
                "eight changes at once, committed; compared with the second hand-written server",
                "eight changes at once, published; compared with axum and tokio's broadcast",
                "eight changes at once, published; compared with the second hand-written server",
            ],
        ),
    ] {
        table.at_least(what[0], (committed[at], broadcast[at]), 1.5);
        table.at_least(what[1], (committed[at], by_hand[at]), 0.9);
        table.at_least(what[2], (published[at], broadcast[at]), 1.5);
        table.at_least(what[3], (published[at], by_hand[at]), 0.9);
    }
    Ok(())
}

/// Frames per second to all sockets. The next changes are made when every socket has received the
/// last ones.
fn rate(server: &str, at_once: usize) -> Outcome<f64> {
    let server = Server::start(server)?;
    let mut sockets = Sockets::new(&server)?;
    sockets.open(SOCKETS)?;
    let mut changes = sockets.changes(CHANGE_BYTES, at_once)?;
    let began = Instant::now();
    let mut sent = 0;
    while sent < CHANGES {
        changes.send(sent)?;
        sent += at_once;
        sockets.until(SOCKETS * sent)?;
    }
    Ok((SOCKETS * sent) as f64 / began.elapsed().as_secs_f64())
}

/// The time from the request of a change to its frame at a socket. It includes the commit.
fn latency(table: &mut Table) -> Outcome<()> {
    let server = Server::start("realtime-server")?;
    let mut sockets = Sockets::new(&server)?;
    sockets.open(1)?;
    let mut changes = sockets.changes(CHANGE_BYTES, 1)?;
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
    let p99 = |unread: usize| {
        let server = Server::start("realtime-server")?;
        let mut sockets = Sockets::new(&server)?;
        sockets.open_unread(unread)?;
        sockets.open(ALL_SOCKETS - unread)?;
        let mut changes = sockets.changes(LONG_CHANGE_BYTES, 1)?;
        let mut next = Instant::now();
        for n in 0..LONG_CHANGES {
            next += PAUSE;
            sockets.sent.push(Instant::now());
            changes.send(n)?;
            while Instant::now() < next {
                sockets.read(next.saturating_duration_since(Instant::now()))?;
            }
        }
        sockets.until((ALL_SOCKETS - unread) * LONG_CHANGES)?;
        Outcome::Ok(quantile(&sockets.sorted_millis(), 0.99))
    };
    let (all, some) = (p99(0)?, p99(ALL_SOCKETS / 100)?);
    println!(
        "| p99 of frames of 8 KiB to 2,000 sockets, 20 of which do not read; compared with 2,000 that read | {some:.1} ms | {all:.1} ms | {:.2} | |",
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
