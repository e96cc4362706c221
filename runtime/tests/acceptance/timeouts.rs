//! A route whose time limit ends while its statement waits.

#![allow(missing_docs)] // test entities

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linchpin::prelude::*;
use serde_json::json;

use crate::cases;
use crate::server::Server;

/// An entity whose create route has a short time limit.
#[entity(routes(auth = none, create(timeout = "300ms")))]
#[derive(Clone, Debug)]
pub struct Moment {
    #[field(primary)]
    pub id: String,
}

pub static MOMENTS: Package = package!(name = "moments", entities = [entity(Moment)]);

cases!(&crate::timeouts::MOMENTS => a_waiting_write_times_out);

async fn a_waiting_write_times_out(s: &Server) {
    let moments = s.running().adapter::<Moment>().unwrap();
    let cx = Cx::system("a test");
    // The first write blocks the second one for 900 ms and is then rolled back. So the second write
    // fails because of its time limit of 300 ms, never because of a conflict.
    let has_ended = AtomicBool::new(false);
    let blocking = cx.transaction(async |cx| {
        moments
            .create(cx, MomentCreate { id: "m".to_owned() })
            .await?;
        tokio::time::sleep(Duration::from_millis(900)).await;
        has_ended.store(true, Ordering::SeqCst);
        Err::<(), _>(linchpin::Error::not_found())
    });
    let waiting = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let reply = s.post("/moments", json!({"id": "m"})).await;
        (reply, has_ended.load(Ordering::SeqCst))
    };
    let (blocking, (waiting, was_over)) = tokio::join!(blocking, waiting);
    assert!(blocking.is_err());
    assert_eq!(waiting.code(), (504, "timeout"));
    assert!(
        !was_over,
        "the response comes while the first write still blocks the second"
    );
    // A write that has not begun is dropped. PostgreSQL finishes a write that was sent, as
    // docs/decisions.md says.
    if !s.url.starts_with("postgres") {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(s.get("/moments/m").await.status, 404);
        assert_eq!(s.post("/moments", json!({"id": "m"})).await.status, 201);
    }
}
