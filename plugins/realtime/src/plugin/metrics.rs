//! Reports the counters of endpoints to the recorder of the crate `metrics`. None of them is per
//! room or user.
//!
//! Connections update the counters in memory. A separate task reports the counters, so that reports
//! do not slow down frames.

use std::time::Duration;

use metrics::{counter, gauge};

use super::counts::Counts;
use crate::connection::Reading;

/// The interval at which counters are reported.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reports the counters until it is aborted.
pub(super) async fn publish(counts: Counts) {
    loop {
        for (endpoint, reading) in counts.read() {
            report(&endpoint, &reading);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn report(endpoint: &str, reading: &Reading) {
    let labels = || [("endpoint", endpoint.to_owned())];
    // The value of a gauge is an `f64`. It represents integers up to 2⁵³ exactly.
    #[expect(clippy::cast_precision_loss)]
    let set = |name: &'static str, count: u64| gauge!(name, &labels()).set(count as f64);
    let total = |name: &'static str, count: u64| counter!(name, &labels()).absolute(count);
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
