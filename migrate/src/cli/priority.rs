//! The priority of a run that only backfills.

use super::command::ApplyArgs;
use crate::step::Phase;

/// The priority that `nice` gives: requests of the servers on this machine come before the run.
#[cfg(target_os = "linux")]
const LOW: i32 = 10;

/// Lowers the priority of this process for a run that only backfills, and pauses.
///
/// A backfill computes as fast as it can between its pauses, so without this the requests of a
/// server on the same machine wait for a processor. Other phases keep their priority, because they
/// may hold locks that requests wait for, and a process cannot raise its priority again. `--duty 1`
/// asks for speed.
pub(super) fn suit(args: &ApplyArgs) {
    if args.phase == Some(Phase::Backfill) && args.options.pace.duty < 1.0 {
        lower();
    }
}

/// Each thread has its own priority. New threads take that of the thread that starts them.
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
        // A thread that has ended needs no priority, and a run without it is only less polite.
        if getpriority_process(Some(id)).is_ok_and(|now| now < LOW) {
            let _ = setpriority_process(Some(id), LOW);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn lower() {}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// The priority of the calling thread, as the system shows it.
    fn own() -> i32 {
        let line = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        // The name of the thread may contain spaces. Its priority is the 17th number after it.
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
        let before = own();
        for (phase, duty) in [
            (None, 0.5),
            (Some(Phase::Expand), 0.5),
            (Some(Phase::Contract), 0.5),
            (Some(Phase::Backfill), 1.0),
        ] {
            suit(&args(phase, duty));
            assert_eq!(own(), before, "{phase:?} {duty}");
        }
        suit(&args(Some(Phase::Backfill), 0.5));
        let at_least = before.max(LOW);
        assert_eq!(own(), at_least);
        let later = std::thread::spawn(own);
        assert_eq!(later.join().unwrap(), at_least);
    }
}
