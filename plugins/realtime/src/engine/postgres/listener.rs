//! Receives the notices of all nodes.

use std::time::Duration;

use bytes::Bytes;
use sqlx::postgres::PgListener;

use super::notice::{self, Body, Notice};
use super::{Inner, STATEMENT_TIMEOUT, State};

/// The delay before the next attempt to connect. It doubles up to [`MAX_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(50);
const MAX_RETRY: Duration = Duration::from_secs(2);
/// A connection that receives nothing for this time is broken: nodes notify every 5 seconds.
const SILENCE: Duration = Duration::from_secs(20);

/// Listens while the engine is open. Updates the engine's state when the connection changes.
pub(super) async fn run(inner: &Inner) {
    let mut retry = FIRST_RETRY;
    loop {
        match tokio::time::timeout(STATEMENT_TIMEOUT, connect(inner)).await {
            Ok(Ok(mut listener)) => {
                retry = FIRST_RETRY;
                set_state(inner, State::Connected);
                inner.feeds.request_all_comparisons();
                let error = listen(inner, &mut listener).await;
                set_state(inner, State::Disconnected);
                tracing::warn!(error = %error, "the realtime engine has lost its connection");
            }
            Ok(Err(error)) => {
                tracing::warn!(error = %error, "the realtime engine cannot connect");
            }
            Err(_) => tracing::warn!("the realtime engine cannot connect: no answer"),
        }
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(MAX_RETRY);
    }
}

fn set_state(inner: &Inner, state: State) {
    inner.state.send_if_modified(|own| {
        let changed = *own != State::Closed && *own != state;
        if changed {
            *own = state;
        }
        changed
    });
}

async fn connect(inner: &Inner) -> sqlx::Result<PgListener> {
    let mut listener = PgListener::connect_with(&inner.listen_pool).await?;
    listener.eager_reconnect(false);
    if let Some(channel) = inner.channel.get() {
        listener.listen(channel).await?;
    }
    Ok(listener)
}

/// Passes on notices until the connection breaks.
async fn listen(inner: &Inner, listener: &mut PgListener) -> String {
    loop {
        match tokio::time::timeout(SILENCE, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => {
                for notice in notice::decode(notification.payload()) {
                    dispatch(inner, notice).await;
                }
            }
            Ok(Ok(None)) => return "it was closed".to_owned(),
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return format!("nothing was received for {} seconds", SILENCE.as_secs()),
        }
    }
}

/// Passes a notice to the part of the engine that it concerns.
async fn dispatch(inner: &Inner, notice: Notice) {
    match notice {
        Notice::Alive => {}
        Notice::Renewed => inner.feeds.request_all_comparisons(),
        Notice::Changed(tag) => inner.reader.wake([tag]),
        Notice::Message(stream, body) => {
            if inner.feeds.is_open(&stream)
                && let Some(message) = content(inner, body).await
            {
                inner.feeds.message(&stream, &message);
            }
        }
        Notice::Control(to, body) => {
            if to.is_none_or(|to| to == inner.node)
                && let Some(message) = content(inner, body).await
            {
                inner.controls.pass(message);
            }
        }
    }
}

/// Returns the bytes of a message. If its row cannot be read now, the message is lost.
async fn content(inner: &Inner, body: Body) -> Option<Bytes> {
    let row = match body {
        Body::Inline(bytes) => return Some(bytes.into()),
        Body::Stored(row) => row,
    };
    let query = sqlx::query_scalar::<_, Vec<u8>>(
        "SELECT body FROM linchpin_realtime_messages WHERE id = $1",
    )
    .bind(row);
    match inner.run(query.fetch_optional(&inner.pool)).await {
        Ok(message) => message.map(Bytes::from),
        Err(error) => {
            tracing::warn!(error = %error, "a message of the realtime engine was lost");
            None
        }
    }
}
