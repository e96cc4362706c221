//! Clients that stay connected and read nothing.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use crate::bed::Bed;

const PATH: &str = "/__sse/boards";

/// Although the queue has room, the response ends after the limit of sockets, and not only after
/// the longer one of all responses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_no_byte_ends_after_the_limit_of_sockets() {
    let change = |plugin: linchpin_realtime::Realtime| {
        plugin.configure(|config| {
            config.limits.stall = Duration::from_secs(1);
            config.limits.queue_bytes = 16 << 20;
            config.limits.queue_frames = 4096;
        })
    };
    let bed = Bed::with(change, |auth| auth).await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let (mut reading, _) = bed.open(&bob, PATH).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stalled = socket.connect(bed.address()).await.unwrap();
    let head = format!(
        "GET {PATH} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
        bed.address(),
        ada.token
    );
    stalled.write_all(head.as_bytes()).await.unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while bed.connections(PATH) < 2 {
        assert!(Instant::now() < patience, "the stream is not open");
        tokio::task::yield_now().await;
    }
    // More than the buffers of the system hold, and less than the queue.
    let name = "x".repeat(60_000);
    for _ in 0..120 {
        bed.board(&ada, &name, true).await;
        reading.event().await.unwrap();
    }
    while bed.connections(PATH) > 1 {
        assert!(Instant::now() < patience, "the stalled stream is open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bed.board(&ada, "last", true).await;
    assert!(reading.event().await.unwrap().data.contains("last"));
    drop(stalled);
}
