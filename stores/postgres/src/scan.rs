//! Reads that may take long: each has its own connection while it runs, and is canceled when its
//! caller stops waiting.

use std::sync::Arc;
use std::time::Duration;

use super::connect::Connector;
use super::lane::Place;
use linchpin_sql::read_slots::ReadSlot;

/// The time limit for canceling a statement; after that its connection is closed.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running read. If it is dropped before its end, its slot becomes free when the server has
/// finished with it.
pub(super) struct Scan<'a> {
    /// The connector, used to cancel the read.
    connector: Option<&'a Arc<Connector>>,
    held: Option<(Place, ReadSlot)>,
}

impl<'a> Scan<'a> {
    /// A read that must be canceled on drop.
    pub(super) fn new(connector: &'a Arc<Connector>, connection: Place, slot: ReadSlot) -> Self {
        Self {
            connector: Some(connector),
            held: Some((connection, slot)),
        }
    }

    /// A read whose time limit is so short that it needs no cancel request.
    pub(super) fn short(connection: Place, slot: ReadSlot) -> Self {
        Self {
            connector: None,
            held: Some((connection, slot)),
        }
    }

    /// Closes the connection for all callers, because the server does not answer.
    pub(super) fn abandon(mut self) {
        if let Some((connection, _)) = self.held.take() {
            connection.abandon();
        }
    }

    /// Ends a read that has finished by itself. Returns its slot for the next read.
    pub(super) fn over(mut self) -> Option<ReadSlot> {
        self.held.take().map(|(_, slot)| slot)
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        let Some((connection, slot)) = self.held.take() else {
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
            match tokio::time::timeout(PATIENCE, end).await {
                Ok(Ok(())) => {}
                // The statement may run for a long time, and the next caller would wait for it.
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a statement that nobody waits for could not be ended");
                    connection.abandon();
                }
                Err(_) => connection.abandon(),
            }
            drop(slot);
        });
    }
}
