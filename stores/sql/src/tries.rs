//! Decides whether a read that may scan any number of rows, but mostly reads few, is first tried
//! with a short limit.
//!
//! The past of a statement is kept for each caller. A caller for whom a list is slow, because few
//! of its records are visible to them, does not slow it down for others.

use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many runs are not begun as a try after the first that was given up; twice as many after the
/// next, and so on.
const FIRST: u32 = 16;
const DOUBLINGS: u32 = 8;

/// Callers are told apart by so many cells; two that share one share their experience.
const CELLS: usize = 64;

/// The experience with a statement. Nothing is kept of one that was never given up.
#[derive(Debug, Default)]
pub struct Tries(OnceLock<Box<[Cell; CELLS]>>);

#[derive(Debug, Default)]
struct Cell {
    /// Runs that are still not to be begun as a try.
    skip: AtomicU32,
    /// How often it was given up since it last ended in time.
    missed: AtomicU32,
}

/// Where the experience of a caller is kept; the application's own calls have theirs as well.
fn at(caller: Option<NonZeroU64>) -> usize {
    // Callers are hashes already, of which the last bit says nothing: it keeps them from being
    // zero.
    usize::try_from((caller.map_or(0, NonZeroU64::get) >> 1) % CELLS as u64).unwrap_or_default()
}

impl Tries {
    /// Whether the caller's next run is worth a try.
    pub fn due(&self, caller: Option<NonZeroU64>) -> bool {
        let Some(cells) = self.0.get() else {
            return true;
        };
        // Two that see the last one at a time begin both; no harm is done.
        cells[at(caller)]
            .skip
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_err()
    }

    /// A try ended in time.
    pub fn ended(&self, caller: Option<NonZeroU64>) {
        if let Some(cells) = self.0.get() {
            cells[at(caller)].missed.store(0, Ordering::Relaxed);
        }
    }

    /// A try was given up.
    pub fn given_up(&self, caller: Option<NonZeroU64>) {
        let cell = &self.cells()[at(caller)];
        let missed = cell.missed.fetch_add(1, Ordering::Relaxed).min(DOUBLINGS);
        cell.skip.store(FIRST << missed, Ordering::Relaxed);
    }

    fn cells(&self) -> &[Cell; CELLS] {
        self.0
            .get_or_init(|| Box::new(std::array::from_fn(|_| Cell::default())))
    }

    /// No run is tried: for tests of what comes instead.
    #[doc(hidden)]
    pub fn never(&self) {
        for cell in self.cells() {
            cell.skip.store(u32::MAX, Ordering::Relaxed);
        }
    }

    /// How often it was given up by all callers, since it last ended in time for each.
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
    fn what_takes_long_for_one_is_tried_for_another() {
        let (tries, greedy, modest) = (Tries::default(), NonZeroU64::new(65), NonZeroU64::new(67));
        assert!(tries.due(greedy) && tries.due(modest));
        tries.given_up(greedy);
        for _ in 0..16 {
            assert!(!tries.due(greedy) && tries.due(modest) && tries.due(None));
        }
        assert!(tries.due(greedy));
        tries.given_up(greedy);
        assert_eq!((0..40).take_while(|_| !tries.due(greedy)).count(), 32);
        // One that ended in time counts from the beginning.
        tries.ended(greedy);
        tries.given_up(greedy);
        assert_eq!((0..40).take_while(|_| !tries.due(greedy)).count(), 16);
    }
}
