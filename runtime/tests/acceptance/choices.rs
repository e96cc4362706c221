//! Transitions whose target a function chooses, in one transaction with the write.

#![allow(missing_docs)] // test entities

use linchpin::audit::{AuditEntryListQuery, AuditLog};
use linchpin::prelude::*;
use linchpin::{Code, Result};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum State {
    Draft,
    Pending,
    Published,
    Gone,
}

/// A shelf. If it is `held`, pages that are published in it wait for approval.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Shelf {
    #[field(primary)]
    pub id: String,
    pub held: bool,
}

#[entity(unique(slug), scope(owner_id = ctx(actor.id)), version(required_on_write = false))]
#[derive(Clone, Debug)]
pub struct Page {
    #[field(primary)]
    pub id: String,
    pub owner_id: String,
    pub slug: String,
    pub shelf_id: String,
    #[field(default = State::Draft)]
    pub state: State,
    #[field(private, default = "unseen")]
    pub secret: String,
    pub number: i64,
    #[field(read_only)]
    pub published_at: Option<Timestamp>,
}

/// The state that the shelf prescribes.
async fn held(call: ChooserCall<Page>) -> Result<State> {
    let page = call.record();
    assert_eq!(
        (page.state, &*page.secret),
        (State::Draft, "unseen"),
        "the function gets the whole record with hidden fields"
    );
    let shelf = call
        .adapter::<Shelf>()?
        .get(call.cx(), page.shelf_id.as_str())
        .await?;
    match shelf {
        Some(shelf) if shelf.held => Ok(State::Pending),
        Some(_) => Ok(State::Published),
        None => Err(Error::new(Code::Conflict, "the page has no shelf")),
    }
}

/// Reads twice with a pause, and fails if the record changed.
async fn still_the_same(call: ChooserCall<Page>) -> Result<State> {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    let (before, now) = (
        call.record(),
        call.adapter::<Page>()?
            .get(call.cx(), call.record().id.as_str())
            .await?,
    );
    match now {
        Some(now) if now.number == before.number => Ok(if now.number % 2 == 0 {
            State::Pending
        } else {
            State::Published
        }),
        _ => Err(Error::internal("the record was changed meanwhile")),
    }
}

/// Returns a state that is not one of the declared targets.
#[allow(clippy::unused_async)] // choosers are async
async fn astray(_: ChooserCall<Page>) -> Result<State> {
    Ok(State::Gone)
}

#[operation(
    kind = "transition",
    field = state,
    from = State::Draft,
    to = one_of([State::Published, State::Pending], by = held),
    set(published_at = now(), number = param(number)),
    already = "ok",
    route(audit = "publish", event = "page.published"),
)]
pub const PUBLISH: Operation<Page>;

#[operation(
    kind = "transition",
    field = state,
    from = State::Draft,
    to = one_of([State::Published, State::Pending], by = still_the_same),
    match(slug = param(slug)),
    route(path = "settle"),
)]
pub const SETTLE: Operation<Page>;

#[operation(kind = "transition", field = state, from = State::Draft, to = one_of([State::Published, State::Pending], by = astray), returns = "boolean")]
pub const STRAY: Operation<Page>;

#[operation(kind = "transition", field = state, from = [State::Draft, State::Pending, State::Published], to = State::Gone)]
pub const DROP_IT: Operation<Page>;

#[operation(kind = "increment", field = number)]
pub const COUNT: Operation<Page>;

static LIBRARY: Package = package!(
    name = "library",
    entities = [
        entity(Shelf, []),
        entity(Page, [PUBLISH, SETTLE, STRAY, DROP_IT, COUNT])
    ]
);

cases!(&crate::choices::LIBRARY, |app| app.keep_audit(std::time::Duration::from_hours(1)) =>
    the_function_chooses_the_target_state, invalid_calls_are_refused,
    a_failing_choice_changes_nothing, one_of_several_concurrent_choices_succeeds,
    no_write_comes_between_choice_and_write, a_choice_is_part_of_the_transaction_of_its_caller,
);

