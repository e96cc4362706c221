//! Concurrent callers: if several callers have the same precondition, exactly one succeeds; and no
//! addition is lost.
//!
//! Each test of concurrent writers runs 40 rounds of 25 callers and one round of 200 callers. A
//! barrier starts the callers of a round at the same time. The test checks the responses and the
//! stored records.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use linchpin::Adapters;
use linchpin::http::HttpService;
use linchpin::store::Store;
use serde_json::{Value as Json, json};
use tokio::sync::Barrier;
use tower_service::Service;

use super::side::app;

/// Status and body.
type Reply = (u16, Json);

#[derive(Clone)]
struct App(HttpService, Adapters);

impl App {
    async fn on(store: &Arc<dyn Store>) -> Self {
        let now = linchpin::Timestamp::parse("2026-03-04T05:06:07.008Z")
            .unwrap()
            .millis();
        let (adapters, service) = app(store, &Arc::new(AtomicI64::new(now))).await;
        Self(service, adapters)
    }

    async fn call(&self, method: &str, path: &str, version: Option<i64>, body: Json) -> Reply {
        let tag = version.map(|version| ("if-match", format!("\"{version}\"")));
        self.call_with(method, path, tag, body).await
    }

    async fn call_with(
        &self,
        method: &str,
        path: &str,
        header: Option<(&str, String)>,
        body: Json,
    ) -> Reply {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("x-actor", 1);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let body = if body.is_null() {
            Body::empty()
        } else {
            Body::from(body.to_string())
        };
        let request = request
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        let Ok(response) = self.0.clone().call(request).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or(Json::Null))
    }

    async fn get(&self, path: &str) -> Json {
        let (status, body) = self.call("GET", path, None, Json::Null).await;
        assert_eq!(status, 200, "{path} {body}");
        body
    }

    /// Creates a record and returns its path.
    async fn create_record(&self, entity: &str, body: Json) -> String {
        let (status, record) = self.call("POST", entity, None, body).await;
        assert_eq!(status, 201, "{record}");
        format!("{entity}/{}", record["id"].as_str().unwrap())
    }

    /// Runs one call of each caller, all at the same time.
    async fn call_concurrently(
        &self,
        callers: usize,
        method: &'static str,
        path: &str,
        version: Option<i64>,
        body: impl Fn(usize) -> Json,
    ) -> Vec<Reply> {
        let tag = version.map(|version| ("if-match", format!("\"{version}\"")));
        self.call_concurrently_with(callers, method, path, tag, body)
            .await
    }

    /// The same call under the same idempotency key.
    async fn call_concurrently_under_key(
        &self,
        callers: usize,
        method: &'static str,
        path: &str,
        key: &str,
        body: &Json,
    ) -> Vec<Reply> {
        self.call_concurrently_with(
            callers,
            method,
            path,
            Some(("idempotency-key", key.to_owned())),
            |_| body.clone(),
        )
        .await
    }

    async fn call_concurrently_with(
        &self,
        callers: usize,
        method: &'static str,
        path: &str,
        header: Option<(&'static str, String)>,
        body: impl Fn(usize) -> Json,
    ) -> Vec<Reply> {
        let barrier = Arc::new(Barrier::new(callers));
        let calls = (0..callers).map(|n| {
            let (app, barrier, path, body) =
                (self.clone(), Arc::clone(&barrier), path.to_owned(), body(n));
            let header = header.clone();
            tokio::spawn(async move {
                barrier.wait().await;
                app.call_with(method, &path, header, body).await
            })
        });
        let calls: Vec<_> = calls.collect();
        let mut replies = Vec::new();
        for call in calls {
            replies.push(call.await.unwrap());
        }
        replies
    }
}

/// The rounds: each has a number, and the number of its callers.
fn rounds() -> impl Iterator<Item = (usize, usize)> {
    (0..40).map(|round| (round, 25)).chain([(40, 200)])
}

/// Checks that one response has the first status, and all others the second status and code.
fn check_one_success(replies: &[Reply], won: u16, lost: (u16, &str)) -> Json {
    let mut winners = replies.iter().filter(|(status, _)| *status == won);
    let winner = winners
        .next()
        .unwrap_or_else(|| panic!("no call succeeded: {replies:?}"));
    assert_eq!(
        winners.count(),
        0,
        "more than one call succeeded: {replies:?}"
    );
    for (status, body) in replies.iter().filter(|(status, _)| *status != won) {
        assert_eq!(
            (*status, body["code"].as_str().unwrap_or_default()),
            lost,
            "{body}"
        );
    }
    winner.1.clone()
}

