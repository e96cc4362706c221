//! Reads that may take long: each has a connection to itself while it runs, and ends with whoever
//! asked for it.

use std::sync::Arc;
use std::time::Duration;

use super::connect::Connector;
use super::lane::Place;
use linchpin_sql::places;

/// How long ending a statement may take; after that its connection is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// A read that runs. When it is dropped before its end, its place is free once the server is
/// through with it.
pub(super) struct Scan<'a> {
    /// The way to have the server end it.
    connector: Option<&'a Arc<Connector>>,
    held: Option<(Place, places::Place)>,
}

impl<'a> Scan<'a> {
    /// One that the server is asked to end.
    pub(super) fn new(
        connector: &'a Arc<Connector>,
        connection: Place,
        place: places::Place,
    ) -> Self {
        Self {
            connector: Some(connector),
            held: Some((connection, place)),
        }
    }

    /// One that the server ends of itself before anybody could ask it to.
    pub(super) fn brief(connection: Place, place: places::Place) -> Self {
        Self {
            connector: None,
            held: Some((connection, place)),
        }
    }

    /// The server does not answer: the connection is given up for everybody.
    pub(super) fn abandon(mut self) {
        if let Some((connection, _)) = self.held.take() {
            connection.abandon();
        }
    }

    /// It has ended by itself: its place is free for the next.
    pub(super) fn over(mut self) -> Option<places::Place> {
        self.held.take().map(|(_, place)| place)
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        let Some((connection, place)) = self.held.take() else {
            return;
        };
        // Without a runtime the process ends, and with it the connection.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let connector = self.connector.map(Arc::clone);
        runtime.spawn(async move {
            let end = async {
                if let Some(connector) = connector {
                    connector.cancel(&connection.live.client).await?;
                }
                // Answers come in turn: this one says that the statement before it is over.
                connection.live.client.simple_query("").await.map(drop)
            };
            match tokio::time::timeout(PATIENCE, end).await {
                Ok(Ok(())) => {}
                // It may go on for long, and whoever came next would wait behind it.
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a statement that nobody waits for could not be ended");
                    connection.abandon();
                }
                Err(_) => connection.abandon(),
            }
            drop(place);
        });
    }
}
