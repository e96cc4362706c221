//! `search` with a search provider.

#![allow(missing_docs)] // a fixture

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::provider_fixture::{Behaviour, LIBRARY, Paper, PaperCreate, Secret, Words};
use crate::server::Server;

mod following;
mod untrusted;

use following::{
    a_rebuild_corrects_the_index_during_writes, an_index_continues_after_a_restart,
    the_index_follows_every_mutation, the_index_follows_expiry_and_soft_deletion,
    the_index_follows_large_batches,
};
use untrusted::{
    a_stale_index_returns_no_wrong_records, a_wrong_provider_reveals_no_hidden_records,
    hostile_search_texts_cause_no_error, long_responses_of_a_provider_are_cut,
    pages_are_filled_after_hits_are_dropped, provider_failures_are_503,
    records_of_others_are_never_returned,
};

struct Library {
    s: Server,
    words: Words,
    on: On,
}

#[derive(Clone, Copy)]
enum On {
    Memory,
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

const STORES: &[On] = &[
    On::Memory,
    On::Sqlite,
    #[cfg(feature = "postgres")]
    On::Postgres,
];

impl On {
    async fn start(self, more: impl FnOnce(App) -> App) -> Server {
        match self {
            Self::Memory => Server::memory_with(&LIBRARY, more).await,
            Self::Sqlite => Server::sqlite_with(&LIBRARY, more).await,
            #[cfg(feature = "postgres")]
            Self::Postgres => Server::postgres_with(&LIBRARY, more).await,
        }
    }

    /// The URL of a new, empty database; its files are in `folder`.
    fn fresh(self, folder: &std::path::Path, name: &str) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::Sqlite => format!("sqlite:{}", folder.join(name).display()),
            #[cfg(feature = "postgres")]
            Self::Postgres => crate::server::postgres_server::fresh_url(),
        }
    }
}

async fn library(on: On, words: Words) -> Library {
    let provider = words.clone();
    let s = on.start(|app| app.search_provider("words", provider)).await;
    Library { s, words, on }
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::library(super::On::Memory, super::Words::default()).await).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::library(super::On::Sqlite, super::Words::default()).await).await;
            })*
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::library(super::On::Postgres, super::Words::default()).await).await;
            })*
        }
    };
}

cases!(
    search_finds_text_in_its_fields,
    search_requires_a_text,
    search_pages_through_its_hits,
    hits_are_sorted_by_score,
    the_index_follows_every_mutation,
    the_index_follows_large_batches,
    the_index_follows_expiry_and_soft_deletion,
    records_of_others_are_never_returned,
    a_wrong_provider_reveals_no_hidden_records,
    pages_are_filled_after_hits_are_dropped,
    long_responses_of_a_provider_are_cut,
    a_stale_index_returns_no_wrong_records,
    provider_failures_are_503,
    a_small_entity_is_searched_in_the_store,
    searches_apply_filters,
    a_rebuild_corrects_the_index_during_writes,
    code_calls_provider_searches,
    hostile_search_texts_cause_no_error,
);

impl Library {
    /// Waits until the index of an entity is as expected.
    async fn wait_for_entries(&self, index: &str, expected: &[(&str, &str)]) {
        let expected: BTreeMap<String, String> = expected
            .iter()
            .map(|(id, text)| ((*id).to_owned(), (*text).to_owned()))
            .collect();
        self.wait_for_index(index, |found| *found == expected).await;
    }

