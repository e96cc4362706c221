//! Concurrent changes of the same few records.

use super::*;

/// Every kind of change, by 25 concurrent callers.
pub(super) async fn counters_follow_concurrent_changes(s: &Server) {
    topics(s, &["t", "u"]).await;
    for round in 0..3 {
        let replies = s
            .parallel(25, |n| async move {
                let id = format!("a{round}x{n}");
                let (one, other) = if n % 2 == 0 { ("t", "u") } else { ("u", "t") };
                let mut all = vec![
                    s.post(
                        "/answers",
                        json!({"id": id, "topicId": one, "parentId": "a0x0", "text": "x"}),
                    )
                    .await,
                ];
                all.push(s.post(&format!("/answers/{id}/publish"), json!({})).await);
                all.push(
                    s.patch(
                        &format!("/answers/{id}"),
                        json!({"topicId": other, "points": n}),
                    )
                    .await,
                );
                if n % 5 == 0 {
                    all.push(s.delete(&format!("/answers/{id}")).await);
                }
                if n == 12 {
                    all.push(s.post("/answers/show-all", json!({"text": "x"})).await);
                }
                all
            })
            .await;
        for reply in replies.iter().flatten() {
            assert!(matches!(reply.status, 200 | 201 | 204 | 400), "{reply:?}");
        }
        check_counters(s, "all at once").await;
    }
}

/// Records move between two others in opposite directions, by keys with integrity checks: no
/// deadlock.
pub(super) async fn opposite_moves_do_not_deadlock(s: &Server) {
    post(s, "/posts", json!({"id": "p"})).await;
    post(s, "/posts", json!({"id": "q"})).await;
    let mut notes = Vec::new();
    for n in 0..25 {
        let (one, other) = if n % 2 == 0 { ("p", "q") } else { ("q", "p") };
        notes.push(
            post(s, "/notes", json!({"postId": one, "otherId": other})).await["id"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    let notes = &notes;
    for _ in 0..4 {
        let moved = s
            .parallel(25, |n| async move {
                let mut all = Vec::new();
                for (one, other) in [("p", "q"), ("q", "p"), ("p", "q")] {
                    let (one, other) = if n % 2 == 0 {
                        (one, other)
                    } else {
                        (other, one)
                    };
                    all.push(
                        s.patch(
                            &format!("/notes/{}", notes[n]),
                            json!({"postId": other, "otherId": one}),
                        )
                        .await,
                    );
                }
                all
            })
            .await;
        assert!(
            moved.iter().flatten().all(|reply| reply.status == 200),
            "{moved:?}"
        );
        check_counters(s, "moves").await;
    }
}

/// Records and the records that refer to them are created concurrently.
pub(super) async fn counters_count_concurrently_created_records(s: &Server) {
    for round in 0..12 {
        let made = s
            .parallel(13, |n| async move {
                let topic = format!("t{round}");
                match n {
                    6 => s.post("/topics", json!({"id": topic})).await,
                    _ => s.post("/answers", json!({"id": format!("a{round}x{n}"), "topicId": topic, "status": "live"})).await,
                }
            })
            .await;
        assert!(made.iter().all(|reply| reply.status == 201), "{made:?}");
        assert_eq!(get(s, &format!("/topics/t{round}")).await["total"], 12);
    }
}

/// Tenants do not wait for each other, even with the same unique value in both.
#[cfg(feature = "postgres")]
pub(super) async fn concurrent_upserts_of_tenants_do_not_wait(s: &Server) {
    let place = async |token: &str, board: &str| {
        let body = json!({"slug": "s", "boardId": board}).to_string();
        s.raw(
            "POST",
            "/pins/place",
            &[
                ("authorization", token),
                ("content-type", "application/json"),
            ],
            &body,
        )
        .await
        .status
    };
    let (ann, eve) = (s.token_in("ann", "red"), s.token_in("eve", "blue"));
    for (token, board) in [(&ann, "r"), (&eve, "b")] {
        let headers = [
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
        ];
        assert_eq!(
            s.raw(
                "POST",
                "/boards",
                &headers,
                &json!({"id": board}).to_string()
            )
            .await
            .status,
            201
        );
        assert_eq!(place(token, board).await, 201);
    }
    let pins = s.running().adapter::<Pin>().unwrap();
    let cx = Cx::actor(Actor {
        tenant_id: Some("red".into()),
        ..Actor::user("ann")
    })
    .at(s.now());
    cx.transaction(async |cx| {
        pins.place(cx, "s", "r").await?;
        assert_eq!(place(&eve, "b").await, 200);
        Ok(())
    })
    .await
    .unwrap();
}
