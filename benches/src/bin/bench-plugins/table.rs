//! Rows of the result table: our value, the baseline value, and the bound.

/// Prints rows and keeps the names of those beyond their bound.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) failed: Vec<&'static str>,
}

impl Table {
    /// A ratio that must be at least `bound`.
    pub(crate) fn at_least(
        &mut self,
        what: &'static str,
        (ours, baseline): (f64, f64),
        bound: f64,
    ) {
        let ratio = ours / baseline;
        println!("| {what} | {ours:.0}/s | {baseline:.0}/s | {ratio:.2} | at least {bound} |");
        if ratio < bound {
            self.failed.push(what);
        }
    }

    /// A value that must be at most `bound`.
    pub(crate) fn at_most(&mut self, what: &'static str, (value, unit): (f64, &str), bound: f64) {
        println!("| {what} | {value:.2}{unit} | | | at most {bound}{unit} |");
        if value > bound {
            self.failed.push(what);
        }
    }
}
