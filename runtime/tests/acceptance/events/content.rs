//! The calls that emit events, and the content of events.

use linchpin::Cx;
use serde_json::json;

use super::{Article, ArticleCreate, EventServer, article, slug};

pub(super) async fn events_have_their_declared_names_and_fields(mut h: EventServer) {
    for id in ["a", "b"] {
        let opened = h
            .server
            .post("/tickets", json!({"id": id, "title": "t"}))
            .await;
        let event = h.next().await;
        assert_eq!(
            (event.name.as_str(), event.payload.value()),
            (
                "ticket.opened",
                &json!({"id": id, "title": "t", "open": true})
            )
        );
        assert_eq!(opened.headers["x-event-id"], event.id.as_str());
        // Consumers in the server see more fields than clients.
        assert_eq!(event.after.unwrap()["closedAt"], json!(null));
    }
    // The `event` key of a route replaces the entity's `event` key as a whole. The update route
    // has no key, so the entity's payload and the default name apply.
    let renamed = h.server.patch("/tickets/a", json!({"title": "u"})).await;
    let event = h.next().await;
    assert_eq!(
        (event.name.as_str(), event.payload.value()),
        ("help.tickets.updated", &json!({"id": "a"}))
    );
    // The payload, and the fields that conditions of consumers read.
    let state = event.after.unwrap();
    assert_eq!(state.value(), &json!({"id": "a", "closedAt": null}));
    assert_eq!(renamed.headers["x-event-id"], event.id.as_str());
    let batch = h.server.post("/tickets/close-all", json!({})).await;
    assert_eq!(batch.json(), json!(2));
    let (first, second) = (h.next().await, h.next().await);
    assert_eq!(batch.headers["x-event-id"], first.id.as_str());
    for (event, id) in [(&first, "a"), (&second, "b")] {
        assert_eq!(
            (event.name.as_str(), event.record_id.as_deref()),
            ("help.tickets.close-all", Some(id))
        );
        assert_eq!(event.payload, json!({"id": id, "open": false}));
    }
    h.server.post("/tickets/reopen-all", json!({})).await;
    let event = h.next().await;
    assert_eq!(
        (event.name.as_str(), event.payload.value()),
        ("help.tickets.reopen-all", &json!({"count": 2}))
    );
    h.server.delete("/tickets/a").await;
    let event = h.next().await;
    assert_eq!(event.name, "ticket.closed");
    assert!(
        event.payload["closedAt"].is_string() && event.payload.get("secret").is_none(),
        "{event:?}"
    );
    h.server.post("/tickets/close-all", json!({})).await;
    assert_eq!(h.next().await.record_id.as_deref(), Some("b"));
    let swept = h.server.post("/tickets/sweep", json!({})).await;
    assert_eq!(swept.json(), json!(1));
    let event = h.next().await;
    assert_eq!(
        (event.name.as_str(), event.record_id.as_deref()),
        ("tickets.swept", Some("b"))
    );
    // A batch without matches emits no event.
    let none = h.server.post("/tickets/sweep", json!({})).await;
    h.no_event_for(&none).await;
}

/// A change of an item is an update of its record.
pub(super) async fn item_changes_emit_events(mut h: EventServer) {
    assert_eq!(
        h.server
            .post("/crews", json!({"id": "c", "sailors": []}))
            .await
            .status,
        201
    );
    assert_eq!(h.next().await.name, "crews.created");
    let reply = h
        .server
        .post("/crews/c/sailors-add", json!({"id": "s"}))
        .await;
    assert_eq!(reply.status, 201, "{reply:?}");
    assert_eq!(h.event_of(&reply).await, "crews.sailors-add");
    let reply = h.server.get("/crews/c/sailors-list").await;
    h.no_event_for(&reply).await;
}

pub(super) async fn every_operation_kind_emits_its_event(mut h: EventServer) {
    let made = h.server.post("/articles", slug("one")).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(h.event_of(&made).await, "blog.articles.created");
    let at = format!("/articles/{id}");
    let calls = [
        (h.server.patch(&at, json!({"views": 5})).await, "updated"),
        (
            h.server.post(&format!("{at}/publish"), json!({})).await,
            "PUBLISHED",
        ),
        (
            h.server.post(&format!("{at}/count-view"), json!({})).await,
            "count-view",
        ),
        (
            h.server
                .patch(&format!("{at}/set-views"), json!({"views": 1}))
                .await,
            "set-views",
        ),
        (
            h.server
                .post(&format!("{at}/tag"), json!({"tag": "a"}))
                .await,
            "tag",
        ),
        (
            h.server
                .raw("DELETE", &format!("{at}/untag?tag=a"), &[], "")
                .await,
            "untag",
        ),
        (
            h.server
                .raw(
                    "PUT",
                    &format!("{at}/retag"),
                    &[("content-type", "application/json")],
                    r#"{"tags":["b"]}"#,
                )
                .await,
            "retag",
        ),
        (
            h.server
                .post("/articles/tally", json!({"id": id, "but": "none"}))
                .await,
            "tally",
        ),
        (
            h.server
                .post("/articles/ensure", json!({"slug": "two", "views": 1}))
                .await,
            "created",
        ),
        (
            h.server
                .post("/articles/ensure", json!({"slug": "two", "views": 7}))
                .await,
            "updated",
        ),
        (
            h.server.post("/articles/redeem", slug("two")).await,
            "deleted",
        ),
        (
            h.server
                .post("/articles/publish-all", json!({"views": 0}))
                .await,
            "publish-all",
        ),
        (h.server.delete(&at).await, "deleted"),
    ];
    for (reply, name) in calls {
        assert!(reply.status < 300, "{name}: {reply:?}");
        let name = if name == "PUBLISHED" {
            "article.published".to_owned()
        } else {
            format!("blog.articles.{name}")
        };
        assert_eq!(h.event_of(&reply).await, name);
    }
}

