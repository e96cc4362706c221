//! Ends a run when the process is asked to end.

use tokio::task::JoinHandle;

use crate::backfill::Stop;
use crate::error::Exit;

/// Listens for Ctrl-C and SIGTERM until the task is aborted. The first signal ends the run after the
/// present batch or step. The second one ends the process at once, as a crash does: what is stored
/// stays, and the next run continues.
pub(super) fn listen(stop: &Stop) -> JoinHandle<()> {
    let stop = stop.clone();
    tokio::spawn(async move {
        signal().await;
        stop.request();
        signal().await;
        std::process::exit(Exit::Incomplete as i32);
    })
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return interrupted().await;
    };
    tokio::select! {
        () = interrupted() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn signal() {
    interrupted().await;
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Signals cannot be received here; the process ends by their default.
        std::future::pending::<()>().await;
    }
}
