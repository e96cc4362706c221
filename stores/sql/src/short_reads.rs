//! Decides whether a read that may scan any number of rows, but mostly reads few, first runs with a
//! short limit.
//!
//! The history of a statement is kept per caller. A list can be slow for a caller who sees few of
//! its records; the history of this caller does not affect other callers.

use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of runs without a short attempt after the first failed attempt; it doubles after each
/// further failure.
const FIRST_SKIP: u32 = 16;
const MAX_DOUBLINGS: u32 = 8;

/// The number of cells for callers; callers in the same cell share their history.
const CELLS: usize = 64;

/// The history of a statement. It is empty until the first attempt fails.
#[derive(Debug, Default)]
pub struct ShortReads(OnceLock<Box<[Cell; CELLS]>>);

#[derive(Debug, Default)]
struct Cell {
    /// The number of following runs without an attempt.
    skip: AtomicU32,
    /// The number of failed attempts since the last successful one.
    missed: AtomicU32,
}

/// The cell of a caller. Calls without a caller share a cell.
fn cell_number(caller: Option<NonZeroU64>) -> usize {
    // Caller ids are hashes already. Their last bit has no information: it only keeps them from
    // being zero.
    usize::try_from((caller.map_or(0, NonZeroU64::get) >> 1) % CELLS as u64).unwrap_or_default()
}

impl ShortReads {
    /// Whether the caller's next run should begin with a short attempt.
    pub fn due(&self, caller: Option<NonZeroU64>) -> bool {
        let Some(cells) = self.0.get() else {
            return true;
        };
        // Two concurrent runs may both make an attempt; this is harmless.
        cells[cell_number(caller)]
            .skip
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_err()
    }

    /// Records a successful attempt.
    pub fn succeeded(&self, caller: Option<NonZeroU64>) {
        if let Some(cells) = self.0.get() {
            cells[cell_number(caller)]
                .missed
                .store(0, Ordering::Relaxed);
        }
    }

    /// Records an attempt that was stopped by the limit.
    pub fn stopped(&self, caller: Option<NonZeroU64>) {
        let cell = &self.cells()[cell_number(caller)];
        let missed = cell
            .missed
            .fetch_add(1, Ordering::Relaxed)
            .min(MAX_DOUBLINGS);
        cell.skip.store(FIRST_SKIP << missed, Ordering::Relaxed);
    }

    fn cells(&self) -> &[Cell; CELLS] {
        self.0
            .get_or_init(|| Box::new(std::array::from_fn(|_| Cell::default())))
    }

    /// Disables attempts, for tests of the normal path.
    #[doc(hidden)]
    pub fn never(&self) {
        for cell in self.cells() {
            cell.skip.store(u32::MAX, Ordering::Relaxed);
        }
    }

    /// The number of failed attempts of all callers since their last successful one.
    #[doc(hidden)]
    pub fn missed(&self) -> u32 {
        self.cells()
            .iter()
            .map(|cell| cell.missed.load(Ordering::Relaxed))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_reads_are_tracked_per_statement() {
        let (history, slow_caller, fast_caller) = (
            ShortReads::default(),
            NonZeroU64::new(65),
            NonZeroU64::new(67),
        );
        assert!(history.due(slow_caller) && history.due(fast_caller));
        history.stopped(slow_caller);
        for _ in 0..16 {
            assert!(!history.due(slow_caller) && history.due(fast_caller) && history.due(None));
        }
        assert!(history.due(slow_caller));
        history.stopped(slow_caller);
        assert_eq!(
            (0..40).take_while(|_| !history.due(slow_caller)).count(),
            32
        );
        // After a successful attempt the count starts again.
        history.succeeded(slow_caller);
        history.stopped(slow_caller);
        assert_eq!(
            (0..40).take_while(|_| !history.due(slow_caller)).count(),
            16
        );
    }
}