async fn concurrent_transitions_succeed_once(app: App) {
    for (round, callers) in rounds() {
        let path = app
            .create_record("/samples", json!({"slug": format!("s{round}")}))
            .await;
        let replies = app
            .call_concurrently(
                callers,
                "POST",
                &format!("{path}/publish"),
                None,
                |n| json!({"headline": format!("by {n}")}),
            )
            .await;
        let winner = check_one_success(&replies, 200, (400, "invalid_transition"));
        assert_eq!(app.get(&path).await, winner);
    }
}

async fn concurrent_consumes_succeed_once(app: App) {
    for (round, callers) in rounds() {
        let category = format!("c{round}");
        let records = 1 + round % 10;
        for n in 0..records {
            app.create_record(
                "/samples",
                json!({"slug": format!("s{round}-{n}"), "category": category}),
            )
            .await;
        }
        let body = json!({"category": category, "code": "none"});
        let replies = app
            .call_concurrently(callers, "POST", "/samples/take", None, |_| body.clone())
            .await;
        assert!(
            replies.iter().all(|(status, _)| *status == 200),
            "{replies:?}"
        );
        let taken: Vec<&str> = replies
            .iter()
            .filter_map(|(_, record)| record["id"].as_str())
            .collect();
        assert_eq!(
            (taken.len(), taken.iter().collect::<BTreeSet<_>>().len()),
            (records, records),
            "{taken:?}"
        );
        assert_eq!(
            app.get(&format!("/samples?category={category}")).await["items"],
            json!([])
        );
    }
}

