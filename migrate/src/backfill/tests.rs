//! The size of batches and the pauses between them.

use super::*;

#[test]
fn batch_sizes_adapt_to_the_duration_of_a_batch() {
    let mut state = Progress {
        batch: 1_000,
        batches: 0,
        done: 0,
        cursor: None,
        refused: Vec::new(),
        failed: 0,
    };
    let mut size_after = |took, pace: &Pace| {
        let target = Duration::from_millis(100);
        state.adapt(Duration::from_millis(took), target, pace.largest());
        state.batch
    };
    let pace = Pace::default();
    assert_eq!(size_after(300, &pace), 500);
    assert_eq!(size_after(10, &pace), 1_000);
    // Batches between pauses stay short, unless the caller starts with longer ones.
    assert_eq!(size_after(10, &pace), 1_000);
    let larger = Pace {
        batch: 1_500,
        ..Pace::default()
    };
    assert_eq!(size_after(10, &larger), 1_500);
    let without_pauses = Pace {
        duty: 1.0,
        ..Pace::default()
    };
    assert_eq!(size_after(10, &without_pauses), 3_000);
    assert_eq!(
        pause(Duration::from_millis(100), &pace, 10),
        Duration::from_millis(100)
    );
}
