//! Runs CPU-bound work on threads with low priority, so that requests are not delayed.

use std::sync::Arc;
use std::time::Duration;

use linchpin::{Error, Result};
use tokio::sync::{Semaphore, oneshot};

/// Work that takes longer than this is starved: other threads use its core.
const STARVED_AFTER: Duration = Duration::from_secs(2);

/// Runs work with low priority.
#[derive(Clone, Debug)]
pub(super) struct LowPriority {
    /// Permits for threads that run only on idle cores. A starved thread keeps its permit. Work
    /// that gets no permit does not wait: its thread runs with [`Share::Tenth`].
    idle: Arc<Semaphore>,
}

/// The priority of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// The thread runs only on idle cores.
    Idle,
    /// About a tenth of a core if another thread wants all of it. So a server under full load still
    /// signs users in.
    Tenth,
}

impl LowPriority {
    /// `at_once` threads may run on idle cores.
    pub(super) fn new(at_once: usize) -> Self {
        Self {
            idle: Arc::new(Semaphore::new(at_once)),
        }
    }

    /// Runs work on a new thread: the work takes a thousand times as long as the start of a thread.
    /// It may run twice, if the first thread is starved.
    ///
    /// # Errors
    /// 503 if the system cannot start a thread.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Fn() -> T + Send + Sync + 'static,
    ) -> Result<T> {
        let work = Arc::new(work);
        let Ok(permit) = Arc::clone(&self.idle).try_acquire_owned() else {
            return done(start(Share::Tenth, move || work())?.await);
        };
        let second_work = Arc::clone(&work);
        let mut first = start(Share::Idle, move || {
            let _permit = permit;
            work()
        })?;
        tokio::select! {
            result = &mut first => return done(result),
            () = tokio::time::sleep(STARVED_AFTER) => {}
        }
        // A thread cannot raise its priority again unless the process has that privilege.
        let second = start(Share::Tenth, move || second_work())?;
        tokio::select! {
            result = first => done(result),
            result = second => done(result),
        }
    }
}

/// Starts a thread that sends one result.
fn start<T: Send + 'static>(
    share: Share,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<T>> {
    let (answer, result) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("linchpin-hash".into())
        .spawn(move || {
            if let Err(e) = lower_priority(share) {
                tracing::debug!("hashing runs with normal priority: {e}");
            }
            // The receiver may be gone; the work is done anyway.
            let _ = answer.send(work());
        });
    thread
        .map_err(|_| Error::unavailable("the system cannot start a thread for a password hash"))?;
    Ok(result)
}

fn done<T>(result: std::result::Result<T, oneshot::error::RecvError>) -> Result<T> {
    result.map_err(|_| Error::internal("the thread that hashed a password stopped early"))
}

/// Lowers the priority of the current thread.
#[cfg(target_os = "linux")]
fn lower_priority(share: Share) -> std::result::Result<(), thread_priority::Error> {
    use thread_priority::{
        NormalThreadSchedulePolicy as Policy, ThreadPriority, ThreadPriorityValue,
        ThreadSchedulePolicy,
    };
    // Priority in percent, where 50 is normal: a niceness of 10.
    const TENTH: u8 = 25;
    let (policy, priority) = match share {
        Share::Idle => (Policy::Idle, ThreadPriority::Min),
        Share::Tenth => (
            Policy::Other,
            ThreadPriority::Crossplatform(ThreadPriorityValue::try_from(TENTH).unwrap_or_default()),
        ),
    };
    let this = thread_priority::thread_native_id();
    thread_priority::set_thread_priority_and_policy(
        this,
        priority,
        ThreadSchedulePolicy::Normal(policy),
    )
}

#[cfg(not(target_os = "linux"))]
fn lower_priority(_: Share) -> std::result::Result<(), std::convert::Infallible> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[cfg(target_os = "linux")]
    fn policy() -> thread_priority::NormalThreadSchedulePolicy {
        match thread_priority::thread_schedule_policy().expect("a policy") {
            thread_priority::ThreadSchedulePolicy::Normal(policy) => policy,
            other @ thread_priority::ThreadSchedulePolicy::Realtime(_) => panic!("{other:?}"),
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn hashing_runs_at_idle_priority() {
        use thread_priority::NormalThreadSchedulePolicy as Policy;
        let low_priority = LowPriority::new(1);
        assert_eq!(low_priority.run(policy).await.expect("done"), Policy::Idle);
        // The second thread does not wait for a permit.
        let full = LowPriority::new(0);
        assert_eq!(full.run(policy).await.expect("done"), Policy::Other);
        let nice = full
            .run(|| {
                std::fs::read_to_string("/proc/thread-self/stat").expect("numbers of this thread")
            })
            .await
            .expect("done");
        let nice = nice
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(16)?.parse::<i32>().ok());
        assert!(matches!(nice, Some(9..=10)), "{nice:?}");
    }

    /// The paused clock advances when no task can run.
    #[tokio::test(start_paused = true)]
    async fn hashing_without_a_free_core_runs_on_another_thread() {
        let (release, starvation) = mpsc::channel::<()>();
        let starvation = Mutex::new(starvation);
        let begun = Arc::new(AtomicUsize::new(0));
        let low_priority = LowPriority::new(1);
        let count = Arc::clone(&begun);
        let work = move || {
            let turn = count.fetch_add(1, Ordering::SeqCst);
            if turn == 0 {
                // This thread is starved until the test ends.
                let _ = starvation.lock().expect("the lock is not poisoned").recv();
            }
            turn
        };
        let first = tokio::spawn({
            let low_priority = low_priority.clone();
            async move { low_priority.run(work).await }
        });
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(first.await.expect("it ends").expect("done"), 1);
        // The starved thread keeps its permit. Other work does not wait for this permit.
        assert_eq!(low_priority.idle.available_permits(), 0);
        let count = Arc::clone(&begun);
        assert_eq!(
            low_priority
                .run(move || count.fetch_add(1, Ordering::SeqCst))
                .await
                .expect("done"),
            2
        );
        drop(release);
        while low_priority.idle.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
    }
}