pub(super) async fn failures_and_no_ops_are_silent(mut h: EventServer) {
    let made = h.server.post("/articles", slug("one")).await;
    h.event_of(&made).await;
    let at = format!("/articles/{}", made.json()["id"].as_str().unwrap());
    for reply in [
        h.server.post("/articles", slug("one")).await,
        h.server.post("/articles", json!({})).await,
        h.server.patch(&at, json!({})).await,
        h.server
            .patch("/articles/nobody", json!({"views": 1}))
            .await,
        h.server.delete("/articles/nobody").await,
        h.server.post("/articles/nobody/publish", json!({})).await,
        h.server.post("/articles/redeem", slug("nobody")).await,
        h.server.post("/articles/clear", json!({"views": 99})).await,
        h.server
            .post("/articles/publish-all", json!({"views": 99}))
            .await,
        h.server.post("/articles/rekey", json!({"views": 0})).await,
        h.server.get(&at).await,
        h.server
            .raw(
                "PATCH",
                &at,
                &[("content-type", "application/json"), ("if-match", "\"9\"")],
                "{\"views\":3}",
            )
            .await,
    ] {
        assert!(!reply.headers.contains_key("x-event-id"), "{reply:?}");
    }
    // A batch without values to write returns the number of matching records.
    assert_eq!(
        h.server
            .post("/articles/rekey", json!({"views": 0}))
            .await
            .json(),
        json!(1)
    );
    let last = h.server.get(&at).await;
    assert_eq!(
        last.json(),
        made.json(),
        "nothing has changed, not even the version"
    );
    h.no_event_for(&last).await;
    let rekeyed = h
        .server
        .post("/articles/rekey", json!({"views": 0, "pin": "1234"}))
        .await;
    // The number includes the record that `no_event_for` created.
    assert_eq!(
        (rekeyed.json(), h.event_of(&rekeyed).await.as_str()),
        (json!(2), "blog.articles.rekey")
    );
}

/// An event contains the values of the row-level filter, so that a consumer can decide who may see
/// it.
pub(super) async fn events_contain_the_fields_of_the_guard(mut h: EventServer) {
    assert_eq!(
        h.server.post("/shelves", json!({"id": "s"})).await.status,
        201
    );
    h.next().await;
    assert_eq!(
        h.server.post("/volumes", json!({"id": "v"})).await.status,
        201
    );
    let event = h.next().await;
    assert_eq!(event.payload, json!({"id": "v"}));
    let state =
        json!({"id": "v", "shelfId": "s", "reader": null, "hushed": false, "sealed": false});
    assert_eq!(event.after.as_deref(), Some(&state));
    assert_eq!(h.server.delete("/volumes/v").await.status, 204);
    assert_eq!(h.next().await.before.as_deref(), Some(&state));
}

pub(super) async fn events_contain_the_declared_members(mut h: EventServer) {
    let body = json!({"slug": "one", "pin": "1234", "tags": ["é", "\"quoted\""]}).to_string();
    let headers = [
        ("content-type", "application/json"),
        ("x-request-id", "request-of-mine"),
        ("authorization", &h.server.token("ann", &[])),
    ];
    let made = h.server.raw("POST", "/articles", &headers, &body).await;
    let event = h.next().await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (
            event.entity.as_ref(),
            event.route.as_ref(),
            event.request_id.as_str()
        ),
        ("blog_articles", "create", "request-of-mine")
    );
    assert_eq!(
        (
            event.record_id.as_deref(),
            event.version,
            event.tenant_id.as_deref()
        ),
        (Some(id.as_str()), Some(1), None)
    );
    assert_eq!(
        (event.actor.kind.as_str(), event.actor.id.as_deref()),
        ("user", Some("ann"))
    );
    assert_eq!(event.at, h.server.now());
    // Only fields that clients can read.
    assert_eq!(event.payload, made.json());
    assert_eq!(
        (event.before, event.after.as_deref()),
        (None, Some(&made.json()))
    );
    let changed = h
        .server
        .patch(
            &format!("/articles/{id}"),
            json!({"views": 4, "pin": "5678"}),
        )
        .await;
    let event = h.next().await;
    assert_eq!(
        (event.payload.value(), event.version),
        (&changed.json(), Some(2))
    );
    assert_eq!(
        (event.before, event.after.as_deref()),
        (None, Some(&changed.json()))
    );
    h.server.delete(&format!("/articles/{id}")).await;
    let event = h.next().await;
    assert_eq!(
        (event.payload.value(), event.before.as_deref(), event.after),
        (&changed.json(), Some(&changed.json()), None)
    );
    // A call from code has an actor, too.
    let articles = h.server.running().adapter::<Article>().unwrap();
    articles
        .create(
            &Cx::system("a test"),
            ArticleCreate {
                secret: Some("hidden".to_owned()),
                ..article("code")
            },
        )
        .await
        .unwrap();
    let event = h.next().await;
    assert_eq!(
        (
            event.actor.kind.as_str(),
            event.actor.id,
            event.request_id.as_str()
        ),
        ("system", None, "")
    );
    assert!(!format!("{:?}", (event.payload, event.after)).contains("hidden"));
}