    async fn wait_for_index(&self, index: &str, done: impl Fn(&BTreeMap<String, String>) -> bool) {
        let waited = tokio::time::timeout(Duration::from_mins(1), async {
            while !done(&self.words.indexed(index)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(
            waited.await.is_ok(),
            "the index is not up to date: {:?}",
            self.words.indexed(index)
        );
    }

    async fn paper(&self, id: &str, title: &str, body: &str) {
        let reply = self
            .s
            .post(
                "/papers",
                json!({"id": id, "slug": id, "title": title, "body": body}),
            )
            .await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }

    /// Creates records of a tenant one after another.
    async fn secrets(&self, team: &str, ids: impl Iterator<Item = String>, text: &str) {
        let secrets = self.s.running().adapter::<Secret>().unwrap();
        let actor = linchpin::Actor {
            tenant_id: Some(team.to_owned()),
            ..linchpin::Actor::user("seed")
        };
        let cx = linchpin::Cx::new(actor.into(), self.s.now(), "".into());
        for id in ids {
            let input = crate::provider_fixture::SecretCreate {
                id: Some(id),
                slug: None,
                text: text.to_owned(),
            };
            secrets.create(&cx, input).await.unwrap();
        }
    }

    async fn send_as(
        &self,
        team: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> crate::server::Reply {
        let token = self.s.token_in("ann", team);
        self.s
            .raw(
                method,
                path,
                &[
                    ("authorization", &token),
                    ("content-type", "application/json"),
                ],
                body,
            )
            .await
    }

    async fn hunt(&self, team: &str, path: &str) -> Json {
        let token = self.s.token_in("ann", team);
        let reply = self
            .s
            .raw("GET", path, &[("authorization", &token)], "")
            .await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }
}

fn ids(list: &Json) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|record| record["id"].as_str().unwrap())
        .collect()
}

async fn search_finds_text_in_its_fields(l: Library) {
    l.paper("a", "Needle doc", "").await;
    l.paper("b", "5000", "").await;
    l.paper("c", "50% off", "").await;
    l.wait_for_entries(
        "papers",
        &[("a", "Needle doc|"), ("b", "5000|"), ("c", "50% off|")],
    )
    .await;
    let before = l.words.queries.load(Ordering::SeqCst);
    let found = l.s.get("/papers/find?q=needle").await.json();
    assert_eq!(ids(&found), ["a"]);
    assert_eq!(
        found[0],
        l.s.get("/papers/a").await.json(),
        "the hit is a whole record"
    );
    assert_eq!(ids(&l.s.get("/papers/find?q=50%25").await.json()), ["c"]);
    assert_eq!(l.words.queries.load(Ordering::SeqCst), before + 2);
    assert_eq!(
        ids(&l.s.get("/papers/find-here?q=needle").await.json()),
        ["a"]
    );
    assert_eq!(
        l.words.queries.load(Ordering::SeqCst),
        before + 2,
        "the store has searched"
    );
}

async fn search_requires_a_text(l: Library) {
    for route in ["find", "find-page"] {
        l.s.get(&format!("/papers/{route}"))
            .await
            .problem("required", "query:q");
        l.s.get(&format!("/papers/{route}?q=%20%09%C2%A0"))
            .await
            .problem("empty", "query:q");
        l.s.get(&format!("/papers/{route}?q={}", "x".repeat(513)))
            .await
            .problem("max_length", "query:q");
        l.s.get(&format!("/papers/{route}?q=a%00"))
            .await
            .problem("format", "query:q");
        l.s.get(&format!("/papers/{route}?q=a&limit=0"))
            .await
            .problem("range", "query:limit");
    }
    assert_eq!(l.words.queries.load(Ordering::SeqCst), 0);
}

async fn search_pages_through_its_hits(l: Library) {
    for n in 0..7 {
        l.paper(&format!("p{n}"), "a word", "").await;
    }
    l.wait_for_index("papers", |found| found.len() == 7).await;
    let page = l.s.get("/papers/find-page?q=word&limit=1").await.json();
    assert_eq!(
        (ids(&page["items"]), &page["hasMore"]),
        (vec!["p0"], &json!(true))
    );
    let cursor = page["nextCursor"].as_str().unwrap();
    assert_eq!(page.as_object().unwrap().len(), 3);
    let next =
        l.s.get(&format!("/papers/find-page?q=word&limit=3&cursor={cursor}"))
            .await
            .json();
    assert_eq!(ids(&next["items"]), ["p1", "p2", "p3"]);
    // A cursor belongs to its text and its route, and cannot be forged.
    for wrong in [
        format!("/papers/find-page?q=other&cursor={cursor}"),
        format!("/papers/find-in?q=word&cursor={cursor}"),
        format!("/papers/find-page?q=word&cursor={}", &cursor[1..]),
        "/papers/find-page?q=word&cursor=@@@".to_owned(),
    ] {
        assert_eq!(
            l.s.get(&wrong).await.code(),
            (400, "invalid_cursor"),
            "{wrong}"
        );
    }
    let all: Vec<String> = (0..7).map(|n| format!("p{n}")).collect();
    for limit in 1..5 {
        let walked =
            l.s.walk(&format!("/papers/find-page?q=word&limit={limit}"))
                .await;
        assert_eq!(
            walked
                .iter()
                .map(|p| p["id"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>(),
            all
        );
    }
    // All hits, up to the limit of the entity.
    assert_eq!(ids(&l.s.get("/papers/find?q=word").await.json()).len(), 4);
    assert_eq!(
        ids(&l.s.get("/papers/find?q=word&limit=99").await.json()).len(),
        4
    );
    assert_eq!(
        ids(&l.s.get("/papers/find-page?q=word").await.json()["items"]).len(),
        2
    );
    assert_eq!(
        l.s.get("/papers/find?q=word&cursor=x").await.code(),
        (400, "unknown_parameter")
    );
    // A record that is removed between two pages does not shift the others.
    l.s.delete("/papers/p0").await;
    let next =
        l.s.get(&format!("/papers/find-page?q=word&limit=2&cursor={cursor}"))
            .await
            .json();
    assert_eq!(ids(&next["items"]), ["p1", "p2"]);
}

async fn hits_are_sorted_by_score(l: Library) {
    l.paper("a", "nothing", "word word word").await;
    l.paper("b", "word", "").await;
    l.paper("c", "word", "word word").await;
    l.paper("d", "none", "none").await;
    l.wait_for_index("papers", |found| found.len() == 4).await;
    assert_eq!(
        ids(&l.s.get("/papers/find?q=WORD").await.json()),
        ["c", "a", "b"],
        "a title counts twice"
    );
    assert_eq!(
        ids(&l.s.get("/papers/find-body?q=word").await.json()),
        ["a", "c"],
        "only the operation's fields"
    );
}

async fn a_small_entity_is_searched_in_the_store(l: Library) {
    for id in 1..=5 {
        assert_eq!(
            l.s.post("/leaves", json!({"id": id.to_string(), "name": "a leaf"}))
                .await
                .status,
            201
        );
    }
    l.wait_for_index("leaves", |found| found.len() == 5).await;
    let page = l.s.get("/leaves/seek?q=leaf").await.json();
    assert_eq!(ids(&page["items"]), ["1", "2"]);
    let provided = page["nextCursor"].as_str().unwrap().to_owned();
    l.words.behave(Behaviour::Fails);
    // If the provider fails, the store returns the same records. It continues after its own cursor.
    let page = l.s.get("/leaves/seek?q=leaf").await.json();
    assert_eq!(ids(&page["items"]), ["1", "2"]);
    let stored = page["nextCursor"].as_str().unwrap();
    assert_eq!(
        ids(&l
            .s
            .get(&format!("/leaves/seek?q=leaf&cursor={stored}"))
            .await
            .json()["items"]),
        ["3", "4"]
    );
    assert_eq!(l.s.walk("/leaves/seek?q=leaf").await.len(), 5);
    // The store cannot continue after a cursor of the provider.
    assert_eq!(
        l.s.get(&format!("/leaves/seek?q=leaf&cursor={provided}"))
            .await
            .code(),
        (503, "unavailable")
    );
    l.words.behave(Behaviour::Honest);
    assert_eq!(
        ids(&l
            .s
            .get(&format!("/leaves/seek?q=leaf&cursor={provided}"))
            .await
            .json()["items"]),
        ["3", "4"]
    );
    assert_eq!(
        ids(&l
            .s
            .get(&format!("/leaves/seek?q=leaf&cursor={stored}"))
            .await
            .json()["items"]),
        ["3", "4"]
    );
    for wrong in ["x", &provided[2..]] {
        assert_eq!(
            l.s.get(&format!("/leaves/seek?q=leaf&cursor={wrong}"))
                .await
                .code(),
            (400, "invalid_cursor")
        );
    }
    // Ids in another spelling match no record.
    l.words.behave(Behaviour::Returns(
        ["03", "+4", "4", "99", "x"].map(str::to_owned).to_vec(),
    ));
    assert_eq!(
        ids(&l.s.get("/leaves/seek?q=leaf").await.json()["items"]),
        ["4"]
    );
}

async fn searches_apply_filters(l: Library) {
    for n in 0..9 {
        let stage = if n % 3 == 0 { "published" } else { "draft" };
        let reply =
            l.s.post(
                "/papers",
                json!({"id": format!("p{n}"), "title": "word", "stage": stage}),
            )
            .await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
    l.wait_for_index("papers", |found| found.len() == 9).await;
    let page =
        l.s.get("/papers/find-in?q=word&stage=published&limit=2")
            .await
            .json();
    assert_eq!(ids(&page["items"]), ["p0", "p3"]);
    let cursor = page["nextCursor"].as_str().unwrap();
    let next =
        l.s.get(&format!(
            "/papers/find-in?q=word&stage=published&limit=2&cursor={cursor}"
        ))
        .await
        .json();
    assert_eq!(
        (ids(&next["items"]), &next["nextCursor"]),
        (vec!["p6"], &Json::Null)
    );
    let other =
        l.s.get(&format!(
            "/papers/find-in?q=word&stage=draft&limit=2&cursor={cursor}"
        ))
        .await;
    assert_eq!(other.code(), (400, "invalid_cursor"));
    assert_eq!(l.s.walk("/papers/find-in?q=word&limit=2").await.len(), 9);
    l.s.get("/papers/find-in?q=word&stage=zzz")
        .await
        .problem("enum", "query:stage");
}

async fn code_calls_provider_searches(l: Library) {
    l.paper("a", "word", "").await;
    l.wait_for_index("papers", |found| found.len() == 1).await;
    let papers = l.s.running().adapter::<Paper>().unwrap();
    let cx = linchpin::Cx::system("a test");
    let page = || linchpin::entity::PageArgs::default();
    assert_eq!(
        papers.find(&cx, "word", page()).await.unwrap()[0].title,
        "word"
    );
    assert_eq!(
        papers
            .find_page(&cx, "Word", page())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    assert_eq!(
        papers.find(&cx, " ", page()).await.unwrap_err().code(),
        linchpin::Code::ValidationFailed
    );
    // The application itself sees the records of every tenant.
    l.secrets("red", ["r".to_owned()].into_iter(), "word").await;
    l.secrets("blue", ["b".to_owned()].into_iter(), "word")
        .await;
    l.wait_for_index("secrets", |found| found.len() == 2).await;
    let secrets = l.s.running().adapter::<Secret>().unwrap();
    let cx = linchpin::Cx::system("a test").at(l.s.now());
    assert_eq!(secrets.hunt(&cx, "word", page()).await.unwrap().len(), 2);
}

/// On stores that keep their data after the process ends.
mod lasting {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sqlite() {
        super::an_index_continues_after_a_restart(super::On::Sqlite).await;
    }

    #[cfg(feature = "postgres")]
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres() {
        super::an_index_continues_after_a_restart(super::On::Postgres).await;
    }
}

#[tokio::test]
async fn an_unregistered_provider_is_a_start_up_error() {
    let app = || {
        let config = Config::new()
            .signing_secret(crate::server::SECRET)
            .port(0)
            .database("memory:");
        App::new(config).plugin(JwtAuth::new()).package(&LIBRARY)
    };
    let error = app()
        .search_provider("word", Words::default())
        .start()
        .await
        .unwrap_err()
        .to_string();
    for wanted in [
        "entity `Paper`",
        "entity `Secret`",
        "entity `Leaf`",
        "operation `find`",
        "operation `hunt_page`",
        "did you mean `word`",
    ] {
        assert!(error.contains(wanted), "{wanted} in {error}");
    }
    assert!(!error.contains("find_here"), "{error}");
    let error = app()
        .search_provider("words", Words::default())
        .search_provider("words", Words::default())
        .start()
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "two search providers are named `words`: each needs a name of its own"
    );
}

/// Forwards events.
struct EventForwarder {
    out: tokio::sync::mpsc::UnboundedSender<(String, usize, Json)>,
    records: bool,
}

impl linchpin::EventSink for EventForwarder {
    fn publish<'a>(
        &'a self,
        batch: &'a linchpin::event::Batch,
    ) -> linchpin::BoxFuture<'a, linchpin::Result<()>> {
        for event in batch.iter().filter(|event| event.record_id.is_none()) {
            let payload = event.payload.value().clone();
            let _ = self
                .out
                .send((event.name.clone(), event.keys.len(), payload));
        }
        Box::pin(async { Ok(()) })
    }

    fn needs_records(&self) -> bool {
        self.records
    }
}

/// A consumer that needs records gets the keys of a batch, in chunks; all others get one event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_batches_reach_consumers_that_need_records_only() {
    for on in STORES {
        let (out, mut plain) = tokio::sync::mpsc::unbounded_channel();
        let (more_out, mut records) = tokio::sync::mpsc::unbounded_channel();
        let more = |app: App| {
            app.search_provider("words", Words::default())
                .event_sink(
                    "plain",
                    EventForwarder {
                        out,
                        records: false,
                    },
                )
                .event_sink(
                    "records",
                    EventForwarder {
                        out: more_out,
                        records: true,
                    },
                )
        };
        let s = on.start(more).await;
        let papers = s.running().adapter::<Paper>().unwrap();
        let cx = linchpin::Cx::system("a test");
        let made = cx.transaction(async |cx| {
            for n in 0..1203 {
                let (id, title) = (Some(format!("p{n:04}")), "old".to_owned());
                papers
                    .create(
                        cx,
                        PaperCreate {
                            id,
                            slug: None,
                            title,
                            body: None,
                            stage: None,
                            rank: None,
                        },
                    )
                    .await?;
            }
            Ok(())
        });
        made.await.unwrap();
        for rank in [0, 1, 0] {
            s.post("/papers/rename-all", json!({"rank": rank, "title": "new"}))
                .await;
        }
        // A write removes an expired record that conflicts with it. Only sinks that need records
        // get an event of this removal.
        let token = s.token_in("ann", "red");
        let headers = [
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
        ];
        for _ in 0..2 {
            let reply = s
                .raw(
                    "POST",
                    "/secrets",
                    &headers,
                    "{\"slug\":\"s\",\"text\":\"t\"}",
                )
                .await;
            assert_eq!(reply.status, 201, "{reply:?}");
            s.advance(3_600_001);
        }
        s.post("/papers/clear", json!({"rank": 0})).await;
        let count = json!({"count": 1203});
        let mut received = Vec::new();
        while received
            .last()
            .is_none_or(|(name, ..): &(String, usize, Json)| name != "papers.clear")
        {
            received.push(
                tokio::time::timeout(Duration::from_mins(1), plain.recv())
                    .await
                    .expect("an event in time")
                    .unwrap(),
            );
        }
        let event = |name: &str, keys: usize| (name.to_owned(), keys, count.clone());
        assert_eq!(
            received,
            [
                event("papers.rename-all", 0),
                event("papers.rename-all", 0),
                event("papers.clear", 0)
            ]
        );
        let mut received = Vec::new();
        while received
            .iter()
            .map(
                |(name, keys, _): &(String, usize, Json)| {
                    if name == "papers.clear" { *keys } else { 0 }
                },
            )
            .sum::<usize>()
            < 1203
        {
            received.push(
                tokio::time::timeout(Duration::from_mins(1), records.recv())
                    .await
                    .expect("an event in time")
                    .unwrap(),
            );
        }
        let chunks = |name: &str| [500, 500, 203].map(|keys| event(name, keys)).to_vec();
        let expired = ("secrets.expired".to_owned(), 1, json!({"count": 1}));
        let expected = [
            chunks("papers.rename-all"),
            chunks("papers.rename-all"),
            vec![expired],
            chunks("papers.clear"),
        ]
        .concat();
        assert_eq!(received, expected);
    }
}
