//! New epochs for all streams.

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::link::Link;
use super::{Inner, scripts, with_timeout};
use crate::engine::{EngineError, Epoch, Result};

/// The number of streams that are renewed at once.
const AT_ONCE: usize = 64;
/// How often the search is restarted because slots of the cluster have moved.
const MOVES: usize = 5;

/// Gives all streams new epochs. Streams that begin during the call already have a new one.
pub(super) async fn renew(inner: &Inner) -> Result<()> {
    let mut link = inner.link().await?;
    let mut slots = with_timeout(link.slots()).await?;
    for _ in 0..MOVES {
        for master in slots.masters() {
            renew_on(inner, &mut link, master).await?;
        }
        // The search may have missed a stream that moved between two masters.
        let now = with_timeout(link.slots()).await?;
        if now == slots {
            return Ok(());
        }
        slots = now;
    }
    Err(EngineError::unavailable(
        "the slots of the cluster are being moved; try again later",
    ))
}

/// Renews the streams of one master.
async fn renew_on(inner: &Inner, link: &mut Link, master: Option<u16>) -> Result<()> {
    let pattern = inner.keys.positions();
    let mut cursor = "0".to_owned();
    loop {
        let (next, keys) = with_timeout(link.scan(master, &cursor, &pattern)).await?;
        let mut logs = Vec::with_capacity(keys.len());
        for key in &keys {
            logs.extend(inner.keys.log_of_position(key));
        }
        stream::iter(logs)
            .map(|(log, channel)| {
                let mut link = link.clone();
                async move {
                    let mut call = scripts::RENEW_SCRIPT.prepare_invoke();
                    call.key(&log).key(channel).arg(Epoch::random().as_str());
                    with_timeout(link.invoke::<i64>(&call)).await.map(drop)
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
}
