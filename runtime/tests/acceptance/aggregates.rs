//! `aggregate`.

#![allow(missing_docs)] // test entities

use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::fixture::Status;
use crate::server::Server;

/// A post with fields to count.
#[entity(soft_delete(deleted_at), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Entry {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    pub category: Option<String>,
    pub live: Option<bool>,
    #[field(default = 0)]
    pub score: i64,
    pub ratio: Option<f64>,
    pub due_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

#[operation(kind = "aggregate", compute(total = count(), score = sum(score)))]
pub const STATS: Operation<Entry>;

#[operation(kind = "aggregate", group_by = status, compute(total = count(), by_category = count_by(category)))]
pub const BY_STATUS: Operation<Entry>;

/// Counts by the group key, and by one field under two names.
#[operation(
    kind = "aggregate",
    group_by = category,
    compute(categories = count_by(category), states = count_by(status), same = count_by(status), top = max(score), lives = count_by(live)),
)]
pub const STATES: Operation<Entry>;

#[operation(kind = "aggregate", group_by = month(due_at), compute(states = count_by(status), total = count()))]
pub const STATES_BY_MONTH: Operation<Entry>;

#[operation(
    kind = "aggregate",
    compute(
        total = count(),
        drafts = count(status == Status::Draft),
        high_score = sum(score, where = score > param(over)),
        by_category = count_by(category),
        by_live = count_by(live),
        by_score = count_by(score),
    ),
    filter = (category != param(without)),
    optional_params(without, over),
)]
pub const DETAILS: Operation<Entry>;

#[operation(
    kind = "aggregate",
    compute(n = count(), s = sum(ratio), a = avg(score), lo = min(ratio), mid = avg(ratio), hi = max(due_at), first = min(category), by = count_by(status)),
    filter = (category == param(category)),
)]
pub const OF_CATEGORY: Operation<Entry>;

#[operation(kind = "aggregate", group_by = category, compute(n = count(), mean = avg(score)))]
pub const BY_CATEGORY: Operation<Entry>;

macro_rules! periods {
    ($($name:ident $period:ident),*) => {$(
        #[operation(kind = "aggregate", group_by = $period(due_at), compute(n = count()))]
        pub const $name: Operation<Entry>;
    )*};
}
periods!(BY_YEAR year, BY_MONTH month, BY_WEEK week, BY_DAY day, BY_HOUR hour);

pub static ENTRIES: Package = package!(
    name = "entries",
    entities = [entity(
        Entry,
        [
            STATS,
            BY_STATUS,
            DETAILS,
            OF_CATEGORY,
            BY_CATEGORY,
            BY_YEAR,
            BY_MONTH,
            BY_WEEK,
            BY_DAY,
            BY_HOUR,
            STATES,
            STATES_BY_MONTH
        ]
    )],
);

cases!(&crate::aggregates::ENTRIES =>
    aggregate_counts_and_sums, aggregate_groups_by_a_field, aggregate_computes_every_function,
    aggregate_of_no_records, aggregate_groups_by_week, aggregate_groups_periods_before_1970,
    null_is_a_group, deleted_records_do_not_count, code_calls_aggregates,
    an_aggregate_refuses_invalid_requests, large_sums_are_exact_or_refused,
    count_by_divides_groups_by_several_fields,
);

