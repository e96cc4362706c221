//! Time and panics: what every request is protected from, in one poll.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::{Code, Error};

/// Runs `work` for at most `limit`, and turns a panic into an error.
///
/// The timer starts when the work first has to wait: a request answered at once, as an embedded store does, pays nothing.
///
/// # Errors
/// `timeout`, and `internal` with the text of the panic as its cause.
pub(super) async fn guarded<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Error> {
    let mut work = pin!(work);
    let mut timer = pin!(None);
    poll_fn(|cx| {
        // A panic leaves `work` poisoned; it is not polled again.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(Poll::Ready(done)) => return Poll::Ready(Ok(done)),
            Ok(Poll::Pending) => {}
            Err(panic) => return Poll::Ready(Err(Error::internal(panic_text(&*panic)))),
        }
        if timer.is_none() {
            timer.set(Some(tokio::time::sleep(limit)));
        }
        match timer.as_mut().as_pin_mut().map(|timer| timer.poll(cx)) {
            Some(Poll::Ready(())) => Poll::Ready(Err(Error::new(Code::Timeout, "The request took too long"))),
            _ => Poll::Pending,
        }
    })
    .await
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("a value that is not text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_is_bounded_and_panics_are_errors() {
        let limit = Duration::from_secs(30);
        assert_eq!(guarded(limit, async { 7 }).await.unwrap(), 7);
        assert_eq!(guarded(limit, tokio::time::sleep(Duration::from_secs(29))).await.ok(), Some(()));
        let late = guarded(limit, std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(late.code(), Code::Timeout);
        let panicked = guarded(limit, async {
            tokio::task::yield_now().await;
            assert!(std::hint::black_box(false), "boom {}", 1);
        });
        let error = panicked.await.unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        assert!(format!("{error:?}").contains("boom 1"), "{error:?}");
    }
}
