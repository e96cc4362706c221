//! New epochs for all streams.

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::Inner;
use super::tops::AT_ONCE;
use crate::engine::{History, Result};

/// Gives all streams new epochs. Streams that begin during the call already have a new one.
pub(super) async fn renew(inner: &Inner) -> Result<()> {
    let subjects = inner.subjects().await?;
    stream::iter(subjects)
        .map(|subject| async move {
            // A valid position keeps its lifetime. Only an expired or unreadable one gets the
            // lifetime of this history.
            let history = History::default();
            inner.begin_if(&subject, history, |_| true).await.map(drop)
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}
