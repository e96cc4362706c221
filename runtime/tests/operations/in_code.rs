//! The generated methods, called from code on a running app: same rules, typed parameters, errors
//! with codes.

use linchpin::prelude::*;
use linchpin::{Code, Error};

use crate::cases;
use crate::fixture::{State, Ticket, TicketAdapter, TicketPatch, create};
use crate::server::Server;

cases!(
    code_calls_generated_methods,
    code_calls_lookups,
    code_calls_transitions,
    code_calls_increments,
    errors_are_those_of_http,
    code_and_http_see_the_same_records
);

fn desk(s: &Server) -> (TicketAdapter, Cx) {
    (
        s.running().adapter::<Ticket>().unwrap(),
        Cx::actor(Actor::user("alice")),
    )
}

/// The code and the problems of a call that must fail.
#[track_caller]
fn failed<T: std::fmt::Debug>(result: Result<T>) -> (Code, Vec<String>) {
    let error: Error = result.unwrap_err();
    (
        error.code(),
        error
            .details()
            .iter()
            .map(|p| format!("{} {}", p.code, p.path))
            .collect(),
    )
}

async fn code_calls_generated_methods(s: &Server) {
    let (desk, cx) = desk(s);
    let made = desk.create(&cx, create("a")).await.unwrap();
    assert_eq!(
        (made.version, made.state, made.category.as_deref()),
        (1, State::Open, None)
    );
    assert_eq!(desk.get(&cx, &made.id).await.unwrap().unwrap().slug, "a");
    assert!(desk.get(&cx, "nope").await.unwrap().is_none());
    let patch = || TicketPatch {
        category: Some(Some("c".to_owned())),
        ..TicketPatch::default()
    };
    let changed = desk.update(&cx, &made.id, patch(), Some(1)).await.unwrap();
    assert_eq!(
        (changed.version, changed.category.as_deref()),
        (2, Some("c"))
    );
    assert_eq!(
        failed(desk.update(&cx, &made.id, patch(), Some(1)).await).0,
        Code::PreconditionFailed
    );
    assert_eq!(
        desk.update(&cx, &made.id, patch(), None)
            .await
            .unwrap()
            .version,
        3,
        "calls from code may omit the version"
    );
    assert_eq!(
        failed(desk.delete(&cx, &made.id, Some(1)).await).0,
        Code::PreconditionFailed
    );
    desk.delete(&cx, &made.id, None).await.unwrap();
    assert_eq!(
        failed(desk.delete(&cx, &made.id, None).await).0,
        Code::NotFound
    );
}

