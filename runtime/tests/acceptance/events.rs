//! Events: which changes emit them, what they contain, and who receives them.

#![allow(missing_docs)] // a fixture

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use linchpin::entity::{EntityDesc, FieldSet};
use linchpin::event::{Batch, guard_fields};
use linchpin::prelude::*;
use linchpin::{Actor, BoxFuture, Cx, EntityEvent, EventSink};
use serde_json::json;
use tokio::sync::mpsc;

use crate::server::Server;

mod content;
mod fixture;
mod stored;

use self::content::{
    events_contain_the_declared_members, events_contain_the_fields_of_the_guard,
    events_have_their_declared_names_and_fields, every_operation_kind_emits_its_event,
    failures_and_no_ops_are_silent, item_changes_emit_events,
};
use self::fixture::*;

/// Fails a few times, then forwards the events.
struct Sink {
    out: mpsc::UnboundedSender<EntityEvent>,
    failures: AtomicUsize,
}

impl EventSink for Sink {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, linchpin::Result<()>> {
        Box::pin(async move {
            if self.failures.load(Ordering::SeqCst) > 0 {
                assert!(
                    self.failures
                        .fetch_sub(1, Ordering::SeqCst)
                        .is_multiple_of(2),
                    "a panic is a failure as well"
                );
                return Err(linchpin::Error::internal("not today"));
            }
            for event in batch {
                let _ = self.out.send(EntityEvent::clone(event));
            }
            Ok(())
        })
    }

    // Like a consumer that decides which callers receive a record.
    fn reads(&self, entity: &'static EntityDesc) -> FieldSet {
        guard_fields(entity)
    }
}

struct EventServer {
    server: Server,
    events: mpsc::UnboundedReceiver<EntityEvent>,
}

impl EventServer {
    async fn next(&mut self) -> EntityEvent {
        tokio::time::timeout(Duration::from_mins(1), self.events.recv())
            .await
            .expect("an event in time")
            .unwrap()
    }

    /// The name of the next event, after a check that the response contains its id.
    async fn event_of(&mut self, reply: &crate::server::Reply) -> String {
        let event = self.next().await;
        assert_eq!(
            reply
                .headers
                .get("x-event-id")
                .map(|id| id.to_str().unwrap()),
            Some(event.id.as_str()),
            "{reply:?}"
        );
        event.name
    }

    /// Checks that no event was emitted: the next one comes from the next change.
    async fn no_event_for(&mut self, reply: &crate::server::Reply) {
        assert!(!reply.headers.contains_key("x-event-id"), "{reply:?}");
        let mark = format!("mark-{}", linchpin::Uuid::new_v7());
        let reply = self.server.post("/articles", json!({"slug": mark})).await;
        assert_eq!(self.event_of(&reply).await, "blog.articles.created");
    }
}

/// The stores of this build.
#[derive(Clone, Copy)]
enum On {
    Memory,
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

async fn start_server(on: On, failures: usize) -> EventServer {
    let (out, events) = mpsc::unbounded_channel();
    let sink = Sink {
        out,
        failures: AtomicUsize::new(failures),
    };
    let more = |app: App| app.event_sink("test", sink);
    let server = match on {
        On::Memory => Server::memory_with(&NEWS, more).await,
        On::Sqlite => Server::sqlite_with(&NEWS, more).await,
        #[cfg(feature = "postgres")]
        On::Postgres => Server::postgres_with(&NEWS, more).await,
    };
    EventServer { server, events }
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::start_server(super::On::Memory, 0).await).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::start_server(super::On::Sqlite, 0).await).await;
            })*
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::start_server(super::On::Postgres, 0).await).await;
            })*
        }
    };
}

cases!(
    a_response_names_its_event,
    events_have_their_declared_names_and_fields,
    every_operation_kind_emits_its_event,
    item_changes_emit_events,
    failures_and_no_ops_are_silent,
    events_contain_the_declared_members,
    events_contain_the_fields_of_the_guard,
    transactions_emit_events_after_the_commit,
    events_arrive_in_commit_order,
    events_contain_owner_and_tenant,
    events_contain_tenants_that_are_numbers,
);

