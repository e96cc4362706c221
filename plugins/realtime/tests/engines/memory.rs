//! Tests of the memory engine.

use std::sync::Arc;

use linchpin::{BoxFuture, Timestamp};
use linchpin_realtime::engine::conformance::Harness;
use linchpin_realtime::engine::{Clock, Engine, History, MemoryEngine, Stream};
use parking_lot::Mutex;

#[derive(Default)]
struct Memory(Mutex<Option<MemoryEngine>>);

impl Memory {
    fn with(&self, act: impl Fn(&MemoryEngine)) -> BoxFuture<'_, ()> {
        act(self.0.lock().as_ref().expect("a node"));
        Box::pin(async {})
    }
}

impl Harness for Memory {
    fn node(&self, clock: Clock) -> BoxFuture<'_, Arc<dyn Engine>> {
        let mut first = self.0.lock();
        let first = first.get_or_insert_with(|| MemoryEngine::new(clock));
        let node = Arc::new(first.another_node()) as Arc<dyn Engine>;
        Box::pin(async { node })
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        self.with(MemoryEngine::flush)
    }

    fn lose_stream<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, ()> {
        self.with(|engine| engine.lose_stream(stream))
    }

    fn lose_frames<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, ()> {
        self.with(|engine| engine.lose_frames(stream))
    }

    fn rewind<'a>(&'a self, stream: &'a str, offset: u64) -> BoxFuture<'a, ()> {
        self.with(|engine| engine.rewind(stream, offset))
    }

    fn cut(&self) -> BoxFuture<'_, ()> {
        self.with(MemoryEngine::cut)
    }

    fn mend(&self) -> BoxFuture<'_, ()> {
        self.with(MemoryEngine::recover)
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        self.with(MemoryEngine::fail)
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        self.with(MemoryEngine::recover)
    }
}

linchpin_realtime::engine_conformance!(Memory::default());

#[tokio::test]
async fn a_restart_changes_all_epochs() {
    let stream = Stream::new("a", History::default());
    let start = || MemoryEngine::new(Arc::new(Timestamp::system_now));
    let (before, after) = (start(), start());
    assert_ne!(
        before.top(&stream).await.unwrap().epoch,
        after.top(&stream).await.unwrap().epoch
    );
}
