//! Webhooks: deliveries per second, the statements of the intake, and the delay of an endpoint
//! while another one is slow.

mod app;
mod by_hand;
mod intake;
mod queue;

use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) use app::{seed, serve};
pub(crate) use intake::until_taken;
use linchpin_safe_client::{SafeClient, Settings};
use queue::Queue;

use crate::Outcome;
use crate::receiver::Receiver;
use crate::table::Table;

/// Endpoints of the full queue, and deliveries of each.
const ENDPOINTS: usize = 16;
const DELIVERIES_PER_ENDPOINT: usize = 1_000;
/// Alternating rounds of each kind; the median counts.
const ROUNDS: usize = 3;
/// Due deliveries of the slow endpoint, and of the other one.
const SLOW_DELIVERIES: usize = 100_000;
const OTHER_DELIVERIES: usize = 10;

const DELIVERY_TIMEOUT: Duration = Duration::from_mins(3);

pub(crate) async fn measure(folder: &Path) -> Outcome<Vec<&'static str>> {
    let mut table = Table::default();
    println!("| measurement | ours | baseline | ratio | bound |\n|---|---|---|---|---|");
    let receiver = Receiver::start()?;
    deliveries(folder, &receiver, &mut table).await?;
    intake::statements(folder, &receiver, &mut table).await?;
    fairness(folder, &receiver, &mut table).await?;
    Ok(table.failed)
}

/// Deliveries per second from a full queue, compared with a hand-written loop on a copy of the same
/// file.
async fn deliveries(folder: &Path, receiver: &Receiver, table: &mut Table) -> Outcome<()> {
    let queue = Queue::new(folder, "full").await?;
    let url = receiver.url("/fast");
    for _ in 0..ENDPOINTS {
        queue.endpoint(&url).await?;
    }
    let file = queue.fill(DELIVERIES_PER_ENDPOINT).await?;
    let all = (ENDPOINTS * DELIVERIES_PER_ENDPOINT) as u64;
    let (mut ours, mut by_hand) = (Vec::new(), Vec::new());
    let rate = |span: Duration| all as f64 / span.as_secs_f64();
    for round in 0..ROUNDS {
        receiver.reset()?;
        let file_copy = queue::copy(&file, &folder.join(format!("ours{round}.db")))?;
        queue::make_due(&file_copy)?;
        let running = app::start(&file_copy).await?;
        let seen = receiver.until(all, DELIVERY_TIMEOUT).await?;
        running.stop().await?;
        ours.push(rate(seen.span));

        receiver.reset()?;
        let file_copy = queue::copy(&file, &folder.join(format!("by_hand{round}.db")))?;
        by_hand::run(&file_copy, client()?).await?;
        let seen = receiver.until(all, DELIVERY_TIMEOUT).await?;
        by_hand.push(rate(seen.span));
    }
    let rates = (median(ours), median(by_hand));
    table.at_least(
        "deliveries from a full queue, compared with a hand-written loop",
        rates,
        0.8,
    );
    Ok(())
}

/// The time of some deliveries while another endpoint has many due deliveries and responds late.
async fn fairness(folder: &Path, receiver: &Receiver, table: &mut Table) -> Outcome<()> {
    receiver.reset()?;
    let slow = Queue::new(folder, "fair").await?;
    slow.endpoint(&receiver.url("/slow")).await?;
    let file = slow.fill(SLOW_DELIVERIES).await?;
    queue::make_due(&file)?;
    let running = app::start(&file).await?;
    while receiver.stats()?.slow == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let other = app::endpoint(&running, &receiver.url("/fast")).await?;
    let started = Instant::now();
    queue::add(&file, &[other], OTHER_DELIVERIES)?;
    queue::make_due(&file)?;
    receiver
        .until(OTHER_DELIVERIES as u64, DELIVERY_TIMEOUT)
        .await?;
    let took = started.elapsed().as_secs_f64();
    table.at_most(
        "10 deliveries while 100,000 are due for an endpoint that responds after 15 s",
        (took, " s"),
        5.0,
    );
    // The open requests to the slow endpoint end late; nothing waits for them.
    drop(running);
    Ok(())
}

fn client() -> Outcome<SafeClient> {
    Ok(SafeClient::new(Settings {
        allow_http: true,
        allow: vec!["127.0.0.0/8".parse()?],
        user_agent: "Linchpin-Webhooks/1".to_owned(),
        ..Settings::default()
    })?)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
