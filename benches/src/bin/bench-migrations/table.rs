//! Rows of the table: a number, the number beside it, and the bound.

use std::time::Duration;

/// Prints rows and keeps the names of those beyond their bound.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) failed: Vec<String>,
}

impl Table {
    /// Rates whose ratio must be at least `bound`.
    pub(crate) fn rates(&mut self, what: &str, (it, beside): (f64, f64), bound: f64) {
        let ratio = it / beside;
        println!("| {what} | {it:.0}/s | {beside:.0}/s | {ratio:.2} | at least {bound} |");
        if ratio < bound {
            self.failed.push(what.to_owned());
        }
    }

    /// Times whose ratio must be at most `bound`.
    pub(crate) fn times(&mut self, what: &str, (it, beside): (Duration, Duration), bound: f64) {
        let [it, beside] = [it, beside].map(millis);
        let ratio = it / beside;
        println!("| {what} | {it:.2} ms | {beside:.2} ms | {ratio:.2} | at most {bound} |");
        if ratio > bound {
            self.failed.push(what.to_owned());
        }
    }

    /// A time that must be at most `bound`.
    pub(crate) fn at_most(&mut self, what: &str, it: Duration, bound: Duration) {
        let (value, most) = (millis(it), bound.as_millis());
        println!("| {what} | {value:.1} ms | | | at most {most} ms |");
        if it > bound {
            self.failed.push(what.to_owned());
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The middle one.
pub(crate) fn median(mut of: Vec<Duration>) -> Duration {
    of.sort();
    of[of.len() / 2]
}
