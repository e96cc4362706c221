//! Long-running reads. Each read has its own connection while it runs, and is canceled when its
//! caller stops waiting.

use std::sync::Arc;
use std::time::Duration;

use super::connect::Connector;
use super::lane::LaneConnection;
use linchpin_sql::read_slots::ReadSlot;

/// The time limit for canceling a statement; after that its connection is closed.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A running read. If it is dropped before its end, the slot becomes free after the server has ended
/// the statement.
pub(super) struct Scan<'a> {
    /// The connector, used to cancel the read.
    connector: Option<&'a Arc<Connector>>,
    in_use: Option<(LaneConnection, ReadSlot)>,
}

impl<'a> Scan<'a> {
    /// A read that must be canceled on drop.
    pub(super) fn new(
        connector: &'a Arc<Connector>,
        connection: LaneConnection,
        slot: ReadSlot,
    ) -> Self {
        Self {
            connector: Some(connector),
            in_use: Some((connection, slot)),
        }
    }

    /// A read whose time limit is so short that it needs no cancel request.
    pub(super) fn short(connection: LaneConnection, slot: ReadSlot) -> Self {
        Self {
            connector: None,
            in_use: Some((connection, slot)),
        }
    }

    /// Closes the connection for all callers, because the server does not answer.
    pub(super) fn abandon(mut self) {
        if let Some((connection, _)) = self.in_use.take() {
            connection.abandon();
        }
    }

    /// Ends a read whose statement has finished. Returns its slot for the next read.
    pub(super) fn finish(mut self) -> Option<ReadSlot> {
        self.in_use.take().map(|(_, slot)| slot)
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        let Some((connection, slot)) = self.in_use.take() else {
            return;
        };
        // Without a runtime, the process is about to end, and the connection ends with it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let connector = self.connector.map(Arc::clone);
        runtime.spawn(async move {
            let end = async {
                if let Some(connector) = connector {
                    connector.cancel(&connection.live.client).await?;
                }
                // Responses come in order: this one means that the previous statement has ended.
                connection.live.client.simple_query("").await.map(drop)
            };
            match tokio::time::timeout(CANCEL_TIMEOUT, end).await {
                Ok(Ok(())) => {}
                // The statement may run for a long time, and the next caller would wait for it.
                Ok(Err(error)) => {
                    tracing::debug!(%error, "could not cancel the statement of a caller that stopped waiting");
                    connection.abandon();
                }
                Err(_) => connection.abandon(),
            }
            drop(slot);
        });
    }
}
