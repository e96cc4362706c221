//! Work that keeps a core busy for long, on a thread that yields to those that answer requests.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linchpin::{Error, Result};
use tokio::sync::oneshot;

use crate::env::stopwatch;

/// How much such a thread yields: as much as there is. Beside others that want the core it gets about a sixtieth of it.
const NICENESS: i32 = 19;
/// How much it yields where that was too much: it gets a tenth, so that a server under full load still signs people in.
const PRESSED: i32 = 10;
/// Work that takes so long was kept from its core.
const LONG: Duration = Duration::from_secs(2);
/// Work that takes no longer than this was not.
const SHORT: Duration = Duration::from_millis(500);

/// Threads for such work, which differ in how much they yield.
#[derive(Clone, Debug, Default)]
pub(super) struct Apart {
    /// Whether what ran last was kept from its core.
    pressed: Arc<AtomicBool>,
}

impl Apart {
    /// Does something on a thread of its own; a new one each time, for the work takes a thousand times as long as making a thread.
    ///
    /// # Errors
    /// 503 when the system gives no thread.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (done, outcome) = oneshot::channel();
        let apart = self.clone();
        let thread = std::thread::Builder::new().name("linchpin-hash".into()).spawn(move || {
            if let Err(e) = yielding(apart.niceness()) {
                tracing::debug!("hashing goes on with the priority of the others: {e}");
            }
            let taken = stopwatch();
            let made = work();
            apart.took(taken());
            // Who asked may have left; the work is done all the same.
            let _ = done.send(made);
        });
        thread.map_err(|_| Error::unavailable("no thread is left for hashing a password"))?;
        outcome.await.map_err(|_| Error::internal("the thread that hashed a password stopped early"))
    }

    fn niceness(&self) -> i32 {
        if self.pressed.load(Ordering::Relaxed) { PRESSED } else { NICENESS }
    }

    fn took(&self, time: Duration) {
        if time >= LONG {
            self.pressed.store(true, Ordering::Relaxed);
        } else if time <= SHORT {
            self.pressed.store(false, Ordering::Relaxed);
        }
    }
}

/// Lowers the priority of this thread.
#[cfg(target_os = "linux")]
fn yielding(niceness: i32) -> io::Result<()> {
    // Linux counts the priority of each thread, which it knows by an id like that of a process.
    Ok(rustix::process::setpriority_process(Some(rustix::thread::gettid()), niceness)?)
}

#[cfg(not(target_os = "linux"))]
fn yielding(_: i32) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_from_its_core_yields_less() {
        let apart = Apart::default();
        assert_eq!(apart.niceness(), NICENESS);
        apart.took(Duration::from_millis(1900));
        assert_eq!(apart.niceness(), NICENESS);
        apart.took(Duration::from_secs(2));
        assert_eq!(apart.niceness(), PRESSED);
        // Not back at once: with the greater share it takes less anyway.
        apart.took(Duration::from_secs(1));
        assert_eq!(apart.niceness(), PRESSED);
        apart.took(Duration::from_millis(200));
        assert_eq!(apart.niceness(), NICENESS);
    }
}
