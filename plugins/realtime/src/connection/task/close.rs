//! The closing handshake of a connection.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::{Task, would_block};
use crate::connection::output::Progress;
use crate::protocol::Close;

/// The time limit for the last frames, the close frame and the answer of the client.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

impl Task {
    /// Sends the waiting frames and the close frame, and waits for the answer of the client.
    pub(super) async fn close(mut self, why: Close) {
        if matches!(why, Close::SlowConsumer | Close::Heartbeat) {
            self.connection.clear();
        }
        let frame = CloseFrame {
            code: why.code().into(),
            reason: Utf8Bytes::from_static(why.reason()),
        };
        let handshake = async {
            self.written().await?;
            match self.ws.close(Some(frame)) {
                Ok(()) => {}
                Err(error) if would_block(&error) => {}
                Err(_) => return None,
            }
            self.written().await?;
            // Read everything that the client sends: with unread bytes, the operating system resets
            // the connection, and the client may lose the close frame.
            poll_fn(|cx| self.poll_close_reply(cx)).await;
            poll_fn(|cx| self.connection.shut_down(cx)).await.ok()?;
            poll_fn(|cx| self.poll_eof(cx)).await;
            Some(())
        };
        let _ = timeout(CLOSE_TIMEOUT, handshake).await;
        self.connection.finish(why);
    }

    /// Waits until everything is written. Returns `None` if the connection is broken.
    async fn written(&mut self) -> Option<()> {
        let connection = &self.connection;
        poll_fn(|cx| {
            connection.register(cx.waker());
            match connection.write(Instant::now()).0 {
                Progress::All => Poll::Ready(Some(())),
                Progress::Part => Poll::Pending,
                Progress::Broken => Poll::Ready(None),
            }
        })
        .await
    }

    /// Reads and drops messages until the client has answered the close frame.
    fn poll_close_reply(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.unreadable {
            return Poll::Ready(());
        }
        self.connection.register(cx.waker());
        loop {
            match self.ws.read() {
                Ok(_) => {}
                Err(error) if would_block(&error) => return Poll::Pending,
                Err(_) => return Poll::Ready(()),
            }
        }
    }

    /// Reads and drops bytes until the client has closed its side.
    fn poll_eof(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.connection.register(cx.waker());
        let mut rest = [0; 512];
        loop {
            match self.connection.read(&mut rest) {
                Ok(n) if n > 0 => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                _ => return Poll::Ready(()),
            }
        }
    }
}
