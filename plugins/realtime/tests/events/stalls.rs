//! Tests of clients that stay connected and read nothing.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use crate::test_app::TestApp;

const PATH: &str = "/__sse/boards";

/// The response ends after `limits.stall`, although its queue is not full. The longer limit of the
/// server for other responses does not apply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_is_closed_after_the_limit_of_sockets() {
    let change = |plugin: linchpin_realtime::Realtime| {
        plugin.configure(|config| {
            config.limits.stall = Duration::from_secs(1);
            config.limits.queue_bytes = 16 << 20;
            config.limits.queue_frames = 4096;
        })
    };
    let test_app = TestApp::with(change, |auth| auth).await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let (mut reading, _) = test_app.open(&bob, PATH).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stalled = socket.connect(test_app.address()).await.unwrap();
    let head = format!(
        "GET {PATH} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
        test_app.address(),
        ada.token
    );
    stalled.write_all(head.as_bytes()).await.unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    while test_app.connections(PATH) < 2 {
        assert!(Instant::now() < deadline, "the stream is not open");
        tokio::task::yield_now().await;
    }
    // More data than the buffers of the system hold, and less than the queue holds.
    let name = "x".repeat(60_000);
    for _ in 0..120 {
        test_app.board(&ada, &name, true).await;
        reading.event().await.unwrap();
    }
    while test_app.connections(PATH) > 1 {
        assert!(Instant::now() < deadline, "the stalled stream is open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    test_app.board(&ada, "last", true).await;
    assert!(reading.event().await.unwrap().data.contains("last"));
    drop(stalled);
}