async fn code_calls_lookups(s: &Server) {
    let (desk, cx) = desk(s);
    for (slug, category) in [
        ("a", Some("x")),
        ("b", Some("x")),
        ("c", Some("x")),
        ("d", None),
    ] {
        let mut input = create(slug);
        input.category = category.map(str::to_owned);
        desk.create(&cx, input).await.unwrap();
    }
    let slugs = |page: &Page<Ticket>| {
        page.items
            .iter()
            .map(|t| t.slug.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(desk.find(&cx, "a").await.unwrap().unwrap().slug, "a");
    assert!(desk.find(&cx, "z").await.unwrap().is_none());
    assert!(
        desk.find(&cx, Param::Omitted).await.unwrap().is_some(),
        "without the condition any ticket matches"
    );
    assert!(desk.taken(&cx, "a").await.unwrap());
    assert!(!desk.taken(&cx, String::from("z")).await.unwrap());

    let first = desk.search(&cx, "x", PageArgs::default()).await.unwrap();
    assert_eq!(
        (slugs(&first), first.has_more),
        (vec!["a".to_owned(), "b".to_owned()], true)
    );
    let next = PageArgs {
        cursor: first.next_cursor,
        ..PageArgs::default()
    };
    let second = desk.search(&cx, "x", next.clone()).await.unwrap();
    assert_eq!(
        (slugs(&second), second.has_more, second.next_cursor),
        (vec!["c".to_owned()], false, None)
    );
    assert_eq!(
        failed(desk.search(&cx, "y", next).await).0,
        Code::InvalidCursor
    );
    assert_eq!(
        slugs(
            &desk
                .search(&cx, Param::Null, PageArgs::default())
                .await
                .unwrap()
        ),
        ["d"]
    );
    let none = PageArgs {
        limit: Some(0),
        ..PageArgs::default()
    };
    assert_eq!(
        failed(desk.search(&cx, "x", none).await).0,
        Code::ValidationFailed
    );

    // Enums, lists and dates are typed.
    let page = PageArgs::default;
    let found = desk
        .of(
            &cx,
            "x",
            State::Open,
            vec!["a".to_owned(), "c".to_owned()],
            Param::Omitted,
            page(),
        )
        .await
        .unwrap();
    assert_eq!(slugs(&found), ["a", "c"]);
    let found = desk
        .of(&cx, "x", State::Closed, Param::Omitted, cx.now(), page())
        .await
        .unwrap();
    assert_eq!(slugs(&found), [""; 0]);
    assert_eq!(
        slugs(&desk.within(&cx, "x", Param::Omitted, page()).await.unwrap()),
        ["a", "b", "c"]
    );
    assert!(desk.strict(&cx, "a").await.unwrap().is_some());
}

async fn code_calls_transitions(s: &Server) {
    let (desk, cx) = desk(s);
    let made = desk.create(&cx, create("a")).await.unwrap();
    let closed = desk.close(&cx, &made.id, "done".to_owned()).await.unwrap();
    assert_eq!(
        (closed.state, closed.note.as_deref(), closed.version),
        (State::Closed, Some("done"), 2)
    );
    let (code, details) = failed(desk.close(&cx, &made.id, Param::Omitted).await);
    assert_eq!(
        (code, details),
        (
            Code::InvalidTransition,
            vec!["current state".to_owned(), "expected state".to_owned()]
        )
    );
    assert!(desk.reopen(&cx, &made.id).await.unwrap());
    let again = desk.close(&cx, &made.id, Param::Omitted).await.unwrap();
    assert_eq!(
        again.note.as_deref(),
        Some("done"),
        "an omitted parameter keeps the stored value"
    );
    desk.reopen(&cx, &made.id).await.unwrap();
    assert_eq!(
        desk.close(&cx, &made.id, Param::Null).await.unwrap().note,
        None
    );
    assert_eq!(
        failed(desk.close_named(&cx, "nope").await).0,
        Code::NotFound
    );
}

async fn code_calls_increments(s: &Server) {
    let (desk, cx) = desk(s);
    let made = desk.create(&cx, create("a")).await.unwrap();
    let calls = (0..40).map(|_| desk.hit(&cx, &made.id));
    for result in futures_util::future::join_all(calls).await {
        result.unwrap();
    }
    assert_eq!(desk.get(&cx, &made.id).await.unwrap().unwrap().hits, 40);
    assert_eq!(desk.restock(&cx, &made.id).await.unwrap().stock, 4);
    assert_eq!(desk.restock(&cx, &made.id).await.unwrap().stock, 8);
    assert_eq!(
        failed(desk.restock(&cx, &made.id).await),
        (Code::ValidationFailed, vec!["range stock".to_owned()])
    );
    assert_eq!(desk.downvote(&cx, &made.id).await.unwrap().votes, Some(-1));
    assert_eq!(failed(desk.hit(&cx, "nope").await).0, Code::NotFound);
}

async fn errors_are_those_of_http(s: &Server) {
    let (desk, cx) = desk(s);
    desk.create(&cx, create("a")).await.unwrap();
    assert_eq!(
        failed(desk.create(&cx, create("a")).await),
        (Code::Conflict, vec!["unique slug".to_owned()])
    );
    let mut wrong = create("b");
    (wrong.stock, wrong.weight) = (Some(11), Some(f64::NAN));
    let (code, details) = failed(desk.create(&cx, wrong).await);
    assert_eq!(code, Code::ValidationFailed);
    assert!(details.contains(&"range stock".to_owned()), "{details:?}");
    assert!(
        details.iter().any(|d| d.ends_with(" weight")),
        "code cannot store a value that JSON cannot represent: {details:?}"
    );
    assert!(!desk.taken(&cx, "b").await.unwrap());
}

async fn code_and_http_see_the_same_records(s: &Server) {
    let (desk, cx) = desk(s);
    let made = desk.create(&cx, create("a")).await.unwrap();
    let path = format!("/tickets/{}", made.id);
    let reply = s.get(&path).await;
    assert_eq!(
        reply.json(),
        serde_json::to_value(&made).unwrap(),
        "the typed record serializes to the response of the route"
    );
    assert_eq!(
        made.secret.as_deref(),
        Some("for code alone"),
        "code reads private fields"
    );
    crate::fixture::call(s, &format!("{path}/hit")).await;
    assert_eq!(desk.get(&cx, &made.id).await.unwrap().unwrap().hits, 1);
    // Every way to get an adapter returns the adapter of the app.
    assert_eq!(
        s.running()
            .adapters()
            .get::<Ticket>()
            .unwrap()
            .hit(&cx, &made.id)
            .await
            .unwrap()
            .hits,
        2
    );
}
