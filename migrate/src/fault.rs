//! Ends the process at a chosen place, for tests of crashes.
//!
//! With the feature `fault-injection`, the variable `LINCHPIN_FAULT` names a step and a place, such
//! as `0003.02:after-action`. At this place the process ends by SIGKILL, so that nothing is undone.
//! Without the feature there are no such places.

/// A place. The process ends if `LINCHPIN_FAULT` names it.
#[cfg(feature = "fault-injection")]
pub(crate) fn point(step: &str, place: &str) {
    if std::env::var("LINCHPIN_FAULT").is_ok_and(|fault| fault == format!("{step}:{place}")) {
        // It cannot fail for the own process, and nothing runs after it.
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
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
