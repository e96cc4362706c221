//! Decides whether a read that may scan any number of rows, but mostly reads few, is first tried
//! with a short limit.
//!
//! The past of a statement is kept for each caller. A caller for whom a list is slow, because few
//! of its records are visible to them, does not slow it down for others.

use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of runs without a short attempt after the first failed attempt; it doubles after each
/// further failure.
const FIRST: u32 = 16;
const DOUBLINGS: u32 = 8;

/// The number of cells for callers; callers in the same cell share their history.
const CELLS: usize = 64;

/// The history of a statement. It is empty until the first attempt fails.
#[derive(Debug, Default)]
pub struct ShortReads(OnceLock<Box<[Cell; CELLS]>>);

#[derive(Debug, Default)]
struct Cell {
    /// The number of next runs without an attempt.
    skip: AtomicU32,
    /// The number of failed attempts since the last successful one.
    missed: AtomicU32,
}

/// The cell of a caller; the application's own calls also have a cell.
fn at(caller: Option<NonZeroU64>) -> usize {
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
        // Two callers that see the last one at the same time both make an attempt; this is
        // harmless.
        cells[at(caller)]
            .skip
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_err()
    }

    /// An attempt was successful.
    pub fn ended(&self, caller: Option<NonZeroU64>) {
        if let Some(cells) = self.0.get() {
            cells[at(caller)].missed.store(0, Ordering::Relaxed);
        }
    }

    /// An attempt was stopped.
    pub fn given_up(&self, caller: Option<NonZeroU64>) {
        let cell = &self.cells()[at(caller)];
        let missed = cell.missed.fetch_add(1, Ordering::Relaxed).min(DOUBLINGS);
        cell.skip.store(FIRST << missed, Ordering::Relaxed);
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
    fn what_takes_long_for_one_is_tried_for_another() {
        let (tries, greedy, modest) = (
            ShortReads::default(),
            NonZeroU64::new(65),
            NonZeroU64::new(67),
        );
        assert!(tries.due(greedy) && tries.due(modest));
        tries.given_up(greedy);
        for _ in 0..16 {
            assert!(!tries.due(greedy) && tries.due(modest) && tries.due(None));
        }
        assert!(tries.due(greedy));
        tries.given_up(greedy);
        assert_eq!((0..40).take_while(|_| !tries.due(greedy)).count(), 32);
        // After a successful attempt the count starts again.
        tries.ended(greedy);
        tries.given_up(greedy);
        assert_eq!((0..40).take_while(|_| !tries.due(greedy)).count(), 16);
    }
}
