//! The parts of events that the outbox stores.

use linchpin::entity::{EntityDesc, FieldDesc, FieldSet};
use linchpin::event::{Batch, Payload};
use linchpin::prelude::*;
use linchpin::{BoxFuture, Cx, Entity, EntityEvent, EventSink};
use serde_json::json;
use tokio::sync::mpsc;

use super::fixture::*;
use super::{On, article, slug};
use crate::server::Server;

/// A live consumer that forwards events; it needs no events from before a crash.
struct Live(mpsc::UnboundedSender<EntityEvent>);

impl EventSink for Live {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, linchpin::Result<()>> {
        assert_eq!(batch.fence(), 0, "each process has its own consumer");
        for event in batch {
            let _ = self.0.send(EntityEvent::clone(event));
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_live(&self) -> bool {
        true
    }
}

/// The rows of the outbox in the file of a server.
fn rows(server: &Server) -> Vec<serde_json::Value> {
    let file = rusqlite::Connection::open(server.file().unwrap()).unwrap();
    let mut read = file
        .prepare("SELECT event FROM linchpin_outbox ORDER BY seq")
        .unwrap();
    let texts = read.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let texts = texts.map(|text| serde_json::from_str(&text.unwrap()).unwrap());
    texts.collect()
}

/// All consumers of the first app are live. The second app also has a consumer that is not live.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_live_consumers_are_not_stored() {
    let (out, mut events) = mpsc::unbounded_channel();
    let server = Server::sqlite_with(&NEWS, |app| app.event_sink("live", Live(out))).await;
    let made = server.post("/articles", slug("one")).await;
    let event = events.recv().await.unwrap();
    assert_eq!(made.headers["x-event-id"], event.id.as_str());
    assert_eq!(event.payload, made.json());
    // A transaction delivers its events after the commit, in order; a rolled-back one delivers
    // none.
    let articles = server.running().adapter::<Article>().unwrap();
    let cx = Cx::system("a test");
    let undone: linchpin::Result<()> = cx
        .transaction(async |cx| {
            articles.create(cx, article("undone")).await?;
            Err(linchpin::Error::not_found())
        })
        .await;
    assert!(undone.is_err());
    let done = cx.transaction(async |cx| {
        articles.create(cx, article("two")).await?;
        articles.create(cx, article("three")).await
    });
    done.await.unwrap();
    for slug in ["two", "three"] {
        assert_eq!(events.recv().await.unwrap().payload["slug"], slug);
    }
    assert_eq!(rows(&server), Vec::<serde_json::Value>::new());

