//! What a permission costs in statements: nothing, unless there is something to find out.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use linchpin::entity::EntityDesc;
use linchpin::store::memory::Memory;
use linchpin::store::{Plan, Reply, Rows, Statement, Store};
use linchpin::{Result, Value};
use serde_json::{Value as Json, json};

use crate::permissions::{WORK, judged};
use crate::server::Server;
use crate::tenancy::{call, id, made};

/// Counts statements.
struct Counted {
    store: Memory,
    ran: Arc<AtomicUsize>,
}

impl Store for Counted {
    fn name(&self) -> &'static str {
        self.store.name()
    }

    fn supports(&self, capability: &str) -> bool {
        self.store.supports(capability)
    }

    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>> {
        self.store.prepare(entity, plan)
    }

    fn run<'a>(&'a self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        self.ran.fetch_add(1, Ordering::SeqCst);
        self.store.run(statement, args, rows)
    }

    fn install<'a>(&'a self, entities: &'a [&'static EntityDesc]) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        self.store.install(entities)
    }

    fn ready(&self) -> Pin<Box<dyn Future<Output = Result<()>> + Send + '_>> {
        self.store.ready()
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.store.close()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements() {
    let ran = Arc::new(AtomicUsize::new(0));
    let store = Counted { store: Memory::new(), ran: Arc::clone(&ran) };
    let s = Server::memory_with(&WORK, |app| judged(app).store(Arc::new(store))).await;
    let (ann, bob, writer) = (s.token("ann", &[]), s.token("bob", &[]), s.token("w", &["paper.write", "write@c1"]));
    let paper = made(&s, &ann, "/papers", json!({"slug": "a", "title": "T", "authorId": "ann"})).await;
    let thread = made(&s, &ann, "/threads", json!({"slug": "a", "title": "T", "authorId": "ann", "containerId": "c1"})).await;
    assert_eq!(ran.load(Ordering::SeqCst), 2, "one for each that is created");
    let (paper, thread) = (format!("/papers/{}", id(&paper)), format!("/threads/{}", id(&thread)));
    let title = || json!({"title": "new"});
    for (token, method, path, body, status, statements) in [
        (&ann, "GET", "/papers", Json::Null, 200, 1),
        (&writer, "GET", "/papers", Json::Null, 200, 1),
        (&ann, "GET", "/papers/titled?title=T", Json::Null, 200, 1),
        (&ann, "GET", "/papers/stats", Json::Null, 200, 1),
        (&ann, "GET", &paper, Json::Null, 200, 1),
        (&ann, "PATCH", &paper, title(), 200, 1),
        (&writer, "PATCH", &paper, title(), 200, 1),
        (&ann, "POST", &format!("{paper}/view"), Json::Null, 200, 1),
        (&ann, "POST", "/papers/send-all", title(), 200, 1),
        // Hidden records are not told from missing ones, so nothing is left to find out.
        (&bob, "GET", &paper, Json::Null, 404, 1),
        // 403 or 404: one more says, behind the one that says why nothing was changed.
        (&bob, "PATCH", &paper, title(), 403, 3),
        (&bob, "DELETE", &paper, Json::Null, 403, 0),
        (&bob, "POST", "/papers", json!({"slug": "b", "title": "T", "authorId": "ann"}), 403, 0),
        // The record says of which resource it is.
        (&writer, "PATCH", &thread, title(), 200, 2),
        (&bob, "PATCH", &thread, title(), 403, 1),
        (&writer, "GET", "/threads/of-container?container=c1", Json::Null, 200, 1),
        (&bob, "GET", "/threads", Json::Null, 200, 1),
    ] {
        let before = ran.load(Ordering::SeqCst);
        let reply = call(&s, token, method, path, body).await;
        assert_eq!((reply.status, ran.load(Ordering::SeqCst) - before), (status, statements), "{method} {path}");
    }
}
