//! Work that keeps a core busy for long, on a thread that yields to those that answer requests.

use std::io;

use linchpin::{Error, Result};
use tokio::sync::oneshot;

/// How much such a thread yields: as much as there is, which on Linux is not all. Beside others that want the core it gets about a
/// sixtieth of it, and never nothing, so that a server under full load still signs people in.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 19;

/// Does something on a thread of its own; a new one each time, for the work takes a thousand times as long as making a thread.
///
/// # Errors
/// 503 when the system gives no thread.
pub(super) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (done, outcome) = oneshot::channel();
    let thread = std::thread::Builder::new().name("linchpin-hash".into()).spawn(move || {
        if let Err(e) = yielding() {
            tracing::debug!("hashing goes on with the priority of the others: {e}");
        }
        // Who asked may have left; the work is done all the same.
        let _ = done.send(work());
    });
    thread.map_err(|_| Error::unavailable("no thread is left for hashing a password"))?;
    outcome.await.map_err(|_| Error::internal("the thread that hashed a password stopped early"))
}

/// Lowers the priority of this thread.
#[cfg(target_os = "linux")]
fn yielding() -> io::Result<()> {
    // Linux counts the priority of each thread, which it knows by an id like that of a process.
    Ok(rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS)?)
}

#[cfg(not(target_os = "linux"))]
fn yielding() -> io::Result<()> {
    Ok(())
}
