//! Limits the time of a request and turns its panics into errors, in one poll.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use crate::{Code, Error};

/// Runs `work` for at most `limit`, and converts a panic into an error.
///
/// The timer starts when the work first waits. A request that never waits, as with an embedded
/// store, needs no timer.
///
/// # Errors
/// `timeout`, and `internal` with the text of the panic as its cause.
pub(super) async fn protected<T>(
    limit: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Result<T, Error> {
    // Boxed, because few requests need the timer, and it would enlarge the future of every request.
    let mut timer = None;
    poll_fn(|cx| {
        // After a panic, `work` is not polled again.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(Poll::Ready(done)) => return Poll::Ready(Ok(done)),
            Ok(Poll::Pending) => {}
            Err(panic) => return Poll::Ready(Err(Error::internal(panic_text(&*panic)))),
        }
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        timer
            .as_mut()
            .poll(cx)
            .map(|()| Err(Error::new(Code::Timeout, "The request took too long")))
    })
    .await
}

pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!(
        "panicked: {}",
        text.unwrap_or("(panic payload is not a string)")
    )
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn handlers_time_out_and_their_panics_are_errors() {
        let limit = Duration::from_secs(30);
        assert_eq!(protected(limit, pin!(async { 7 })).await.unwrap(), 7);
        assert_eq!(
            protected(limit, pin!(tokio::time::sleep(Duration::from_secs(29))))
                .await
                .ok(),
            Some(())
        );
        let late = protected(limit, pin!(std::future::pending::<()>()))
            .await
            .unwrap_err();
        assert_eq!(late.code(), Code::Timeout);
        let panics = pin!(async {
            tokio::task::yield_now().await;
            assert!(std::hint::black_box(false), "boom {}", 1);
        });
        let error = protected(limit, panics).await.unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        assert!(format!("{error:?}").contains("boom 1"), "{error:?}");
    }
}
