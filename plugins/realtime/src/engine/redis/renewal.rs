//! New epochs for all streams.

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::link::Link;
use super::{Inner, scripts, within};
use crate::engine::{EngineError, Epoch, Result};

/// The number of streams that are renewed at once.
const AT_ONCE: usize = 64;
/// How often the search begins again because the slots of a cluster have moved.
const MOVES: usize = 5;

/// Gives all streams new epochs. Streams that begin meanwhile have a new one already.
pub(super) async fn renew(inner: &Inner) -> Result<()> {
    let mut link = inner.link().await?;
    let mut slots = within(link.slots()).await?;
    for _ in 0..MOVES {
        for master in slots.masters() {
            renew_on(inner, &mut link, master).await?;
        }
        // A stream that moved between two masters during the search may have been passed over.
        let now = within(link.slots()).await?;
        if now == slots {
            return Ok(());
        }
        slots = now;
    }
    Err(EngineError::unavailable("the slots of the cluster move"))
}

/// Renews the streams of one master.
async fn renew_on(inner: &Inner, link: &mut Link, master: Option<u16>) -> Result<()> {
    let pattern = inner.keys.positions();
    let mut cursor = "0".to_owned();
    loop {
        let (next, keys) = within(link.scan(master, &cursor, &pattern)).await?;
        let mut logs = Vec::with_capacity(keys.len());
        for key in &keys {
            logs.extend(inner.keys.of_position(key));
        }
        stream::iter(logs)
            .map(|(log, channel)| {
                let mut link = link.clone();
                async move {
                    let mut call = scripts::RENEWS.prepare_invoke();
                    call.key(&log).key(channel).arg(Epoch::random().as_str());
                    within(link.invoke::<i64>(&call)).await.map(drop)
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
