//! Rows of the result table: our value, the baseline value, and the bound.

use std::time::Duration;

/// Prints rows and keeps the names of those beyond their bound.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) failed: Vec<String>,
}

impl Table {
    /// Rates whose ratio must be at least `bound`.
    pub(crate) fn rates(&mut self, what: &str, (ours, baseline): (f64, f64), bound: f64) {
        let ratio = ours / baseline;
        println!("| {what} | {ours:.0}/s | {baseline:.0}/s | {ratio:.2} | at least {bound} |");
        if ratio < bound {
            self.failed.push(what.to_owned());
        }
    }

    /// Times whose ratio must be at most `bound`.
    pub(crate) fn times(&mut self, what: &str, (ours, baseline): (Duration, Duration), bound: f64) {
        let [ours, baseline] = [ours, baseline].map(millis);
        let ratio = ours / baseline;
        println!("| {what} | {ours:.2} ms | {baseline:.2} ms | {ratio:.2} | at most {bound} |");
        if ratio > bound {
            self.failed.push(what.to_owned());
        }
    }

    /// A time that must be at most `bound`.
    pub(crate) fn at_most(&mut self, what: &str, ours: Duration, bound: Duration) {
        let (value, max) = (millis(ours), bound.as_millis());
        println!("| {what} | {value:.1} ms | | | at most {max} ms |");
        if ours > bound {
            self.failed.push(what.to_owned());
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(crate) fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort();
    durations[durations.len() / 2]
}
