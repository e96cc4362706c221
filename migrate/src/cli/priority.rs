//! The priority of a run that only backfills.

use super::command::ApplyArgs;
use crate::step::Phase;

/// The nice value of a run that only backfills. It is the default of the command `nice`. Servers on
/// the same machine have a higher priority than the run.
#[cfg(target_os = "linux")]
const BACKFILL_NICENESS: i32 = 10;

/// Lowers the priority of this process for a run that only backfills and has pauses.
///
/// A backfill computes as fast as it can between its pauses. With normal priority, it would delay
/// the requests of a server on the same machine. Other phases keep their priority, because they may
/// hold locks that requests wait for, and a process cannot raise its priority again. A run without
/// pauses (`--duty 1`) keeps its priority too.
pub(super) fn lower_for_backfill(args: &ApplyArgs) {
    if args.phase == Some(Phase::Backfill) && args.options.pace.duty < 1.0 {
        lower();
    }
}

/// Lowers the priority of each thread, because each has its own. New threads have the priority of
/// the thread that starts them.
#[cfg(target_os = "linux")]
fn lower() {
    use rustix::process::{Pid, getpriority_process, setpriority_process};

    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return;
    };
    for thread in threads.flatten() {
        let id = thread.file_name().to_str().and_then(|id| id.parse().ok());
        let Some(id) = id.and_then(Pid::from_raw) else {
            continue;
        };
        // A failure is ignored: the thread may have ended, and the run does not need a lower
        // priority.
        if getpriority_process(Some(id)).is_ok_and(|now| now < BACKFILL_NICENESS) {
            let _ = setpriority_process(Some(id), BACKFILL_NICENESS);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn lower() {}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// The nice value of the calling thread, from `/proc`.
    fn own_niceness() -> i32 {
        let line = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        // The name of the thread may contain spaces. The nice value is the 17th field after it.
        let after = line.rsplit_once(')').unwrap().1;
        after.split_whitespace().nth(16).unwrap().parse().unwrap()
    }

    fn args(phase: Option<Phase>, duty: f64) -> ApplyArgs {
        let mut options = crate::Options::default();
        options.pace.duty = duty;
        ApplyArgs {
            phase,
            plan: None,
            dry_run: false,
            options,
        }
    }

    #[test]
    fn only_a_run_of_backfills_with_pauses_has_a_low_priority() {
        let before = own_niceness();
        for (phase, duty) in [
            (None, 0.5),
            (Some(Phase::Expand), 0.5),
            (Some(Phase::Contract), 0.5),
            (Some(Phase::Backfill), 1.0),
        ] {
            lower_for_backfill(&args(phase, duty));
            assert_eq!(own_niceness(), before, "{phase:?} {duty}");
        }
        lower_for_backfill(&args(Some(Phase::Backfill), 0.5));
        let lowered = before.max(BACKFILL_NICENESS);
        assert_eq!(own_niceness(), lowered);
        let later = std::thread::spawn(own_niceness);
        assert_eq!(later.join().unwrap(), lowered);
    }
}
