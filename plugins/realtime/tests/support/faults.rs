//! A recorder of the faults that an engine reports.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::Mutex;

/// Counts faults by their reasons.
#[derive(Default)]
pub struct Faults(Mutex<HashMap<String, Arc<AtomicU64>>>);

impl Faults {
    /// Returns the number of faults with a reason.
    pub fn count(&self, reason: &str) -> u64 {
        let all = self.0.lock();
        all.get(reason)
            .map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

impl Recorder for Faults {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        assert_eq!(key.name(), "linchpin_realtime_engine_faults_total");
        let reason = key.labels().next().map_or("", |label| label.value());
        let mut all = self.0.lock();
        Counter::from_arc(Arc::clone(all.entry(reason.to_owned()).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
