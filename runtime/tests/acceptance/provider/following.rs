//! An index follows every change, and continues after a restart.

use linchpin::prelude::*;
use serde_json::json;

use super::{Library, On, ids};
use crate::provider_fixture::{LIBRARY, Paper, PaperCreate, Stage, Words};

pub(super) async fn the_index_follows_every_mutation(l: Library) {
    l.paper("a", "one", "x").await;
    l.wait_for_entries("papers", &[("a", "one|x")]).await;
    for (method, path, body, expected) in [
        (
            "PATCH",
            "/papers/a",
            json!({"title": "two", "body": null}),
            &[("a", "two|")][..],
        ),
        (
            "POST",
            "/papers/a/publish",
            json!({"title": "three"}),
            &[("a", "three|")],
        ),
        (
            "PATCH",
            "/papers/a/retitle",
            json!({"title": "four"}),
            &[("a", "four|")],
        ),
        (
            "POST",
            "/papers/ensure",
            json!({"slug": "a", "title": "five"}),
            &[("a", "five|")],
        ),
        (
            "POST",
            "/papers/rename-all",
            json!({"rank": 0, "title": "six"}),
            &[("a", "six|")],
        ),
        ("POST", "/papers/take", json!({"slug": "a"}), &[]),
        (
            "POST",
            "/papers",
            json!({"id": "b", "title": "seven"}),
            &[("b", "seven|")],
        ),
        ("DELETE", "/papers/b", json!({}), &[]),
        (
            "POST",
            "/papers",
            json!({"id": "c", "title": "eight"}),
            &[("c", "eight|")],
        ),
        ("POST", "/papers/clear", json!({"rank": 0}), &[]),
    ] {
        let reply = if method == "DELETE" {
            l.s.delete(path).await
        } else {
            l.s.raw_json(method, path, body).await
        };
        assert!(reply.status < 300, "{method} {path} {reply:?}");
        l.wait_for_entries("papers", expected).await;
    }
    // An upsert that creates a record, and a transaction that is committed or rolled back as a
    // whole.
    l.s.post("/papers/ensure", json!({"slug": "new", "title": "made"}))
        .await;
    l.wait_for_index("papers", |found| found.values().eq(["made|"]))
        .await;
    let papers = l.s.running().adapter::<Paper>().unwrap();
    let input = |id: &str| PaperCreate {
        id: Some(id.to_owned()),
        slug: None,
        title: id.to_owned(),
        body: None,
        stage: Some(Stage::Draft),
        rank: None,
    };
    let cx = linchpin::Cx::system("a test");
    let undone: linchpin::Result<()> = cx
        .transaction(async |cx| {
            papers.create(cx, input("undone")).await?;
            Err(linchpin::Error::not_found())
        })
        .await;
    assert!(undone.is_err());
    cx.transaction(async |cx| {
        papers.create(cx, input("t1")).await?;
        papers.create(cx, input("t2")).await
    })
    .await
    .unwrap();
    l.wait_for_index("papers", |found| {
        found.contains_key("t1") && found.contains_key("t2")
    })
    .await;
    assert!(!l.words.indexed("papers").contains_key("undone"));
    // Afterwards the index equals the store.
    assert_eq!(l.words.indexed("papers").len(), 3);
}

pub(super) async fn the_index_follows_large_batches(l: Library) {
    let papers = l.s.running().adapter::<Paper>().unwrap();
    let cx = linchpin::Cx::system("a test");
    cx.transaction(async |cx| {
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
    })
    .await
    .unwrap();
    l.wait_for_index("papers", |found| found.len() == 1203)
        .await;
    let renamed =
        l.s.post("/papers/rename-all", json!({"rank": 0, "title": "new"}))
            .await;
    assert_eq!(renamed.json(), json!(1203));
    l.wait_for_index("papers", |found| found.values().all(|text| text == "new|"))
        .await;
    let cleared = l.s.post("/papers/clear", json!({"rank": 0})).await;
    assert_eq!(cleared.json(), json!(1203));
    l.wait_for_entries("papers", &[]).await;
}

pub(super) async fn the_index_follows_expiry_and_soft_deletion(l: Library) {
    for (id, slug) in [("a", "one"), ("b", "two"), ("c", "three")] {
        let body = json!({"id": id, "slug": slug, "text": "word"}).to_string();
        assert_eq!(
            l.send_as("red", "POST", "/secrets", &body).await.status,
            201
        );
    }
    l.wait_for_index("secrets", |found| found.len() == 3).await;
    assert_eq!(
        l.send_as("red", "DELETE", "/secrets/a", "").await.status,
        204
    );
    l.wait_for_entries("secrets", &[("b", "word"), ("c", "word")])
        .await;
    // Expired records are invisible, whether or not they are in the index.
    l.s.advance(3_600_001);
    assert_eq!(
        ids(&l.hunt("red", "/secrets/hunt?q=word").await),
        Vec::<&str>::new()
    );
    // An expired record that conflicts with another is removed at once.
    let body = json!({"id": "d", "slug": "two", "text": "word"}).to_string();
    assert_eq!(
        l.send_as("red", "POST", "/secrets", &body).await.status,
        201
    );
    l.wait_for_entries("secrets", &[("c", "word"), ("d", "word")])
        .await;
    // The sweeper reports the records that it removes.
    let table = l.s.running().adapters().table("secrets").unwrap().clone();
    assert_eq!(
        table.sweep(l.s.now()).await.unwrap(),
        2,
        "the deleted record and the expired one"
    );
    l.wait_for_entries("secrets", &[("d", "word")]).await;
}

