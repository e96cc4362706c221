//! `computed_aggregate`: numbers stored in a record.

#![allow(missing_docs)] // test entities

use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::Server;

/// A comment on an article.
#[entity(soft_delete(deleted_at), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Remark {
    #[field(primary, default = uuid)]
    pub id: String,
    pub paper_id: String,
    #[field(default = 0)]
    pub points: i64,
    pub ratio: Option<f64>,
    pub deleted_at: Option<Timestamp>,
}

/// An article with numbers that are computed from its comments.
#[entity(version, unique(slug), soft_delete(deleted_at), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Paper {
    #[field(primary)]
    pub id: String,
    pub slug: String,
    #[field(default = 0)]
    pub remarks: i64,
    #[field(default = 0, range = 0..=100)]
    pub points: i64,
    pub mean: Option<f64>,
    pub numbers: Option<serde_json::Value>,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

/// Counts the remarks.
#[operation(
    kind = "computed_aggregate",
    source = Remark,
    source_filter = (paper_id == param(paper_id)),
    compute = count(),
    target_match(id = param(paper_id)),
    materialize_to = remarks,
    atomic,
)]
pub const RECOUNT: Operation<Paper>;

/// Sums the points.
#[operation(
    kind = "computedAggregate",
    source = Remark,
    source_filter = (paper_id == param(paper_id) && points != param(but)),
    compute = sum(points),
    target_match(slug = param(slug)),
    materialize_to = points,
)]
pub const RESUM: Operation<Paper>;

/// Computes the mean; declared on the other entity.
#[operation(
    kind = "computed_aggregate",
    source = Remark,
    target = Paper,
    source_filter = (paper_id == param(paper_id)),
    compute = avg(ratio),
    target_match(id = param(paper_id)),
    materialize_to = mean,
)]
pub const REMEAN: Operation<Remark>;

/// Computes several numbers at once.
#[operation(
    kind = "computed_aggregate",
    source = Remark,
    source_filter = (paper_id == param(paper_id)),
    compute(total = count(), high_score = max(points), lowest = min(ratio)),
    target_match(id = param(paper_id)),
    materialize_to = numbers,
)]
pub const RENUMBER: Operation<Paper>;

pub static PAPERS: Package = package!(
    name = "papers",
    entities = [
        entity(Paper, [RECOUNT, RESUM, RENUMBER]),
        entity(Remark, [REMEAN])
    ]
);

cases!(&crate::computed::PAPERS =>
    computed_aggregate_stores_its_number, computed_aggregate_finds_its_target_by_a_unique,
    computed_aggregate_writes_to_another_entity, computed_aggregate_stores_an_object_of_numbers,
    computed_aggregate_checks_field_rules,
    computed_aggregate_ignores_deleted_records_of_both_entities, code_calls_computed_aggregates,
    concurrent_recounts_count_every_record,
);