async fn send(
    s: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Json,
) -> Reply {
    let token = s.token("ada", &[]);
    let headers: Vec<_> = [
        ("authorization", &*token),
        ("content-type", "application/json"),
    ]
    .into_iter()
    .chain(headers.iter().copied())
    .collect();
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    s.raw(method, path, &headers, &text).await
}

async fn post(s: &Server, path: &str, body: &Json) -> Reply {
    send(s, "POST", path, &[], body).await
}

async fn page(s: &Server, id: &str, shelf: &str) {
    let made = post(
        s,
        "/pages",
        &json!({"id": id, "slug": id, "shelfId": shelf, "number": 0}),
    )
    .await;
    assert_eq!(made.status, 201, "{made:?}");
}

async fn shelves(s: &Server) {
    for (id, held) in [("open", false), ("held", true)] {
        assert_eq!(
            s.post("/shelves", json!({"id": id, "held": held}))
                .await
                .status,
            201
        );
    }
}

async fn read(s: &Server, id: &str) -> Json {
    send(s, "GET", &format!("/pages/{id}"), &[], &Json::Null)
        .await
        .json()
}

async fn audited(s: &Server) -> usize {
    let log = s.running().adapters().provided::<AuditLog>().unwrap();
    log.list(
        &Cx::system("test").at(s.now()),
        AuditEntryListQuery::default(),
    )
    .await
    .unwrap()
    .items
    .len()
}

async fn the_function_chooses_the_target_state(s: &Server) {
    shelves(s).await;
    for (id, shelf, state) in [("a", "open", "published"), ("b", "held", "pending")] {
        page(s, id, shelf).await;
        let moved = post(s, &format!("/pages/{id}/publish"), &json!({"number": 7})).await;
        assert_eq!(
            (moved.status, moved.header("etag")),
            (200, "\"2\"".to_owned()),
            "{moved:?}"
        );
        let body = moved.json();
        assert_eq!(
            (&body["state"], &body["number"], &body["publishedAt"]),
            (&json!(state), &json!(7), &json!(s.now()))
        );
        assert!(moved.headers.contains_key("x-event-id") && body.get("secret").is_none());
        assert_eq!(read(s, id).await, body);
        // A record that already has one of the targets is unchanged, even if the function would
        // choose another target.
        let again = post(s, &format!("/pages/{id}/publish"), &json!({"number": 8})).await;
        assert_eq!((again.status, again.json()), (200, body));
        assert!(!again.headers.contains_key("x-event-id"));
    }
    assert_eq!(audited(s).await, 2, "one entry for each effect");
}

async fn invalid_calls_are_refused(s: &Server) {
    shelves(s).await;
    page(s, "a", "open").await;
    post(s, "/pages/a/publish", &json!({}))
        .await
        .problem("required", "number");
    post(s, "/pages/nowhere/publish", &json!({"number": 1.5}))
        .await
        .problem("type", "number");
    assert_eq!(
        post(s, "/pages/nowhere/publish", &json!({"number": 1}))
            .await
            .code(),
        (404, "not_found")
    );
    let stale = send(
        s,
        "POST",
        "/pages/a/publish",
        &[("if-match", "\"9\"")],
        &json!({"number": 1}),
    )
    .await;
    assert_eq!(stale.code(), (412, "precondition_failed"));
    let token = s.token("bob", &[]);
    let stranger = s
        .raw(
            "POST",
            "/pages/a/publish",
            &[
                ("authorization", &token),
                ("content-type", "application/json"),
            ],
            "{\"number\":1}",
        )
        .await;
    assert_eq!(stranger.code(), (404, "not_found"));
    assert_eq!(read(s, "a").await["state"], "draft");
    let fresh = send(
        s,
        "POST",
        "/pages/a/publish",
        &[("if-match", "\"1\"")],
        &json!({"number": 1}),
    )
    .await;
    assert_eq!(fresh.status, 200, "{fresh:?}");
    // The version is also checked for a record that already has the state.
    let stale = send(
        s,
        "POST",
        "/pages/a/publish",
        &[("if-match", "\"1\"")],
        &json!({"number": 1}),
    )
    .await;
    assert_eq!(stale.code(), (412, "precondition_failed"));
    // Without `already`, the transition is refused if the record already has a target state.
    let settled = post(s, "/pages/settle", &json!({"slug": "a"})).await;
    assert_eq!(settled.code(), (400, "invalid_transition"));
    assert_eq!(post(s, "/pages/a/drop-it", &json!({})).await.status, 200);
    let gone = post(s, "/pages/a/publish", &json!({"number": 1})).await;
    assert_eq!(gone.code(), (400, "invalid_transition"));
    let details: Vec<Json> = gone.json()["details"].as_array().unwrap().clone();
    let codes_and_messages: Vec<_> = details
        .iter()
        .map(|d| (d["code"].as_str().unwrap(), d["message"].as_str().unwrap()))
        .collect();
    assert_eq!(
        codes_and_messages,
        [("current", "gone"), ("expected", "draft")]
    );
}

