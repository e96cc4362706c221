//! The processor time of child processes, as Linux counts it.

use std::cell::Cell;
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// The resolution of the processor times that Linux reports. It does not depend on the timer
/// frequency.
const TICKS_PER_SECOND: u64 = 100;
/// The interval at which a running process is checked.
const INTERVAL: Duration = Duration::from_millis(20);

thread_local! {
    /// The ticks of the processes that this thread has waited for.
    static USED: Cell<u64> = const { Cell::new(0) };
}

/// Waits for a process. Adds the processor time of the process and of its children to the time of
/// this thread. The total is final only after the process has ended, and can be read only until the
/// process is waited for.
///
/// # Errors
/// If the process cannot be waited for.
pub(crate) fn wait(child: &mut Child) -> std::io::Result<ExitStatus> {
    let file = format!("/proc/{}/stat", child.id());
    while let Ok(stat) = std::fs::read_to_string(&file) {
        match read(&stat) {
            Some((true, ticks)) => {
                USED.set(USED.get() + ticks);
                break;
            }
            Some((false, _)) => std::thread::sleep(INTERVAL),
            None => break,
        }
    }
    child.wait()
}

/// The seconds that processes of this thread have used since the last call.
pub(crate) fn take() -> u64 {
    USED.take() / TICKS_PER_SECOND
}

/// Whether a process has ended, and the ticks that it and its children used, in user mode and in
/// the kernel. The name of the program, in parentheses, can contain spaces and parentheses.
fn read(stat: &str) -> Option<(bool, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>());
    Some((*fields.first()? == "Z", ticks.sum::<Result<u64, _>>().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{USED, read, take, wait};

    #[test]
    fn the_time_of_a_process_is_its_own_and_that_of_its_children() {
        let stat = "7 (a (b) c) Z 1 7 7 0 -1 4228364 1 2 3 4 100 20 3000 400 20 0 1 0";
        assert_eq!(read(stat), Some((true, 3520)));
        assert_eq!(
            read(&stat.replace(") Z", ") R")).map(|(ended, _)| ended),
            Some(false)
        );
        assert_eq!(read("7 (a) Z 1 7"), None);
    }

    #[test]
    fn the_time_of_an_ended_process_is_counted_once() {
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 3";
        let mut child = Command::new("sh").args(["-c", busy]).spawn().unwrap();
        assert_eq!(wait(&mut child).unwrap().code(), Some(3));
        assert!(USED.get() > 0);
        let _ = take();
        assert_eq!(USED.get(), 0);
    }
}
