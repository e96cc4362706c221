//! Ends a run when the process receives Ctrl-C or SIGTERM.

use tokio::task::JoinHandle;

use crate::backfill::Stop;
use crate::error::Exit;

/// Listens for Ctrl-C and SIGTERM until the task is aborted. The first signal ends the run after
/// the current batch or step. The second one ends the process at once, as a crash does: committed
/// batches stay, and the next run continues after them.
pub(super) fn listen(stop: &Stop) -> JoinHandle<()> {
    let stop = stop.clone();
    tokio::spawn(async move {
        wait_for_signal().await;
        stop.request();
        wait_for_signal().await;
        std::process::exit(Exit::Incomplete as i32);
    })
}

/// Waits for Ctrl-C or SIGTERM.
#[cfg(unix)]
async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return wait_for_ctrl_c().await;
    };
    tokio::select! {
        () = wait_for_ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn wait_for_signal() {
    wait_for_ctrl_c().await;
}

async fn wait_for_ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        // The process cannot receive signals here; their default action ends it.
        std::future::pending::<()>().await;
    }
}