pub(super) async fn a_rebuild_corrects_the_index_during_writes(l: Library) {
    let papers = l.s.running().adapter::<Paper>().unwrap();
    let cx = linchpin::Cx::system("a test");
    cx.transaction(async |cx| {
        for n in 0..1001 {
            let (id, title) = (Some(format!("p{n:04}")), "word".to_owned());
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
    })
    .await
    .unwrap();
    l.wait_for_index("papers", |found| found.len() == 1001)
        .await;
    l.words.insert_entry("papers", "ghost", "word");
    l.words.insert_entry("papers", "p0007", "stale");
    l.words.remove_entry("papers", "p0500");
    // Writes continue in the meantime.
    let writes = async {
        for n in 0..50 {
            l.paper(&format!("new-{n}"), "word", "").await;
            assert_eq!(
                l.s.delete(&format!("/papers/p{:04}", n * 20)).await.status,
                204
            );
        }
    };
    let (rebuilt, ()) = tokio::join!(l.s.running().adapters().rebuild_search::<Paper>(), writes);
    assert!((951..=1051).contains(&rebuilt.unwrap()));
    l.wait_for_index("papers", |found| {
        let kept = (0..1001).filter(|n| n % 20 != 0 || *n >= 1000).all(|n| {
            found
                .get(&format!("p{n:04}"))
                .is_some_and(|text| text == "word|")
        });
        let gone = (0..50).all(|n| !found.contains_key(&format!("p{:04}", n * 20)));
        kept && gone
            && !found.contains_key("ghost")
            && (0..50).all(|n| found.contains_key(&format!("new-{n}")))
    })
    .await;
    let refused =
        l.s.running()
            .adapters()
            .rebuild_search::<crate::fixture::Post>()
            .await;
    assert!(refused.is_err());
}

/// After a restart, indexed records are not indexed again; those of another store are.
pub(super) async fn an_index_continues_after_a_restart(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let words = Words::default();
    let (one, two) = (
        on.fresh(folder.path(), "one.db"),
        on.fresh(folder.path(), "two.db"),
    );
    let start = async |url: &str| {
        let config = Config::new()
            .signing_secret(crate::server::SECRET)
            .port(0)
            .database(url);
        App::new(config)
            .plugin(JwtAuth::new())
            .package(&LIBRARY)
            .search_provider("words", words.clone())
            .start()
            .await
            .unwrap()
    };
    let input = |id: &str| PaperCreate {
        id: Some(id.to_owned()),
        slug: None,
        title: "word".to_owned(),
        body: None,
        stage: None,
        rank: None,
    };
    let cx = linchpin::Cx::system("a test");
    let found_ids = async |running: &linchpin::Running| {
        let found = running
            .adapter::<Paper>()
            .unwrap()
            .find(&cx, "word", linchpin::entity::PageArgs::default())
            .await;
        found
            .unwrap()
            .into_iter()
            .map(|paper| paper.id)
            .collect::<Vec<_>>()
    };
    let running = start(&one).await;
    running
        .adapter::<Paper>()
        .unwrap()
        .create(&cx, input("a"))
        .await
        .unwrap();
    running.stop().await.unwrap();
    assert_eq!(
        words.indexed("papers").len(),
        1,
        "a stop delivers waiting events first"
    );
    // Records are not read again: a record that is missing in the index stays missing.
    words.remove_entry("papers", "a");
    let running = start(&one).await;
    assert_eq!(found_ids(&running).await, Vec::<String>::new());
    assert_eq!(
        running.adapters().rebuild_search::<Paper>().await.unwrap(),
        1
    );
    assert_eq!(found_ids(&running).await, ["a"]);
    running.stop().await.unwrap();
    // Another database replaces the first one.
    let other = start(&two).await;
    assert_eq!(
        words.indexed("papers").len(),
        0,
        "the index has the records of the new database only, before the app serves"
    );
    other
        .adapter::<Paper>()
        .unwrap()
        .create(&cx, input("b"))
        .await
        .unwrap();
    other.stop().await.unwrap();
    let running = start(&two).await;
    assert_eq!(found_ids(&running).await, ["b"]);
    running.stop().await.unwrap();
}
