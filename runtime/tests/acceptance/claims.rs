//! Batches with `limit` that return records: concurrent workers get different ones.

#![allow(missing_docs)] // test entities

use std::collections::BTreeSet;
use std::sync::Arc;

use linchpin::prelude::*;
use serde_json::json;
use tokio::sync::Barrier;

use crate::cases;
use crate::server::Server;

/// A job for one worker.
#[entity(index(due_at), sort = asc(due_at), pagination(default = 100, max = 100), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Job {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(filterable)]
    pub rank: i64,
    pub due_at: Option<Timestamp>,
    #[field(private)]
    pub worker: Option<String>,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

/// Claims the five jobs that are due first.
#[operation(
    kind = "batch",
    action = "update",
    filter = (worker.is_none() && due_at <= now()),
    set(worker = param(worker)),
    limit = 5,
    returns = "records",
)]
pub const CLAIM: Operation<Job>;

/// Claims the two jobs with the highest rank, including claimed ones.
#[operation(
    kind = "batch",
    action = "update",
    filter = (due_at <= param(until)),
    set(worker = param(worker), due_at = param(again)),
    limit = 2,
    sort = desc(rank),
    returns = "records",
)]
pub const LEASE: Operation<Job>;

/// Returns the two jobs with the highest rank, and writes their worker if the call names one.
#[operation(
    kind = "batch",
    action = "update",
    filter = (due_at <= param(until)),
    set(worker = param(worker)),
    limit = 2,
    sort = desc(rank),
    returns = "records",
)]
pub const NAME: Operation<Job>;

pub static JOBS: Package = package!(
    name = "jobs",
    entities = [entity(Job, [CLAIM, LEASE, NAME])]
);

cases!(&crate::claims::JOBS =>
    concurrent_claims_get_different_records, claims_return_records_in_sort_order,
    a_claim_has_no_route, a_claim_without_assignments_writes_nothing,
);

async fn jobs(s: &Server, count: i64) {
    for rank in 0..count {
        // All are due, the last ones first.
        let due = format!("2026-01-01T00:{:02}:00.000Z", 59 - rank);
        assert_eq!(
            s.post("/jobs", json!({"rank": rank, "dueAt": due}))
                .await
                .status,
            201
        );
    }
}

async fn concurrent_claims_get_different_records(s: &Server) {
    jobs(s, 50).await;
    s.post(
        "/jobs",
        json!({"rank": 99, "dueAt": "2027-01-01T00:00:00.000Z"}),
    )
    .await;
    let adapter = s.running().adapter::<Job>().unwrap();
    let (barrier, now) = (Arc::new(Barrier::new(25)), s.now());
    let calls: Vec<_> = (0..25)
        .map(|n| {
            let (adapter, barrier) = (adapter.clone(), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                adapter
                    .claim(&Cx::system("a worker").at(now), format!("w{n}"))
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut all = Vec::new();
    for call in calls {
        let jobs: Vec<Job> = call.await.unwrap();
        assert!(jobs.is_empty() || jobs.len() == 5, "{}", jobs.len());
        let workers: BTreeSet<_> = jobs.iter().map(|job| job.worker.clone()).collect();
        assert!(
            workers.len() <= 1
                && jobs
                    .iter()
                    .all(|job| job.worker.is_some() && job.updated_at == now)
        );
        all.extend(jobs);
    }
    let distinct: BTreeSet<&str> = all.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(
        (all.len(), distinct.len()),
        (50, 50),
        "each job is claimed once"
    );
    assert!(
        all.iter().all(|job| job.rank < 50),
        "jobs that are not due stay unclaimed"
    );
    assert!(
        adapter
            .claim(&Cx::system("a worker").at(now), "late")
            .await
            .unwrap()
            .is_empty()
    );
}

async fn claims_return_records_in_sort_order(s: &Server) {
    jobs(s, 9).await;
    let adapter = s.running().adapter::<Job>().unwrap();
    let cx = Cx::system("a worker").at(s.now());
    let ranks = |jobs: &[Job]| jobs.iter().map(|job| job.rank).collect::<Vec<_>>();
    // By the default sort: the job that is due first was created last.
    assert_eq!(
        ranks(&adapter.claim(&cx, "a").await.unwrap()),
        [8, 7, 6, 5, 4]
    );
    let (until, again) = (s.now(), Timestamp::parse("2026-06-01T00:00:00Z").unwrap());
    let first = adapter.lease(&cx, until, "b", again).await.unwrap();
    assert_eq!(ranks(&first), [8, 7]);
    assert!(
        first
            .iter()
            .all(|job| job.worker.as_deref() == Some("b") && job.due_at == Some(again))
    );
    assert_eq!(
        ranks(&adapter.lease(&cx, until, "c", again).await.unwrap()),
        [6, 5],
        "a leased job is not claimed again"
    );
}

async fn a_claim_has_no_route(s: &Server) {
    for path in ["/jobs/claim", "/jobs/lease"] {
        assert_eq!(
            s.post(path, json!({})).await.status,
            405,
            "{path} must be taken as the path of a record"
        );
    }
    let document = s.get("/openapi.json").await.json();
    assert!(
        document["paths"]
            .as_object()
            .unwrap()
            .keys()
            .all(|path| !path.contains("claim") && !path.contains("lease"))
    );
}

/// A call that omits every assignment returns the same records and writes nothing.
async fn a_claim_without_assignments_writes_nothing(s: &Server) {
    jobs(s, 5).await;
    let adapter = s.running().adapter::<Job>().unwrap();
    let until = Timestamp::parse("2026-01-02T00:00:00Z").unwrap();
    let before = s.now();
    s.advance(1000);
    let cx = Cx::system("test").at(s.now());
    let same = adapter.name(&cx, until, Param::Omitted).await.unwrap();
    let state_of = |jobs: &[Job]| {
        jobs.iter()
            .map(|job| (job.rank, job.worker.clone(), job.updated_at))
            .collect::<Vec<_>>()
    };
    assert_eq!(state_of(&same), [(4, None, before), (3, None, before)]);
    let named = adapter
        .name(&cx, until, Param::Value("w".to_owned()))
        .await
        .unwrap();
    assert_eq!(
        state_of(&named),
        [
            (4, Some("w".to_owned()), s.now()),
            (3, Some("w".to_owned()), s.now())
        ]
    );
}