async fn concurrent_upserts_create_once(app: App) {
    for (round, callers) in rounds() {
        let slug = format!("s{round}");
        let body = |n: usize| json!({"slug": format!("s{round}"), "title": format!("by {n}"), "category": null, "views": 1});
        let replies = app
            .call_concurrently(callers, "POST", "/samples/ensure", None, body)
            .await;
        let created = replies
            .iter()
            .filter(|(status, body)| *status == 201 && body["created"] == true)
            .count();
        let changed = replies
            .iter()
            .filter(|(status, body)| *status == 200 && body["created"] == false)
            .count();
        assert_eq!((created, changed), (1, callers - 1), "{replies:?}");
        assert_eq!(
            app.get(&format!("/samples?slug={slug}")).await["items"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        let ids: BTreeSet<&str> = replies
            .iter()
            .filter_map(|(_, body)| body["entity"]["id"].as_str())
            .collect();
        assert_eq!(ids.len(), 1, "{ids:?}");
    }
}

async fn concurrent_increments_all_count(app: App) {
    for (round, callers) in rounds() {
        let path = app
            .create_record("/samples", json!({"slug": format!("s{round}")}))
            .await;
        let replies = app
            .call_concurrently(callers, "POST", &format!("{path}/sink"), None, |_| {
                Json::Null
            })
            .await;
        let seen: BTreeSet<i64> = replies
            .iter()
            .filter_map(|(_, record)| record["big"].as_i64())
            .collect();
        let steps: BTreeSet<i64> = (1..=callers)
            .map(|n| -7 * i64::try_from(n).unwrap())
            .collect();
        assert_eq!(seen, steps, "each response has a different sum");
        assert_eq!(
            app.get(&path).await["big"],
            json!(-7 * i64::try_from(callers).unwrap())
        );
    }
}

async fn concurrent_increments_stay_within_the_bound(app: App) {
    for (round, callers) in rounds() {
        // The record has 896 views, because a new record must have fewer than 900. Each increment
        // adds 3 and the maximum is 1000, so 34 increments are allowed. Only the round of 200
        // callers reaches the maximum.
        let allowed = callers.min(34);
        let path = app
            .create_record(
                "/samples",
                json!({"slug": format!("s{round}"), "views": 896}),
            )
            .await;
        let replies = app
            .call_concurrently(callers, "POST", &format!("{path}/view"), None, |_| {
                Json::Null
            })
            .await;
        let won = replies.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!(won, allowed, "{replies:?}");
        let views = 896 + 3 * i64::try_from(allowed).unwrap();
        assert_eq!(app.get(&path).await["views"], views);
    }
}

async fn concurrent_pushes_all_arrive(app: App) {
    for (round, callers) in rounds() {
        let path = app
            .create_record(
                "/samples",
                json!({"slug": format!("s{round}"), "tags": ["first"]}),
            )
            .await;
        app.call_concurrently(
            callers,
            "POST",
            &format!("{path}/tag"),
            None,
            |n| json!({"tag": format!("t{n}")}),
        )
        .await;
        app.call_concurrently(
            callers,
            "POST",
            &format!("{path}/tag"),
            None,
            |_| json!({"tag": "same"}),
        )
        .await;
        let record = app.get(&path).await;
        let tags: Vec<&str> = record["tags"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Json::as_str)
            .collect();
        assert_eq!(
            (tags.len(), tags.iter().collect::<BTreeSet<_>>().len()),
            (callers + 2, callers + 2),
            "{tags:?}"
        );
    }
}

async fn concurrent_pushes_stay_within_the_bound(app: App) {
    for (round, callers) in rounds() {
        let path = app
            .create_record(
                "/samples",
                json!({"slug": format!("s{round}"), "few": ["a", "b"]}),
            )
            .await;
        let replies = app
            .call_concurrently(
                callers,
                "POST",
                &format!("{path}/add-few"),
                None,
                |n| json!({"tag": format!("t{n}")}),
            )
            .await;
        let winner = check_one_success(&replies, 200, (400, "validation_failed"));
        assert_eq!(app.get(&path).await, winner);
    }
}

async fn concurrent_item_changes_are_kept(app: App) {
    for (round, callers) in rounds() {
        let lines = json!([{"id": "a", "note": "a"}, {"id": "b", "note": "b"}]);
        let path = app
            .create_record("/samples", json!({"slug": format!("s{round}")}))
            .await;
        for line in lines.as_array().unwrap() {
            let (status, body) = app
                .call(
                    "POST",
                    &format!("{path}/lines-add"),
                    None,
                    json!({"note": line["note"]}),
                )
                .await;
            assert_eq!(status, 201, "{body}");
        }
        let replies = app
            .call_concurrently(
                callers,
                "POST",
                &format!("{path}/lines-add"),
                None,
                |n| json!({"note": format!("n{n}")}),
            )
            .await;
        let winner = check_one_success(&replies, 201, (409, "collection_full"));
        let stored_lines = app.get(&path).await["lines"].clone();
        assert_eq!(
            (stored_lines.as_array().unwrap().len(), &stored_lines[2]),
            (3, &winner)
        );
    }
}

async fn concurrent_creates_of_one_unique_value_succeed_once(app: App) {
    for (round, callers) in rounds() {
        let slug = format!("s{round}");
        let body = |n: usize| json!({"slug": format!("s{round}"), "title": format!("by {n}")});
        let replies = app
            .call_concurrently(callers, "POST", "/samples", None, body)
            .await;
        let winner = check_one_success(&replies, 201, (409, "conflict"));
        let refused = replies.iter().find(|(status, _)| *status == 409).unwrap();
        assert_eq!(
            (
                &refused.1["details"][0]["path"],
                &refused.1["details"][0]["code"]
            ),
            (&json!("slug"), &json!("unique"))
        );
        assert_eq!(
            app.get(&format!("/samples?slug={slug}")).await["items"],
            json!([winner])
        );
    }
}

async fn concurrent_updates_of_one_version_succeed_once(app: App) {
    for (round, callers) in rounds() {
        let path = app
            .create_record("/accounts", json!({"slug": format!("s{round}")}))
            .await;
        let replies = app
            .call_concurrently(
                callers,
                "PATCH",
                &path,
                Some(1),
                |n| json!({"title": format!("by {n}")}),
            )
            .await;
        let winner = check_one_success(&replies, 200, (412, "precondition_failed"));
        assert_eq!(app.get(&path).await, winner);
        // The same for an operation and for a delete.
        let replies = app
            .call_concurrently(callers, "POST", &format!("{path}/count"), Some(2), |_| {
                Json::Null
            })
            .await;
        check_one_success(&replies, 200, (412, "precondition_failed"));
        let replies = app
            .call_concurrently(callers, "DELETE", &path, Some(3), |_| Json::Null)
            .await;
        check_one_success(&replies, 204, (404, "not_found"));
    }
}

async fn concurrent_updates_of_different_fields_are_kept(app: App) {
    for (round, callers) in rounds() {
        let path = app
            .create_record("/samples", json!({"slug": format!("s{round}")}))
            .await;
        let body = |n: usize| {
            if n.is_multiple_of(2) {
                json!({"title": "even"})
            } else {
                json!({"category": "odd"})
            }
        };
        let replies = app
            .call_concurrently(callers, "PATCH", &path, None, body)
            .await;
        assert!(
            replies.iter().all(|(status, _)| *status == 200),
            "{replies:?}"
        );
        let record = app.get(&path).await;
        assert_eq!(
            (&record["title"], &record["category"]),
            (&json!("even"), &json!("odd"))
        );
    }
}

/// The same call under one idempotency key has one effect. A concurrent call gets an error; a later
/// call gets the stored response.
async fn concurrent_calls_under_one_key_have_one_effect(app: App) {
    for (round, callers) in rounds() {
        let key = format!("key-{round}");
        let body = json!({"number": format!("n{round}"), "amount": 1});
        let replies = app
            .call_concurrently_under_key(callers, "POST", "/orders", &key, &body)
            .await;
        let made: BTreeSet<String> = replies
            .iter()
            .filter(|(status, _)| *status == 201)
            .map(|(_, body)| body.to_string())
            .collect();
        assert_eq!(made.len(), 1, "equal responses: {replies:?}");
        for (status, body) in replies.iter().filter(|(status, _)| *status != 201) {
            assert_eq!(
                (*status, body["code"].as_str()),
                (409, Some("idempotency_in_progress")),
                "{body}"
            );
        }
        // Afterwards every call gets the response.
        let again = app
            .call_concurrently_under_key(2, "POST", "/orders", &key, &body)
            .await;
        assert!(
            again
                .iter()
                .all(|(status, body)| *status == 201 && made.contains(&body.to_string())),
            "{again:?}"
        );
        assert_eq!(
            app.get(&format!("/orders?number=n{round}")).await["items"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }
}

async fn concurrent_restores_succeed_once(app: App) {
    for (round, callers) in rounds() {
        let path = app
            .create_record("/projects", json!({"id": format!("p{round}")}))
            .await;
        assert_eq!(app.call("DELETE", &path, None, Json::Null).await.0, 204);
        let replies = app
            .call_concurrently(callers, "POST", &format!("{path}/revive"), None, |_| {
                Json::Null
            })
            .await;
        let winner = check_one_success(&replies, 200, (404, "not_found"));
        assert_eq!(app.get(&path).await, winner);
    }
}

/// Each call claims at most two jobs. No job is claimed twice, and at the end all are claimed.
async fn concurrent_claims_get_different_jobs(app: App) {
    let jobs = app.1.get::<super::fixture::related::Job>().unwrap();
    let now = linchpin::Timestamp::parse("2026-03-04T05:06:07.008Z").unwrap();
    for (round, callers) in rounds() {
        let job_count = 2 * (1 + round % 10);
        for n in 0..job_count {
            let id = (round * 1000 + n).to_string();
            app.create_record(
                "/jobs",
                json!({"id": id, "rank": 1, "dueAt": "2026-01-01T00:00:00Z"}),
            )
            .await;
        }
        let barrier = Arc::new(Barrier::new(callers));
        let calls: Vec<_> = (0..callers)
            .map(|n| {
                let (jobs, barrier) = (jobs.clone(), Arc::clone(&barrier));
                tokio::spawn(async move {
                    barrier.wait().await;
                    jobs.claim(&linchpin::Cx::system("a worker").at(now), format!("w{n}"))
                        .await
                        .unwrap()
                })
            })
            .collect();
        let mut taken = Vec::new();
        for call in calls {
            let claimed = call.await.unwrap();
            assert!(claimed.len() <= 2, "{claimed:?}");
            taken.extend(claimed.into_iter().map(|job| job.id));
        }
        let distinct: BTreeSet<i64> = taken.iter().copied().collect();
        assert_eq!(
            (taken.len(), distinct.len()),
            (job_count, job_count),
            "{taken:?}"
        );
    }
}

/// A call that requires a state and changes this state.
async fn concurrent_field_updates_with_one_condition_succeed_once(app: App) {
    for (round, callers) in rounds() {
        let path = app
            .create_record("/samples", json!({"slug": format!("s{round}")}))
            .await;
        let body = |n: usize| json!({"slug": format!("s{round}-{n}"), "state": "live"});
        let replies = app
            .call_concurrently(callers, "PATCH", &format!("{path}/decide"), None, body)
            .await;
        let winner = check_one_success(&replies, 200, (404, "not_found"));
        assert_eq!(app.get(&path).await, winner);
    }
}

/// A client that reads all pages gets every stable record exactly once and in order, while other
/// records are created and deleted, including the last record of a page.
async fn pages_contain_every_lasting_record_once(app: App) {
    let stable: Vec<String> = (0..30).map(|n| format!("stable{n:02}")).collect();
    for (rank, slug) in stable.iter().enumerate() {
        app.create_record(
            "/samples",
            json!({"slug": slug, "rank": rank / 3, "category": "w"}),
        )
        .await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let barrier = Arc::new(Barrier::new(25));
    let churn = (0..24).map(|n| {
        let (app, done, barrier) = (app.clone(), Arc::clone(&done), Arc::clone(&barrier));
        tokio::spawn(async move {
            barrier.wait().await;
            let mut round = 0;
            while !done.load(Ordering::SeqCst) {
                let body = json!({"slug": format!("{n}-{round}"), "rank": (n + round) % 11, "category": "w"});
                let path = app.create_record("/samples", body).await;
                // The reader of the pages may have deleted the record already.
                let (status, _) = app.call("DELETE", &path, None, Json::Null).await;
                assert!([204, 404].contains(&status), "{status}");
                round += 1;
            }
        })
    });
    let churn: Vec<_> = churn.collect();
    barrier.wait().await;
    for round in 0..40 {
        let order = if round % 2 == 0 { "asc" } else { "desc" };
        let base = format!("/samples?category=w&sort=rank&sortDir={order}&limit=2");
        let (mut seen, mut path) = (Vec::new(), base.clone());
        loop {
            let page = app.get(&path).await;
            let items = page["items"].as_array().unwrap();
            seen.extend(
                items
                    .iter()
                    .filter_map(|r| r["slug"].as_str())
                    .filter(|s| s.starts_with("stable"))
                    .map(str::to_owned),
            );
            let Some(cursor) = page["nextCursor"].as_str() else {
                break;
            };
            assert!(seen.len() <= stable.len(), "the pages do not end: {seen:?}");
            if let Some(last) = items
                .last()
                .filter(|r| !r["slug"].as_str().unwrap().starts_with("stable"))
            {
                app.call(
                    "DELETE",
                    &format!("/samples/{}", last["id"].as_str().unwrap()),
                    None,
                    Json::Null,
                )
                .await;
            }
            path = format!("{base}&cursor={cursor}");
        }
        // Records were created in the order of their ids, which break ties.
        let mut expected = stable.clone();
        if order == "desc" {
            expected.reverse();
        }
        assert_eq!(seen, expected);
    }
    done.store(true, Ordering::SeqCst);
    for task in churn {
        task.await.unwrap();
    }
}

macro_rules! races {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                let store: std::sync::Arc<dyn linchpin::store::Store> = std::sync::Arc::new(linchpin::store::memory::Memory::new());
                super::$name(super::App::on(&store).await).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                let (store, _folder) = crate::on_sqlite();
                super::$name(super::App::on(&store).await).await;
                store.close().await;
            })*
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                let store = crate::on_postgres().0;
                super::$name(super::App::on(&store).await).await;
                store.close().await;
            })*
        }
    };
}

races!(
    concurrent_transitions_succeed_once,
    concurrent_consumes_succeed_once,
    concurrent_upserts_create_once,
    concurrent_increments_all_count,
    concurrent_increments_stay_within_the_bound,
    concurrent_pushes_all_arrive,
    concurrent_pushes_stay_within_the_bound,
    concurrent_item_changes_are_kept,
    concurrent_creates_of_one_unique_value_succeed_once,
    concurrent_updates_of_one_version_succeed_once,
    concurrent_updates_of_different_fields_are_kept,
    concurrent_field_updates_with_one_condition_succeed_once,
    concurrent_calls_under_one_key_have_one_effect,
    concurrent_restores_succeed_once,
    concurrent_claims_get_different_jobs,
    pages_contain_every_lasting_record_once,
);
