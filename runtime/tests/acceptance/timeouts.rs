//! A route whose time limit ends while its statement waits.

#![allow(missing_docs)] // test entities

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linchpin::prelude::*;
use serde_json::json;

use crate::cases;
use crate::server::Server;

/// Made within a moment, or not at all.
#[entity(routes(auth = none, create(timeout = "300ms")))]
#[derive(Clone, Debug)]
pub struct Moment {
    #[field(primary)]
    pub id: String,
}

pub static MOMENTS: Package = package!(name = "moments", entities = [entity(Moment)]);

cases!(&crate::timeouts::MOMENTS => a_write_that_waits);

async fn a_write_that_waits(s: &Server) {
    let moments = s.running().adapter::<Moment>().unwrap();
    let cx = Cx::system("a test");
    // The first caller leaves, so that only the timeout stops the second.
    let over = AtomicBool::new(false);
    let held = cx.transaction(async |cx| {
        moments
            .create(cx, MomentCreate { id: "m".to_owned() })
            .await?;
        tokio::time::sleep(Duration::from_millis(900)).await;
        over.store(true, Ordering::SeqCst);
        Err::<(), _>(linchpin::Error::not_found())
    });
    let asked = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let reply = s.post("/moments", json!({"id": "m"})).await;
        (reply, over.load(Ordering::SeqCst))
    };
    let (held, (asked, was_over)) = tokio::join!(held, asked);
    assert!(held.is_err());
    assert_eq!(asked.code(), (504, "timeout"));
    assert!(
        !was_over,
        "it is answered while the first still stands in its way"
    );
    // A write that has not begun is dropped. PostgreSQL finishes a write that was sent, as
    // docs/decisions.md says.
    if !s.url.starts_with("postgres") {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(s.get("/moments/m").await.status, 404);
        assert_eq!(s.post("/moments", json!({"id": "m"})).await.status, 201);
    }
}