    let (out, mut events) = mpsc::unbounded_channel();
    let both = |app: App| {
        app.event_sink("live", Live(out))
            .on_event::<Memo, _, _>("memos", |_| async { Ok(()) })
    };
    let server = Server::sqlite_with(&NEWS, both).await;
    server.post("/articles", slug("one")).await;
    assert_eq!(events.recv().await.unwrap().name, "blog.articles.created");
    let headers = [
        ("content-type", "application/json"),
        ("authorization", &server.token_in("ann", "red")),
    ];
    server
        .raw("POST", "/memos", &headers, r#"{"text":"a"}"#)
        .await;
    assert_eq!(events.recv().await.unwrap().name, "memos.created");
    let rows = rows(&server);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["events"][0]["name"], "memos.created");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_of_a_transaction_are_one_row() {
    let listen = |app: App| app.on_event::<Article, _, _>("articles", |_| async { Ok(()) });
    let server = Server::sqlite_with(&NEWS, listen).await;
    let articles = server.running().adapter::<Article>().unwrap();
    let cx = Cx::system("a test");
    let done = cx.transaction(async |cx| {
        articles.create(cx, article("one")).await?;
        // Only this call is refused, and it leaves no event.
        assert!(articles.create(cx, article("one")).await.is_err());
        let two = articles.create(cx, article("two")).await?;
        articles.publish(cx, two.id.as_str()).await
    });
    done.await.unwrap();
    let rows = rows(&server);
    let names: Vec<&str> = rows[0]["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        (rows.len(), names),
        (
            1,
            vec![
                "blog.articles.created",
                "blog.articles.created",
                "article.published"
            ]
        )
    );
    assert_eq!(rows[0]["v"], json!(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_large_record_refers_to_it() {
    let (out, mut events) = mpsc::unbounded_channel();
    let server = Server::memory_with(&NEWS, |app| app.event_sink("live", Live(out))).await;
    let articles = server.running().adapter::<Article>().unwrap();
    let large = ArticleCreate {
        tags: Some(vec!["x".repeat(70_000)]),
        ..article("large")
    };
    let made = articles.create(&Cx::system("a test"), large).await.unwrap();
    let event = events.recv().await.unwrap();
    assert!(event.payload.is_null());
    let reference = event.payload_ref.unwrap();
    assert_eq!(
        (reference.entity.as_ref(), reference.id),
        ("blog_articles", made.id)
    );
}

/// A consumer of large payloads.
struct Large(mpsc::UnboundedSender<EntityEvent>);

impl EventSink for Large {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, linchpin::Result<()>> {
        for event in batch {
            let _ = self.0.send(EntityEvent::clone(event));
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn largest_payload(&self) -> usize {
        100_000
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_sinks_that_request_large_payloads_receive_them() {
    let (out, mut events) = mpsc::unbounded_channel();
    let (large, mut large_events) = mpsc::unbounded_channel();
    let server = Server::memory_with(&NEWS, |app| {
        app.event_sink("live", Live(out))
            .event_sink("large", Large(large))
    })
    .await;
    let articles = server.running().adapter::<Article>().unwrap();
    for (size, is_delivered) in [(70_000, true), (110_000, false)] {
        let article = ArticleCreate {
            tags: Some(vec!["x".repeat(size)]),
            ..article(&format!("large-{size}"))
        };
        articles
            .create(&Cx::system("a test"), article)
            .await
            .unwrap();
        let event = events.recv().await.unwrap();
        assert!(event.payload.is_null() && event.payload_ref.is_some());
        let event = large_events.recv().await.unwrap();
        assert_eq!(event.payload.is_null(), !is_delivered);
        assert_eq!(event.payload_ref.is_some(), !is_delivered);
    }
}

/// A consumer that reads two fields, also for each record of a batch.
struct States(mpsc::UnboundedSender<EntityEvent>);

impl EventSink for States {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, linchpin::Result<()>> {
        for event in batch {
            let _ = self.0.send(EntityEvent::clone(event));
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn takes(&self, entity: &'static EntityDesc) -> bool {
        entity.storage_name == Article::DESC.storage_name
    }

    fn reads(&self, entity: &'static EntityDesc) -> FieldSet {
        let read = |field: &FieldDesc| ["slug", "stage"].contains(&field.name);
        let all = 0..entity.fields.len();
        all.filter(|at| read(&entity.fields[*at])).collect()
    }

    fn needs_states(&self, _: &'static EntityDesc) -> bool {
        true
    }
}

/// The states of an event by key; null if the event has none.
fn by_key(event: &EntityEvent, states: Option<&Payload>) -> serde_json::Value {
    let Some(states) = states else {
        return serde_json::Value::Null;
    };
    let states = states.as_array().unwrap().iter().cloned();
    assert_eq!(states.len(), event.keys.len());
    let members = event.keys.iter().cloned().zip(states);
    serde_json::Value::Object(members.collect())
}

/// Stored events are read again; events that are not stored are delivered from memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_sinks_that_request_states_receive_those_of_batches() {
    for on in [
        On::Memory,
        On::Sqlite,
        #[cfg(feature = "postgres")]
        On::Postgres,
    ] {
        let (out, mut states) = mpsc::unbounded_channel();
        let (live, mut plain) = mpsc::unbounded_channel();
        let more = |app: App| {
            app.event_sink("states", States(out))
                .event_sink("live", Live(live))
        };
        let server = match on {
            On::Memory => Server::memory_with(&NEWS, more).await,
            On::Sqlite => Server::sqlite_with(&NEWS, more).await,
            #[cfg(feature = "postgres")]
            On::Postgres => Server::postgres_with(&NEWS, more).await,
        };
        let articles = server.running().adapter::<Article>().unwrap();
        let cx = Cx::system("a test");
        let mut ids = Vec::new();
        for (name, views) in [("one", 1), ("two", 1), ("three", 2)] {
            let new = ArticleCreate {
                views: Some(views),
                ..article(name)
            };
            ids.push(articles.create(&cx, new).await.unwrap().id);
            states.recv().await.unwrap();
            plain.recv().await.unwrap();
        }
        let state = |stage: &str, slug: &str| json!({ "slug": slug, "stage": stage });
        // A change of a field that the sink reads.
        let done = server
            .post("/articles/publish-all", json!({"views": 1}))
            .await;
        let event = states.recv().await.unwrap();
        assert_eq!(done.headers["x-event-id"], event.id.as_str());
        assert_eq!(event.payload, json!({ "count": 2 }));
        let before = json!({
            (&*ids[0]): state("draft", "one"), (&*ids[1]): state("draft", "two"),
        });
        let after = json!({
            (&*ids[0]): state("published", "one"), (&*ids[1]): state("published", "two"),
        });
        assert_eq!(by_key(&event, event.before.as_ref()), before);
        assert_eq!(by_key(&event, event.after.as_ref()), after);
        // A change of another field.
        let body = json!({"views": 1, "pin": "p", "secret": "s"});
        server.post("/articles/rekey", body).await;
        let event = states.recv().await.unwrap();
        assert_eq!(by_key(&event, event.before.as_ref()), json!(null));
        assert_eq!(by_key(&event, event.after.as_ref()), after);
        server.post("/articles/clear", json!({"views": 2})).await;
        let event = states.recv().await.unwrap();
        let removed = json!({ (&*ids[2]): state("draft", "three") });
        assert_eq!(by_key(&event, event.before.as_ref()), removed);
        assert_eq!(event.after, None);
        // Other consumers get neither keys nor states.
        for _ in 0..3 {
            let event = plain.recv().await.unwrap();
            assert!(event.keys.is_empty(), "{event:?}");
            assert_eq!((&event.before, &event.after), (&None, &None));
        }
        server.stop().await;
    }
}