async fn seed(s: &Server, entries: &[Json]) {
    for entry in entries {
        let reply = s.post("/entries", entry.clone()).await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
}

async fn get_json(s: &Server, path: &str) -> Json {
    let reply = s.get(path).await;
    assert_eq!(reply.status, 200, "{path} {reply:?}");
    reply.json()
}

async fn aggregate_counts_and_sums(s: &Server) {
    seed(s, &[json!({"score": 2}), json!({"score": 3})]).await;
    assert_eq!(
        get_json(s, "/entries/stats").await,
        json!({"total": 2, "score": 5})
    );
}

async fn aggregate_groups_by_a_field(s: &Server) {
    assert_eq!(get_json(s, "/entries/by-status").await, json!([]));
    seed(
        s,
        &[
            json!({"status": "published", "category": "b"}),
            json!({"category": "a"}),
            json!({"category": "a"}),
            json!({}),
        ],
    )
    .await;
    assert_eq!(
        get_json(s, "/entries/by-status").await,
        json!([
            {"status": "draft", "total": 3, "byCategory": {"a": 2}},
            {"status": "published", "total": 1, "byCategory": {"b": 1}},
        ])
    );
}

/// The groups and their subdivisions come from one statement.
async fn count_by_divides_groups_by_several_fields(s: &Server) {
    assert_eq!(get_json(s, "/entries/states").await, json!([]));
    let due = "2026-02-03T00:00:00Z";
    seed(
        s,
        &[
            json!({"category": "b", "score": 5, "live": true, "dueAt": due}),
            json!({"category": "a", "status": "published"}),
            json!({"category": "b", "score": 7, "status": "published", "dueAt": due}),
            json!({"score": 1, "live": false}),
            json!({"category": "c"}),
        ],
    )
    .await;
    assert_eq!(
        get_json(s, "/entries/states").await,
        json!([
            {"category": null, "categories": {}, "states": {"draft": 1}, "same": {"draft": 1}, "top": 1, "lives": {"false": 1}},
            {"category": "a", "categories": {"a": 1}, "states": {"published": 1}, "same": {"published": 1}, "top": 0, "lives": {}},
            {"category": "b", "categories": {"b": 2}, "states": {"draft": 1, "published": 1}, "same": {"draft": 1, "published": 1},
                "top": 7, "lives": {"true": 1}},
            {"category": "c", "categories": {"c": 1}, "states": {"draft": 1}, "same": {"draft": 1}, "top": 0, "lives": {}},
        ])
    );
    assert_eq!(
        get_json(s, "/entries/states-by-month").await,
        json!([
            {"dueAt": null, "states": {"draft": 2, "published": 1}, "total": 3},
            {"dueAt": "2026-02", "states": {"draft": 1, "published": 1}, "total": 2},
        ])
    );
}

async fn aggregate_computes_every_function(s: &Server) {
    seed(
        s,
        &[
            json!({"category": "b", "score": 5, "live": true}),
            json!({"category": "a", "score": -1, "status": "published", "live": false}),
            json!({"category": "b", "score": 5}),
            json!({"score": 10}),
        ],
    )
    .await;
    assert_eq!(
        get_json(s, "/entries/details?over=4").await,
        json!({
            "total": 4, "drafts": 3, "highScore": 20, "byCategory": {"a": 1, "b": 2},
            "byLive": {"false": 1, "true": 1}, "byScore": {"-1": 1, "10": 1, "5": 2},
        })
    );
    // The keys are sorted by code point.
    let text = String::from_utf8(s.get("/entries/details").await.body.to_vec()).unwrap();
    assert!(
        text.contains(r#""byScore":{"-1":1,"10":1,"5":2}"#),
        "{text}"
    );
    assert!(text.contains(r#""highScore":19"#), "{text}");
    assert_eq!(get_json(s, "/entries/details?without=b").await["total"], 2);
}

async fn aggregate_of_no_records(s: &Server) {
    assert_eq!(
        get_json(s, "/entries/of-category?category=none").await,
        json!({"n": 0, "s": 0.0, "a": null, "lo": null, "mid": null, "hi": null, "first": null, "by": {}})
    );
    assert_eq!(
        get_json(s, "/entries/stats").await,
        json!({"total": 0, "score": 0})
    );
    s.get("/entries/of-category")
        .await
        .problem("required", "query:category");
}

async fn aggregate_groups_by_week(s: &Server) {
    seed(
        s,
        &[
            json!({"dueAt": "2026-04-05T23:59:59.999Z"}),
            json!({"dueAt": "2026-04-06T00:00:00Z"}),
        ],
    )
    .await;
    assert_eq!(
        get_json(s, "/entries/by-week").await,
        json!([{"dueAt": "2026-03-30", "n": 1}, {"dueAt": "2026-04-06", "n": 1}])
    );
}

async fn aggregate_groups_periods_before_1970(s: &Server) {
    let dates = [
        "0001-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999Z",
        "1970-01-01T00:00:00Z",
        "2024-02-29T13:14:15Z",
        "9999-12-31T23:59:59.999Z",
    ];
    for date in dates {
        seed(s, &[json!({"dueAt": date}), json!({"dueAt": date})]).await;
    }
    seed(s, &[json!({})]).await;
    for (route, keys) in [
        ("by-year", ["0001", "1969", "1970", "2024", "9999"]),
        (
            "by-month",
            ["0001-01", "1969-12", "1970-01", "2024-02", "9999-12"],
        ),
        (
            "by-day",
            [
                "0001-01-01",
                "1969-12-31",
                "1970-01-01",
                "2024-02-29",
                "9999-12-31",
            ],
        ),
        (
            "by-hour",
            [
                "0001-01-01T00",
                "1969-12-31T23",
                "1970-01-01T00",
                "2024-02-29T13",
                "9999-12-31T23",
            ],
        ),
    ] {
        let mut expected = vec![json!({"dueAt": null, "n": 1})];
        expected.extend(keys.iter().map(|key| json!({"dueAt": key, "n": 2})));
        assert_eq!(
            get_json(s, &format!("/entries/{route}")).await,
            json!(expected)
        );
    }
    let weeks = get_json(s, "/entries/by-week").await;
    assert_eq!(weeks[2], json!({"dueAt": "1969-12-29", "n": 4}));
}

async fn null_is_a_group(s: &Server) {
    seed(
        s,
        &[
            json!({"category": "b", "score": 1}),
            json!({"category": "", "score": 4}),
            json!({"score": 2}),
            json!({"category": "B"}),
        ],
    )
    .await;
    assert_eq!(
        get_json(s, "/entries/by-category").await,
        json!([
            {"category": null, "n": 1, "mean": 2.0},
            {"category": "", "n": 1, "mean": 4.0},
            {"category": "B", "n": 1, "mean": 0.0},
            {"category": "b", "n": 1, "mean": 1.0},
        ])
    );
}

async fn deleted_records_do_not_count(s: &Server) {
    seed(
        s,
        &[
            json!({"score": 2, "category": "x"}),
            json!({"score": 3, "category": "x"}),
        ],
    )
    .await;
    let id = s.get("/entries").await.json()["items"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(s.delete(&format!("/entries/{id}")).await.status, 204);
    assert_eq!(get_json(s, "/entries/stats").await["total"], 1);
    assert_eq!(
        get_json(s, "/entries/by-status").await[0]["byCategory"],
        json!({"x": 1})
    );
    assert_eq!(get_json(s, "/entries/by-category").await[0]["n"], 1);
}

async fn code_calls_aggregates(s: &Server) {
    seed(
        s,
        &[json!({"score": 2, "category": "x", "ratio": 0.5, "dueAt": "2026-04-05T00:00:00Z"})],
    )
    .await;
    let entries = s.running().adapter::<Entry>().unwrap();
    let cx = Cx::system("a test");
    let StatsRow { total, score } = entries.stats(&cx).await.unwrap();
    assert_eq!((total, score), (1, 2));
    let groups = entries.by_status(&cx).await.unwrap();
    assert_eq!(
        (groups.len(), groups[0].status, groups[0].by_category["x"]),
        (1, Status::Draft, 1)
    );
    let numbers = entries.of_category(&cx, "x".to_owned()).await.unwrap();
    assert_eq!(
        (
            numbers.n,
            numbers.s,
            numbers.a,
            numbers.lo,
            numbers.first.as_deref()
        ),
        (1, 0.5, Some(2.0), Some(0.5), Some("x"))
    );
    assert_eq!(
        numbers.hi,
        Some(Timestamp::parse("2026-04-05T00:00:00Z").unwrap())
    );
    let periods = [
        entries.by_year(&cx).await.unwrap()[0].due_at.clone(),
        entries.by_month(&cx).await.unwrap()[0].due_at.clone(),
        entries.by_day(&cx).await.unwrap()[0].due_at.clone(),
        entries.by_hour(&cx).await.unwrap()[0].due_at.clone(),
    ];
    assert_eq!(
        periods.map(Option::unwrap),
        ["2026", "2026-04", "2026-04-05", "2026-04-05T00"]
    );
    let weeks = entries.by_week(&cx).await.unwrap();
    assert_eq!(weeks[0].due_at.as_deref(), Some("2026-03-30"));
}

async fn an_aggregate_refuses_invalid_requests(s: &Server) {
    assert_eq!(
        s.get("/entries/stats?limit=1").await.code(),
        (400, "unknown_parameter")
    );
    assert_eq!(s.raw("POST", "/entries/stats", &[], "").await.status, 405);
    s.get("/entries/details?over=x")
        .await
        .problem("type", "query:over");
}

async fn large_sums_are_exact_or_refused(s: &Server) {
    const MOST: i64 = (1 << 53) - 1;
    // The sum exceeds the range of the field, but not that of an integer.
    seed(
        s,
        &[
            json!({"score": MOST}),
            json!({"score": MOST}),
            json!({"ratio": 1e308}),
            json!({"ratio": 1e308}),
        ],
    )
    .await;
    let text = String::from_utf8(s.get("/entries/stats").await.body.to_vec()).unwrap();
    assert_eq!(text, format!("{{\"total\":4,\"score\":{}}}", MOST * 2));
    for entry in s.walk("/entries").await {
        let patched = s
            .patch(
                &format!("/entries/{}", entry["id"].as_str().unwrap()),
                json!({"category": "x"}),
            )
            .await;
        assert_eq!(patched.status, 200);
    }
    // JSON has no number for this sum.
    s.get("/entries/of-category?category=x")
        .await
        .problem("range", "");

    // The mean of the smallest positive number and zero is zero, although one store reports an
    // underflow. The mean of this number and its double is rounded to the double.
    let least = 5e-324;
    seed(
        s,
        &[
            json!({"category": "y", "ratio": least}),
            json!({"category": "y", "ratio": 0.0}),
        ],
    )
    .await;
    assert_eq!(
        get_json(s, "/entries/of-category?category=y").await["mid"],
        json!(0.0)
    );
    seed(
        s,
        &[
            json!({"category": "z", "ratio": least}),
            json!({"category": "z", "ratio": least * 2.0}),
        ],
    )
    .await;
    assert_eq!(
        get_json(s, "/entries/of-category?category=z").await["mid"],
        json!(least * 2.0)
    );
}