async fn seed(s: &Server, remarks: &[Json]) {
    let paper = s.post("/papers", json!({"id": "p1", "slug": "one"})).await;
    assert_eq!(paper.status, 201, "{paper:?}");
    for remark in remarks {
        let reply = s.post("/remarks", remark.clone()).await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
}

async fn computed_aggregate_stores_its_number(s: &Server) {
    seed(
        s,
        &[
            json!({"paperId": "p1"}),
            json!({"paperId": "p1"}),
            json!({"paperId": "p2"}),
        ],
    )
    .await;
    s.advance(1000);
    let reply = s.post("/papers/recount", json!({"paperId": "p1"})).await;
    assert_eq!(
        (reply.status, &reply.json()["remarks"]),
        (200, &json!(2)),
        "{reply:?}"
    );
    // The computation is a normal change of the record: it increases the version.
    assert_eq!(reply.header("etag"), "\"2\"");
    assert_eq!(reply.json()["updatedAt"], json!(s.now().to_string()));
    assert_eq!(s.get("/papers/p1").await.json()["remarks"], 2);
    assert_eq!(
        s.post("/papers/recount", json!({"paperId": "p2"}))
            .await
            .code(),
        (404, "not_found")
    );
    s.post("/papers/recount", json!({}))
        .await
        .problem("required", "paperId");
    s.post("/papers/recount", json!({"paperId": 5}))
        .await
        .problem("type", "paperId");
}

async fn computed_aggregate_finds_its_target_by_a_unique(s: &Server) {
    seed(
        s,
        &[
            json!({"paperId": "p1", "points": 4}),
            json!({"paperId": "p1", "points": 5}),
            json!({"paperId": "p1", "points": 9}),
        ],
    )
    .await;
    let reply = s
        .post(
            "/papers/resum",
            json!({"paperId": "p1", "but": 5, "slug": "one"}),
        )
        .await;
    assert_eq!((reply.status, &reply.json()["points"]), (200, &json!(13)));
    assert_eq!(
        s.post(
            "/papers/resum",
            json!({"paperId": "p1", "but": 5, "slug": "two"})
        )
        .await
        .status,
        404
    );
    s.post(
        "/papers/resum",
        json!({"paperId": "p1", "but": "x", "slug": "one"}),
    )
    .await
    .problem("type", "but");
}

async fn computed_aggregate_writes_to_another_entity(s: &Server) {
    seed(
        s,
        &[
            json!({"paperId": "p1", "ratio": 0.5}),
            json!({"paperId": "p1", "ratio": 1.0}),
            json!({"paperId": "p1"}),
        ],
    )
    .await;
    let reply = s.post("/remarks/remean", json!({"paperId": "p1"})).await;
    assert_eq!(
        (reply.status, &reply.json()["mean"], &reply.json()["slug"]),
        (200, &json!(0.75), &json!("one"))
    );
    assert_eq!(
        s.raw("DELETE", "/papers/p1", &[("if-match", "\"2\"")], "")
            .await
            .status,
        204
    );
    assert_eq!(
        s.post("/remarks/remean", json!({"paperId": "p1"}))
            .await
            .status,
        404
    );
}

async fn computed_aggregate_stores_an_object_of_numbers(s: &Server) {
    seed(s, &[json!({"paperId": "p1", "points": 4})]).await;
    let reply = s.post("/papers/renumber", json!({"paperId": "p1"})).await;
    assert_eq!(
        reply.json()["numbers"],
        json!({"total": 1, "highScore": 4, "lowest": null})
    );
}

async fn computed_aggregate_checks_field_rules(s: &Server) {
    seed(
        s,
        &[
            json!({"paperId": "p1", "points": 60}),
            json!({"paperId": "p1", "points": 41}),
        ],
    )
    .await;
    s.post(
        "/papers/resum",
        json!({"paperId": "p1", "but": 0, "slug": "one"}),
    )
    .await
    .problem("range", "points");
    assert_eq!(s.get("/papers/p1").await.json()["points"], 0);
    let max_integer = (1_i64 << 53) - 1;
    s.post("/remarks", json!({"paperId": "p1", "points": max_integer}))
        .await;
    s.post(
        "/papers/resum",
        json!({"paperId": "p1", "but": 0, "slug": "one"}),
    )
    .await
    .problem("range", "points");
}

async fn computed_aggregate_ignores_deleted_records_of_both_entities(s: &Server) {
    seed(s, &[json!({"paperId": "p1"}), json!({"paperId": "p1"})]).await;
    let id = s.get("/remarks").await.json()["items"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(s.delete(&format!("/remarks/{id}")).await.status, 204);
    assert_eq!(
        s.post("/papers/recount", json!({"paperId": "p1"}))
            .await
            .json()["remarks"],
        1
    );
    assert_eq!(
        s.raw("DELETE", "/papers/p1", &[("if-match", "\"2\"")], "")
            .await
            .status,
        204
    );
    assert_eq!(
        s.post("/papers/recount", json!({"paperId": "p1"}))
            .await
            .status,
        404
    );
}

async fn code_calls_computed_aggregates(s: &Server) {
    seed(s, &[json!({"paperId": "p1", "ratio": 2.0})]).await;
    let cx = Cx::system("a test");
    let paper: Paper = s
        .running()
        .adapter::<Paper>()
        .unwrap()
        .recount(&cx, "p1")
        .await
        .unwrap();
    assert_eq!(paper.remarks, 1);
    let paper: Paper = s
        .running()
        .adapter::<Remark>()
        .unwrap()
        .remean(&cx, "p1")
        .await
        .unwrap();
    assert_eq!(paper.mean, Some(2.0));
    // A computation is rolled back with its transaction.
    let papers = s.running().adapter::<Paper>().unwrap();
    s.post("/remarks", json!({"paperId": "p1"})).await;
    let failed: linchpin::Result<()> = cx
        .transaction(async |cx| {
            assert_eq!(papers.recount(cx, "p1").await?.remarks, 2);
            Err(linchpin::Error::not_found())
        })
        .await;
    assert!(failed.is_err());
    assert_eq!(s.get("/papers/p1").await.json()["remarks"], 1);
}

async fn concurrent_recounts_count_every_record(s: &Server) {
    seed(s, &[]).await;
    // The last call counts every remark.
    let replies = s
        .parallel(20, |_| async {
            assert_eq!(
                s.post("/remarks", json!({"paperId": "p1"})).await.status,
                201
            );
            s.post("/papers/recount", json!({"paperId": "p1"})).await
        })
        .await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    assert_eq!(s.get("/papers/p1").await.json()["remarks"], 20);
}

/// Concurrent transactions: the record is locked before its number is computed, so the number
/// includes records that were created while it waited.
#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_transactions_compute_current_counts() {
    let s = &Server::postgres_at_once(&PAPERS).await;
    concurrent_recounts_count_every_record(s).await;
    let papers = s.running().adapter::<Paper>().unwrap();
    let cx = Cx::system("a test");
    let pause = |millis| tokio::time::sleep(std::time::Duration::from_millis(millis));
    let locked = cx.transaction(async |cx| {
        papers
            .update(
                cx,
                "p1",
                PaperPatch {
                    slug: Some("two".to_owned()),
                    ..PaperPatch::default()
                },
                None,
            )
            .await?;
        pause(500).await;
        Ok(())
    });
    let counted = async {
        pause(150).await;
        s.post("/papers/recount", json!({"paperId": "p1"})).await
    };
    let added = async {
        pause(300).await;
        s.post("/remarks", json!({"paperId": "p1"})).await
    };
    let (locked, counted, added) = tokio::join!(locked, counted, added);
    assert!(locked.is_ok());
    assert_eq!(
        (added.status, counted.status, &counted.json()["remarks"]),
        (201, 200, &json!(21))
    );
}
