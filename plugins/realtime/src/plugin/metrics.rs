//! The counts of endpoints, for the recorder of the crate `metrics`: never per room or user.
//!
//! Connections count in memory. A task passes the counts on, so that a frame costs nothing more.

use std::time::Duration;

use metrics::{counter, gauge};

use super::counts::Counts;
use crate::connection::Reading;

/// The interval at which counts are passed on.
const EVERY: Duration = Duration::from_secs(1);

/// Passes the counts on until it is aborted.
pub(super) async fn publish(counts: Counts) {
    loop {
        for (endpoint, reading) in counts.read() {
            report(&endpoint, &reading);
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn report(endpoint: &str, reading: &Reading) {
    let of = || [("endpoint", endpoint.to_owned())];
    // A gauge is a float; the counts of a node are exact in it.
    #[expect(clippy::cast_precision_loss)]
    let set = |name: &'static str, count: u64| gauge!(name, &of()).set(count as f64);
    let total = |name: &'static str, count: u64| counter!(name, &of()).absolute(count);
    set("linchpin_realtime_connections", reading.connections);
    set("linchpin_realtime_queue_bytes", reading.queue_bytes);
    total("linchpin_realtime_frames_in_total", reading.frames_in);
    total("linchpin_realtime_frames_out_total", reading.frames_out);
    total(
        "linchpin_realtime_dropped_ephemeral_total",
        reading.dropped_ephemeral,
    );
    total(
        "linchpin_realtime_filter_failures_total",
        reading.filter_failures,
    );
    for (close, count) in &reading.closes {
        counter!(
            "linchpin_realtime_closes_total",
            "endpoint" => endpoint.to_owned(),
            "code" => close.code().to_string(),
        )
        .absolute(*count);
    }
}
