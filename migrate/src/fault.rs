//! Ends the process at a chosen place, for crash tests.
//!
//! With the feature `fault-injection`, the variable `LINCHPIN_FAULT` names a step and a place, such
//! as `0003.02:after-action`. At this place SIGKILL ends the process, so no clean-up code runs.
//! With `LINCHPIN_FAULT_SIGNAL=stop`, SIGSTOP suspends it there until SIGCONT.
//! Without the feature, the places do nothing.

/// A place at which the process ends or is suspended if `LINCHPIN_FAULT` names it.
#[cfg(feature = "fault-injection")]
pub(crate) fn point(step: &str, place: &str) {
    use rustix::process::{Signal, getpid, kill_process};
    if std::env::var("LINCHPIN_FAULT").is_ok_and(|fault| fault == format!("{step}:{place}")) {
        // A process may always send itself a signal, so neither call fails.
        if std::env::var("LINCHPIN_FAULT_SIGNAL").is_ok_and(|signal| signal == "stop") {
            let _ = kill_process(getpid(), Signal::STOP);
            return;
        }
        // SIGKILL ends the process before anything else runs.
        let _ = kill_process(getpid(), Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

/// A place that does nothing.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn point(step: &str, place: &str) {
    let _ = (step, place);
}