fn slug(name: &str) -> serde_json::Value {
    json!({"slug": name})
}

fn article(slug: &str) -> ArticleCreate {
    ArticleCreate {
        slug: slug.to_owned(),
        stage: None,
        views: None,
        secret: None,
        pin: None,
        tags: None,
    }
}

async fn a_response_names_its_event(mut h: EventServer) {
    let made = h.server.post("/articles", slug("one")).await;
    assert_eq!(made.status, 201);
    assert_eq!(h.event_of(&made).await, "blog.articles.created");
    let id = made.json()["id"].as_str().unwrap().to_owned();
    for name in ["two", "three"] {
        let made = h.server.post("/articles", slug(name)).await;
        assert_eq!(h.event_of(&made).await, "blog.articles.created");
    }
    let nothing = h.server.patch(&format!("/articles/{id}"), json!({})).await;
    assert_eq!(nothing.status, 200);
    assert!(!nothing.headers.contains_key("x-event-id"));
    let batch = h.server.post("/articles/clear", json!({"views": 0})).await;
    assert_eq!(batch.json(), json!(3));
    let event = h.next().await;
    assert_eq!(
        (event.name.as_str(), event.payload.value()),
        ("blog.articles.clear", &json!({"count": 3}))
    );
    assert_eq!(batch.headers["x-event-id"], event.id.as_str());
    assert_eq!(
        (event.record_id, event.before, event.after),
        (None, None, None)
    );
    h.no_event_for(&nothing).await;
}

async fn transactions_emit_events_after_the_commit(mut h: EventServer) {
    let articles = h.server.running().adapter::<Article>().unwrap();
    let cx = Cx::actor(Actor::user("ann"));
    let undone: linchpin::Result<()> = cx
        .transaction(async |cx| {
            articles.create(cx, article("undone")).await?;
            Err(linchpin::Error::not_found())
        })
        .await;
    assert!(undone.is_err());
    let done = cx.transaction(async |cx| {
        let first = articles.create(cx, article("first")).await?;
        // Only this call is refused; the transaction continues.
        assert!(articles.create(cx, article("first")).await.is_err());
        articles.publish(cx, first.id.as_str()).await?;
        articles.create(cx, article("second")).await
    });
    done.await.unwrap();
    let mut received = Vec::new();
    for _ in 0..3 {
        let event = h.next().await;
        received.push((
            event.payload["slug"].as_str().unwrap().to_owned(),
            event.name,
        ));
    }
    let expected = [
        ("first", "blog.articles.created"),
        ("first", "article.published"),
        ("second", "blog.articles.created"),
    ];
    assert_eq!(
        received,
        expected.map(|(slug, name)| (slug.to_owned(), name.to_owned()))
    );
    let quiet = h.server.get("/articles").await;
    h.no_event_for(&quiet).await;
}

async fn events_arrive_in_commit_order(mut h: EventServer) {
    let made = h.server.post("/articles", slug("one")).await;
    h.event_of(&made).await;
    let at = format!(
        "/articles/{}/count-view",
        made.json()["id"].as_str().unwrap()
    );
    let server = &h.server;
    let replies =
        futures_util::future::join_all((0..200).map(|_| server.post(&at, json!({})))).await;
    let mut ids: Vec<String> = replies
        .iter()
        .map(|r| r.headers["x-event-id"].to_str().unwrap().to_owned())
        .collect();
    let mut received = Vec::new();
    for n in 1..=200 {
        let event = h.next().await;
        assert_eq!(
            (&event.payload["views"], event.version),
            (&json!(2 * n), Some(n + 1)),
            "out of order"
        );
        received.push(event.id.to_string());
    }
    ids.sort();
    received.sort();
    assert_eq!(ids, received, "each response names its own event");
}