async fn a_failing_choice_changes_nothing(s: &Server) {
    page(s, "a", "nowhere").await;
    let before = read(s, "a").await;
    let refused = post(s, "/pages/a/publish", &json!({"number": 1})).await;
    assert_eq!(
        (refused.code(), refused.json()["error"].as_str()),
        ((409, "conflict"), Some("the page has no shelf"))
    );
    let astray = post(s, "/pages/a/stray", &json!({})).await;
    assert_eq!(
        (astray.code(), astray.json()["error"].as_str()),
        ((500, "internal"), Some("Internal error"))
    );
    assert!(
        !refused.headers.contains_key("x-event-id") && !astray.headers.contains_key("x-event-id")
    );
    assert_eq!((read(s, "a").await, audited(s).await), (before, 0));
    // The failed call holds no lock.
    shelves(s).await;
    assert_eq!(
        send(s, "PATCH", "/pages/a", &[], &json!({"shelfId": "open"}))
            .await
            .status,
        200
    );
    assert_eq!(
        post(s, "/pages/a/publish", &json!({"number": 1}))
            .await
            .json()["state"],
        "published"
    );
}

async fn one_of_several_concurrent_choices_succeeds(s: &Server) {
    for round in 0..4 {
        let slug = format!("p{round}");
        page(s, &slug, "open").await;
        let body = json!({"slug": slug});
        let replies = s.parallel(25, |_| post(s, "/pages/settle", &body)).await;
        let won = replies.iter().filter(|reply| reply.status == 200).count();
        let lost = replies
            .iter()
            .filter(|reply| reply.code() == (400, "invalid_transition"))
            .count();
        assert_eq!((won, lost), (1, 24), "{replies:?}");
    }
}

async fn no_write_comes_between_choice_and_write(s: &Server) {
    for round in 0..4 {
        let slug = format!("p{round}");
        page(s, &slug, "open").await;
        let (count, body) = (format!("/pages/{slug}/count"), json!({"slug": slug}));
        let nothing = json!({});
        let replies = s.parallel(24, |n| {
            if n % 3 == 0 {
                post(s, "/pages/settle", &body)
            } else {
                post(s, &count, &nothing)
            }
        });
        for (n, reply) in replies.await.iter().enumerate() {
            assert!(
                reply.status == 200 || (n % 3 == 0 && reply.status == 400),
                "{reply:?}"
            );
        }
        assert_eq!(read(s, &slug).await["number"], 16);
    }
}

async fn a_choice_is_part_of_the_transaction_of_its_caller(s: &Server) {
    shelves(s).await;
    page(s, "a", "open").await;
    let (shelves, pages) = (
        s.running().adapter::<Shelf>().unwrap(),
        s.running().adapter::<Page>().unwrap(),
    );
    let cx = Cx::actor(Actor::user("ada"));
    let undone: Result<()> = cx
        .transaction(async |cx| {
            shelves
                .update(cx, "open", ShelfPatch { held: Some(true) }, None)
                .await?;
            // The function sees the earlier writes of the transaction.
            assert_eq!(pages.publish(cx, "a", 3).await?.state, State::Pending);
            Err(Error::forbidden())
        })
        .await;
    assert_eq!(undone.unwrap_err().code(), Code::Forbidden);
    assert_eq!(read(s, "a").await["state"], "draft");
    assert_eq!(
        pages.publish(&cx, "a", 3).await.unwrap().state,
        State::Published
    );
}
