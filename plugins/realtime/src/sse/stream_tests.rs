//! Tests of the body of a response with events. The tests set the clock.

use futures_util::StreamExt;

use super::*;
use crate::connection::tests::{Node, START, identity};
use crate::connection::{Class, Limits, Meter, Pushed};
use crate::protocol::{Position, ServerFrame};
use crate::sse::{UnplacedBlocks, opening};

struct Open {
    stream: EventStream,
    connection: Arc<Connection>,
    node: Arc<Node>,
    meter: Arc<Meter>,
}

fn position(offset: u64) -> Position {
    Position::new("e", offset)
}

/// Opens a stream and reads its first block.
async fn open(token: &str, heartbeat: Option<u64>) -> Open {
    let (node, meter) = (Arc::new(Node::default()), Arc::new(Meter::default()));
    let connection = Connection::events(
        "s1",
        identity(token),
        Arc::new(Limits::default()),
        Arc::clone(&meter),
    );
    let start = Instant::now();
    let settings = StreamSettings {
        hub: Arc::clone(&node) as Arc<dyn Hub>,
        clock: Arc::new(move || Timestamp::from_millis(START + start.elapsed().as_millis() as i64)),
        heartbeat: heartbeat.map(Duration::from_secs),
    };
    let mut stream = EventStream::new(Arc::clone(&connection), settings);
    stream.begin([opening(&position(41))]);
    let mut open = Open {
        stream,
        connection,
        node,
        meter,
    };
    assert_eq!(open.text().await, ": connected\nretry: 3000\nid: e-41\n\n");
    open
}

impl Open {
    /// Returns the next blocks; empty at the end.
    async fn text(&mut self) -> String {
        let bytes = self.stream.next().await.unwrap_or_default();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn send(&self, offset: u64) -> Pushed {
        let blocks = UnplacedBlocks::new("x", &[], &offset.to_string());
        self.connection.send(blocks.at(&position(offset)))
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_sends_heartbeats_and_a_skipped_position_once() {
    let mut open = open("alice", Some(15)).await;
    let before = Instant::now();
    assert_eq!(open.text().await, ": keep-alive\n\n");
    assert_eq!(before.elapsed(), Duration::from_secs(15));
    open.connection.skip_to(position(57));
    assert_eq!(open.text().await, ": keep-alive\nid: e-57\n\n");
    assert_eq!(open.text().await, ": keep-alive\n\n");
    // An event restarts the time until the next heartbeat.
    tokio::time::sleep(Duration::from_secs(10)).await;
    open.send(58);
    assert_eq!(open.text().await, "event: x\nid: e-58\ndata: 58\n\n");
    let before = Instant::now();
    assert_eq!(open.text().await, ": keep-alive\n\n");
    assert_eq!(before.elapsed(), Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn a_stream_sends_queued_events_before_its_close_event() {
    let mut open = open("alice", None).await;
    open.send(42);
    open.connection.close(Close::SessionEnded);
    assert_eq!(open.send(43), Pushed::Closed);
    assert_eq!(open.text().await, "event: x\nid: e-42\ndata: 42\n\n");
    assert_eq!(
        open.text().await,
        "event: linchpin:close\ndata: {\"code\":4401,\"reason\":\"session_ended\"}\n\n"
    );
    assert_eq!(open.text().await, "");
    assert_eq!(open.meter.read().closes, [(Close::SessionEnded, 1)]);
    let Open { stream, node, .. } = open;
    drop(stream);
    assert_eq!(node.calls(), ["ended"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_ends_the_stream_after_the_grace_period() {
    let mut open = open("alice/90000", None).await;
    let before = Instant::now();
    assert!(open.text().await.contains("token_expired"));
    assert_eq!(before.elapsed(), Duration::from_mins(2));
    assert_eq!(open.text().await, "");
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_a_slow_client_ends_without_a_close_event() {
    let mut open = open("alice", Some(15)).await;
    while open.send(42) == Pushed::Queued {}
    assert_eq!(open.text().await, "");
    let Open {
        stream,
        connection,
        meter,
        ..
    } = open;
    drop((stream, connection));
    let reading = meter.read();
    assert_eq!(reading.closes, [(Close::SlowConsumer, 1)]);
    assert_eq!((reading.connections, reading.queue_bytes), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_stream_at_the_announced_time_and_sends_the_retry_time() {
    let mut open = open("alice", Some(15)).await;
    let before = Instant::now();
    open.connection.drain(Duration::from_secs(4));
    open.send(42);
    assert!(open.text().await.contains("e-42"));
    assert_eq!(open.text().await, "retry: 3000\n\n");
    assert_eq!(before.elapsed(), Duration::from_secs(4));
    assert_eq!(open.text().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_its_connection() {
    let open = open("alice", Some(15)).await;
    let Open {
        stream,
        connection,
        node,
        meter,
        ..
    } = open;
    drop(stream);
    assert_eq!(node.calls(), ["ended"]);
    let frame = ServerFrame::pong(None);
    assert_eq!(connection.push(frame, Class::Durable), Pushed::Closed);
    drop(connection);
    let reading = meter.read();
    assert!(reading.closes.is_empty());
    assert_eq!((reading.connections, reading.queue_bytes), (0, 0));
}