async fn events_contain_owner_and_tenant(mut h: EventServer) {
    let headers = [
        ("content-type", "application/json"),
        ("authorization", &h.server.token_in("ann", "red")),
    ];
    let made = h
        .server
        .raw("POST", "/memos", &headers, "{\"text\":\"a\"}")
        .await;
    let event = h.next().await;
    assert_eq!(
        (
            event.name.as_str(),
            event.tenant_id.as_deref(),
            event.payload.into_value()
        ),
        ("memos.created", Some("red"), made.json())
    );
    assert_eq!(
        event.after.unwrap()["team"],
        "red",
        "consumers need the field for their checks"
    );
    let at = format!("/memos/{}", made.json()["id"].as_str().unwrap());
    h.server
        .raw("PATCH", &at, &headers, r#"{"text":"b"}"#)
        .await;
    let event = h.next().await;
    assert_eq!(
        (event.name.as_str(), event.before),
        ("memos.updated", None),
        "the update changes no field that a condition reads"
    );
    let gone = h
        .server
        .raw(
            "DELETE",
            &format!("/memos/{}", made.json()["id"].as_str().unwrap()),
            &headers[1..],
            "",
        )
        .await;
    let event = h.next().await;
    assert_eq!(gone.headers["x-event-id"], event.id.as_str());
    assert_eq!(event.name, "memos.deleted");
    assert!(event.after.unwrap()["goneAt"].is_string());
    // The deletion changes a field that conditions read, so the event contains its previous value.
    assert_eq!(
        event.before.as_deref(),
        Some(&json!({"team": "red", "goneAt": null}))
    );
    // For this call of the application itself, the tenant comes from the record.
    let memos = h.server.running().adapter::<Memo>().unwrap();
    memos
        .purge(&Cx::system("a test"), made.json()["id"].as_str().unwrap())
        .await
        .unwrap();
    let event = h.next().await;
    assert_eq!(
        (event.name.as_str(), event.tenant_id.as_deref()),
        ("memos.deleted", Some("red"))
    );
}

async fn events_contain_tenants_that_are_numbers(mut h: EventServer) {
    let token = h.server.token_in("ann", "7");
    let headers = [
        ("content-type", "application/json"),
        ("authorization", token.as_str()),
    ];
    let mut tenants = Vec::new();
    for (method, path, body) in [
        ("POST", "/bills", r#"{"id": "b"}"#),
        ("PATCH", "/bills/b", r#"{"paid": 2}"#),
        ("POST", "/bills/b/pay", "{}"),
        ("POST", "/bills/settle", r#"{"paid": 3}"#),
        ("DELETE", "/bills/b", ""),
    ] {
        let reply = h.server.raw(method, path, &headers, body).await;
        assert!(reply.status < 300, "{method} {path} {reply:?}");
        let event = h.next().await;
        tenants.push((event.name, event.tenant_id));
    }
    let event_of_tenant_7 = |name: &str| (format!("bills.{name}"), Some("7".to_owned()));
    assert_eq!(
        tenants,
        ["created", "updated", "pay", "settle", "deleted"].map(event_of_tenant_7)
    );
    // For a call of the application itself, the tenant comes from the record, if it has one.
    let bills = h.server.running().adapter::<Bill>().unwrap();
    let reply = h
        .server
        .raw("POST", "/bills", &headers, r#"{"id": "c"}"#)
        .await;
    assert_eq!(
        (reply.status, h.next().await.tenant_id.as_deref()),
        (201, Some("7"))
    );
    bills.purge(&Cx::system("a test"), "c").await.unwrap();
    assert_eq!(h.next().await.tenant_id.as_deref(), Some("7"));
    let without_tenant = h
        .server
        .raw(
            "POST",
            "/bills",
            &[headers[0], ("authorization", &h.server.token("ann", &[]))],
            r#"{"id": "d"}"#,
        )
        .await;
    assert_eq!(
        (without_tenant.status, h.next().await.tenant_id),
        (201, None)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_sink_changes_no_response_and_receives_the_events_again() {
    let stores = [
        On::Memory,
        On::Sqlite,
        #[cfg(feature = "postgres")]
        On::Postgres,
    ];
    for on in stores {
        let mut h = start_server(on, 2).await;
        let made = h.server.post("/articles", slug("one")).await;
        assert_eq!(made.status, 201);
        assert_eq!(h.event_of(&made).await, "blog.articles.created");
        let quiet = h.server.get("/articles").await;
        h.no_event_for(&quiet).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entities_without_listeners_record_no_events() {
    let handled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handled);
    let more = |app: App| {
        app.on_event::<Memo, _, _>("memos", move |event| {
            assert!(event.key().is_some());
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        })
    };
    let server = Server::sqlite_with(&NEWS, more).await;
    assert!(
        !server
            .post("/quiets", json!({}))
            .await
            .headers
            .contains_key("x-event-id")
    );
    assert!(
        server.post("/memos", json!({"text": "a"})).await.status == 401,
        "an anonymous caller has no tenant"
    );
    let headers = [
        ("content-type", "application/json"),
        ("authorization", &server.token_in("ann", "red")),
    ];
    assert!(
        server
            .raw("POST", "/memos", &headers, "{\"text\":\"a\"}")
            .await
            .headers
            .contains_key("x-event-id")
    );
    tokio::time::timeout(Duration::from_mins(1), async {
        while handled.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("handled in time");
    let file = rusqlite::Connection::open(server.file().unwrap()).unwrap();
    let stored: i64 = file
        .query_row("SELECT count(*) FROM linchpin_outbox", [], |row| row.get(0))
        .unwrap();
    assert_eq!(stored, 1);
    // Without a consumer, the events of an entity are recorded if one of its routes names an event.
    let server = Server::memory(&NEWS).await;
    assert!(
        server
            .post("/articles", slug("one"))
            .await
            .headers
            .contains_key("x-event-id")
    );
    assert!(
        !server
            .post("/quiets", json!({}))
            .await
            .headers
            .contains_key("x-event-id")
    );
    // An app without consumers records nothing.
    let server = Server::sqlite(&SILENT).await;
    assert!(
        !server
            .post("/quiets", json!({}))
            .await
            .headers
            .contains_key("x-event-id")
    );
    let file = rusqlite::Connection::open(server.file().unwrap()).unwrap();
    let stored: i64 = file
        .query_row("SELECT count(*) FROM linchpin_outbox", [], |row| row.get(0))
        .unwrap();
    assert_eq!(stored, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_are_typed_or_by_name() {
    let (give, take) = tokio::sync::oneshot::channel();
    let more = |app: App| {
        app.after_adapters(async move |adapters| {
            let typed = adapters.events().subscribe::<Article>()?;
            let named = adapters.events().subscribe_to("article.published")?;
            drop(give.send((typed, named)));
            Ok(())
        })
    };
    let server = Server::memory_with(&NEWS, more).await;
    let (mut typed, mut named) = take.await.unwrap();
    let made = server.post("/articles", slug("one")).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let published = server
        .post(&format!("/articles/{id}/publish"), json!({}))
        .await;
    let event = typed.next().await.unwrap().unwrap();
    assert_eq!(
        (event.key(), event.name.as_str()),
        (Some(id.clone()), "blog.articles.created")
    );
    assert_eq!(
        typed.next().await.unwrap().unwrap().name,
        "article.published"
    );
    let event = named.next().await.unwrap().unwrap();
    assert_eq!(published.headers["x-event-id"], event.id.as_str());
    // The same subscription as a stream.
    let mut named = std::pin::pin!(named.into_stream());
    let again = server.post("/articles", slug("two")).await.json();
    let published = server
        .post(
            &format!("/articles/{}/publish", again["id"].as_str().unwrap()),
            json!({}),
        )
        .await;
    let event = futures_util::StreamExt::next(&mut named)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(published.headers["x-event-id"], event.id.as_str());
    // After the app has started, only recorded events can be subscribed to.
    let bus = server.running().adapters().events().clone();
    assert!(bus.subscribe::<Article>().is_ok());
    assert!(bus.subscribe::<Quiet>().is_err() && bus.subscribe_to("quiets.created").is_err());
    // The subscriber is too slow and gets an error.
    for _ in 0..1100 {
        server
            .post(&format!("/articles/{id}/count-view"), json!({}))
            .await;
    }
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    loop {
        match tokio::time::timeout_at(deadline, typed.next())
            .await
            .expect("a report in time")
        {
            Some(Err(linchpin::Lagged(missed))) => {
                assert!(missed > 0);
                break;
            }
            other => assert!(other.is_some()),
        }
    }
}

/// Messages of the app reach listeners of their name at once; events of entities are separate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emitted_messages_reach_listeners_of_their_name() {
    let server = Server::memory(&NEWS).await;
    let bus = server.running().adapters().events().clone();
    bus.emit("welcome", &json!({ "to": "there is no listener yet" }))
        .unwrap();
    let (mut welcomes, mut others) = (
        bus.listen("welcome").unwrap(),
        bus.listen("blog.articles.created").unwrap(),
    );
    server.post("/articles", slug("one")).await;
    bus.emit("goodbye", &1).unwrap();
    bus.emit("welcome", &json!({ "to": "ada" })).unwrap();
    bus.emit("blog.articles.created", &"by hand").unwrap();
    let heard = welcomes.next().await.unwrap().unwrap();
    assert_eq!(
        (heard.name.as_str(), heard.payload),
        ("welcome", json!({ "to": "ada" }))
    );
    assert_eq!(
        others.next().await.unwrap().unwrap().payload,
        "by hand",
        "what entities record is for `subscribe_to`"
    );
    // A payload that is not JSON is an error of the emitter.
    assert!(
        bus.emit("welcome", &std::collections::BTreeMap::from([(vec![1], 1)]))
            .is_err()
    );
    // The listener is too slow and gets an error; then it continues.
    for n in 0..1100 {
        bus.emit("welcome", &n).unwrap();
    }
    assert!(matches!(
        welcomes.next().await,
        Some(Err(linchpin::Lagged(77)))
    ));
    assert_eq!(welcomes.next().await.unwrap().unwrap().payload, 76);
    server.stop().await;
    assert_eq!(
        bus.emit("welcome", &0).unwrap_err().code(),
        linchpin::Code::Unavailable
    );
    assert!(bus.listen("welcome").is_err());
}

/// Delivered events are kept for the configured time, by the app's clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivered_events_are_kept_for_the_configured_time() {
    let with_listener = |app: App| {
        app.on_event::<Quiet, _, _>("listener", |_| async { Ok(()) })
            .keep_events(Duration::from_secs(1))
    };
    let server = Server::sqlite_with(&SILENT, with_listener).await;
    server.post("/quiets", json!({})).await;
    server.post("/quiets", json!({})).await;
    let stored_events = || -> i64 {
        let file = rusqlite::Connection::open(server.file().unwrap()).unwrap();
        file.query_row("SELECT count(*) FROM linchpin_outbox", [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(stored_events(), 2);
    server.advance(1_001);
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    // The newest event is never removed, because numbers continue after it.
    while stored_events() > 1 {
        assert!(
            tokio::time::Instant::now() < deadline,
            "the first is still kept"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_listener_of_an_unknown_event_is_a_start_up_error() {
    let config = Config::new()
        .signing_secret(crate::server::SECRET)
        .port(0)
        .database("memory:");
    let app = App::new(config)
        .plugin(JwtAuth::new())
        .package(&NEWS)
        .after_adapters(async |adapters| {
            drop(adapters.events().subscribe_to("blog.articles.tagged")?);
            Ok(())
        });
    let error = app.start().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "no route emits the subscribed event `blog.articles.tagged`; did you mean `blog.articles.tag`?"
    );
    let config = Config::new()
        .signing_secret(crate::server::SECRET)
        .port(0)
        .database("memory:");
    let nothing = || async { Ok(()) };
    let app = App::new(config).plugin(JwtAuth::new()).package(&NEWS);
    let app = app
        .on_event::<Article, _, _>("twice", move |_| nothing())
        .on_event::<Memo, _, _>("twice", move |_| nothing());
    assert!(
        app.start()
            .await
            .unwrap_err()
            .to_string()
            .contains("two consumers of events are named `twice`")
    );
    let config = Config::new()
        .signing_secret(crate::server::SECRET)
        .port(0)
        .database("memory:");
    let app = App::new(config).plugin(JwtAuth::new()).package(&NEWS);
    let app = app.on_event::<crate::projections::Author, _, _>("deaf", move |_| nothing());
    let error = app.start().await.unwrap_err().to_string();
    assert!(
        error.contains(
            "the consumer `deaf` takes events of the table `authors`, whose entity is in no package"
        ),
        "{error}"
    );
}
