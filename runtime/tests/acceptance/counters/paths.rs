//! Tests every way to change a counted record.

use super::*;

async fn send_ok(s: &Server, method: &str, path: &str, body: Json) -> Json {
    let reply = if body.is_null() {
        s.raw(method, path, &[], "").await
    } else {
        s.raw_json(method, path, body).await
    };
    assert!(
        (200..300).contains(&reply.status),
        "{method} {path} {reply:?}"
    );
    check_counters(s, &format!("{method} {path}")).await;
    if reply.body.is_empty() {
        Json::Null
    } else {
        reply.json()
    }
}

pub(super) async fn counters_follow_create_update_and_delete(s: &Server) {
    topics(s, &["t", "u"]).await;
    send_ok(
        s,
        "POST",
        "/answers",
        json!({"id": "a", "topicId": "t", "status": "live"}),
    )
    .await;
    send_ok(s, "POST", "/answers", json!({"id": "b", "topicId": "t"})).await;
    // `c` names a missing topic. `d` names no topic.
    send_ok(
        s,
        "POST",
        "/answers",
        json!({"id": "c", "topicId": "nowhere", "status": "live"}),
    )
    .await;
    send_ok(s, "POST", "/answers", json!({"id": "d", "status": "live"})).await;
    assert_eq!(get(s, "/topics/t").await["total"], 2);
    send_ok(
        s,
        "PATCH",
        "/answers/b",
        json!({"status": "live", "points": 5}),
    )
    .await;
    send_ok(s, "PATCH", "/answers/b", json!({"status": "live"})).await;
    send_ok(s, "PATCH", "/answers/b", json!({"text": "other"})).await;
    send_ok(s, "PATCH", "/answers/b", json!({"topicId": "u"})).await;
    send_ok(s, "PATCH", "/answers/b", json!({"topicId": null})).await;
    send_ok(
        s,
        "PATCH",
        "/answers/c",
        json!({"topicId": "u", "status": "draft"}),
    )
    .await;
    send_ok(s, "PATCH", "/answers/d", json!({"topicId": "u"})).await;
    send_ok(s, "DELETE", "/answers/d", Json::Null).await;
    // Refused calls and missing records change no count.
    for reply in [
        s.post(
            "/answers",
            json!({"id": "a", "topicId": "t", "status": "live"}),
        )
        .await,
        s.patch("/answers/d", json!({"status": "draft"})).await,
        s.delete("/answers/d").await,
        s.delete("/answers/nobody").await,
    ] {
        assert!(matches!(reply.status, 404 | 409), "{reply:?}");
        check_counters(s, "a refusal").await;
    }
    let answers = s.running().adapter::<Answer>().unwrap();
    // A purge of a deleted answer changes no counter; a purge of a live answer does.
    answers.purge(&system(), "d").await.unwrap();
    check_counters(s, "a purge of a deleted answer").await;
    answers.purge(&system(), "a").await.unwrap();
    check_counters(s, "a purge").await;
    assert_eq!(get(s, "/topics/t").await["total"], 0);
    // A deleted topic still gets its count, so the count is correct after a restore.
    assert_eq!(s.delete("/topics/u").await.status, 204);
    send_ok(
        s,
        "POST",
        "/answers",
        json!({"id": "e", "topicId": "u", "status": "live"}),
    )
    .await;
}

pub(super) async fn counters_follow_changed_keys(s: &Server) {
    topics(s, &["t", "u"]).await;
    for n in 0..4 {
        post(
            s,
            "/answers",
            json!({"id": format!("a{n}"), "topicId": "t", "status": "live", "text": "x"}),
        )
        .await;
    }
    send_ok(s, "PATCH", "/answers/a0/move-to", json!({"topicId": "u"})).await;
    assert_eq!(
        (
            &get(s, "/topics/t").await["live"],
            &get(s, "/topics/u").await["live"]
        ),
        (&json!(3), &json!(1))
    );
    send_ok(s, "PATCH", "/answers/a0/move-to", json!({"topicId": null})).await;
    send_ok(
        s,
        "POST",
        "/answers/move-all",
        json!({"text": "x", "to": "u"}),
    )
    .await;
    assert_eq!(
        (
            &get(s, "/topics/t").await["live"],
            &get(s, "/topics/u").await["live"]
        ),
        (&json!(0), &json!(4))
    );
    send_ok(
        s,
        "POST",
        "/answers/move-all",
        json!({"text": "x", "to": "nowhere"}),
    )
    .await;
    send_ok(
        s,
        "POST",
        "/answers/move-all",
        json!({"text": "x", "to": null}),
    )
    .await;
    send_ok(
        s,
        "PATCH",
        "/answers/a1",
        json!({"topicId": "t", "status": "draft"}),
    )
    .await;
    post(
        s,
        "/answers",
        json!({"id": "b", "topicId": "u", "status": "live"}),
    )
    .await;
    send_ok(s, "POST", "/answers/swap", json!({"a": "a1", "b": "b"})).await;
    assert_eq!(
        (
            &get(s, "/topics/t").await["live"],
            &get(s, "/topics/u").await["total"]
        ),
        (&json!(1), &json!(1))
    );
}

pub(super) async fn counters_follow_operations_on_one_record(s: &Server) {
    topics(s, &["t"]).await;
    for n in 0..5 {
        post(
            s,
            "/answers",
            json!({"id": format!("a{n}"), "topicId": "t", "text": "x"}),
        )
        .await;
    }
    send_ok(s, "POST", "/answers/a0/publish", Json::Null).await;
    assert_eq!(
        s.post("/answers/a0/publish", json!({})).await.code(),
        (400, "invalid_transition")
    );
    check_counters(s, "a second publish").await;
    send_ok(s, "PATCH", "/answers/a0/reword", json!({"text": "y"})).await;
    let taken = send_ok(s, "POST", "/answers/take", json!({"text": "y"})).await;
    assert_eq!(taken["id"], "a0");
    send_ok(s, "POST", "/answers/take", json!({"text": "y"})).await;
    assert_eq!(restore(s, "a0").await, 200);
    check_counters(s, "a restore").await;
    assert_eq!(restore(s, "a0").await, 404);
    check_counters(s, "no restore").await;
    let answers = s.running().adapter::<Answer>().unwrap();
    assert_eq!(
        answers
            .show_two(&Cx::actor(Actor::user("w")).at(s.now()))
            .await
            .unwrap()
            .len(),
        2
    );
    check_counters(s, "a claim").await;
}

pub(super) async fn counters_follow_arrays_and_increments(s: &Server) {
    topics(s, &["t"]).await;
    post(
        s,
        "/answers",
        json!({"id": "a", "topicId": "t", "points": 1}),
    )
    .await;
    for expected in [0, 1, 1] {
        send_ok(s, "POST", "/answers/a/like", Json::Null).await;
        assert_eq!(get(s, "/topics/t").await["liked"], expected);
    }
    post(s, "/answers", json!({"id": "b", "topicId": "t"})).await;
    for (method, path, body, expected) in [
        ("POST", "/answers/b/tag", json!({"tag": "bad"}), 1),
        ("POST", "/answers/b/tag", json!({"tag": "good"}), 2),
        ("POST", "/answers/b/tag", json!({"tag": "good"}), 2),
        ("DELETE", "/answers/b/untag?tag=good", Json::Null, 1),
        ("PUT", "/answers/b/retag", json!({"tags": ["x", "good"]}), 2),
        ("PUT", "/answers/b/retag", json!({"tags": []}), 1),
    ] {
        send_ok(s, method, path, body).await;
        assert_eq!(
            get(s, "/topics/t").await["liked"],
            expected,
            "{method} {path}"
        );
    }
}

pub(super) async fn counters_follow_batches(s: &Server) {
    topics(s, &["t", "u", "v"]).await;
    for n in 0..9 {
        let status = if n % 2 == 0 { "live" } else { "draft" };
        let (topic, text) = (["t", "u", "v"][n % 3], ["x", "y"][n / 6]);
        post(
            s,
            "/answers",
            json!({"id": format!("a{n}"), "topicId": topic, "status": status, "text": text}),
        )
        .await;
    }
    assert_eq!(
        send_ok(s, "POST", "/answers/show-all", json!({"text": "x"})).await,
        json!(6)
    );
    assert_eq!(
        send_ok(s, "POST", "/answers/show-all", json!({"text": "x"})).await,
        json!(6)
    );
    assert_eq!(
        send_ok(s, "POST", "/answers/show-all", json!({"text": "nobody's"})).await,
        json!(0)
    );
    assert_eq!(
        send_ok(s, "POST", "/answers/drop-all", json!({"text": "x"})).await,
        json!(6)
    );
    assert_eq!(
        send_ok(s, "POST", "/answers/drop-all", json!({"text": "x"})).await,
        json!(0)
    );
    assert_eq!(
        send_ok(s, "POST", "/answers/drop-all", json!({"text": "y"})).await,
        json!(3)
    );
    for topic in ["t", "u", "v"] {
        assert_eq!(get(s, &format!("/topics/{topic}")).await["total"], 0);
    }
}

pub(super) async fn counters_follow_upserts(s: &Server) {
    topics(s, &["t", "u"]).await;
    let first = s
        .post(
            "/answers/ensure",
            json!({"slug": "s", "topicId": "t", "status": "live", "text": "x"}),
        )
        .await;
    assert_eq!(
        (first.status, &first.json()["created"]),
        (201, &json!(true))
    );
    check_counters(s, "a new answer").await;
    assert_eq!(get(s, "/topics/t").await["live"], 1);
    for body in [
        json!({"slug": "s", "topicId": "t", "status": "live", "text": "x"}),
        json!({"slug": "s", "text": "other"}),
        json!({"slug": "s", "status": "draft"}),
        json!({"slug": "s", "topicId": "u"}),
        json!({"slug": "s", "status": "live"}),
        json!({"slug": "s", "topicId": null}),
        json!({"slug": "other", "topicId": "u", "status": "live"}),
    ] {
        send_ok(s, "POST", "/answers/ensure", body).await;
    }
    // After the record is deleted, an upsert with its slug creates a new record.
    assert_eq!(
        send_ok(s, "POST", "/answers/drop-all", json!({"text": "other"})).await,
        json!(1)
    );
    let again = send_ok(
        s,
        "POST",
        "/answers/ensure",
        json!({"slug": "s", "topicId": "t", "status": "live"}),
    )
    .await;
    assert_eq!(again["created"], true);
}

pub(super) async fn counters_follow_trees(s: &Server) {
    post(s, "/answers", json!({"id": "a"})).await;
    post(s, "/answers", json!({"id": "b", "parentId": "a"})).await;
    send_ok(s, "POST", "/answers", json!({"id": "c", "parentId": "a"})).await;
    assert_eq!(get(s, "/answers/a").await["children"], 2);
    send_ok(s, "PATCH", "/answers/c", json!({"parentId": "b"})).await;
    // `e` names parent `d` before it exists. Then `d` names itself.
    send_ok(s, "POST", "/answers", json!({"id": "e", "parentId": "d"})).await;
    send_ok(s, "POST", "/answers", json!({"id": "d", "parentId": "d"})).await;
    assert_eq!(get(s, "/answers/d").await["children"], 2);
    // A record may be its own parent.
    send_ok(s, "PATCH", "/answers/a", json!({"parentId": "a"})).await;
    send_ok(s, "DELETE", "/answers/a", Json::Null).await;
    assert_eq!(restore(s, "a").await, 200);
    check_counters(s, "a restore").await;
}

pub(super) async fn counters_follow_cascades(s: &Server) {
    for id in ["p", "q", "r"] {
        post(s, "/posts", json!({"id": id})).await;
    }
    for (on, other) in [
        ("p", Some("q")),
        ("p", Some("p")),
        ("q", Some("p")),
        ("q", None),
        ("r", Some("q")),
    ] {
        send_ok(s, "POST", "/notes", json!({"postId": on, "otherId": other})).await;
    }
    let refused = s
        .post("/notes", json!({"postId": "p", "otherId": "nobody"}))
        .await;
    assert_eq!(
        refused.problems(),
        [("otherId".to_owned(), "reference".to_owned())]
    );
    check_counters(s, "a key without a record").await;
    send_ok(s, "DELETE", "/posts/p", Json::Null).await;
    assert_eq!(
        (
            &get(s, "/posts/q").await["notes"],
            &get(s, "/posts/q").await["mentions"]
        ),
        (&json!(2), &json!(1))
    );
    send_ok(s, "DELETE", "/posts/q", Json::Null).await;
    s.running()
        .adapter::<Post>()
        .unwrap()
        .purge(&system(), "r")
        .await
        .unwrap();
    check_counters(s, "a purge of the record with the counter").await;
}

pub(super) async fn counters_follow_expiry(s: &Server) {
    post(s, "/shops", json!({"id": "1"})).await;
    post(s, "/shops", json!({"id": "2"})).await;
    let offers = async |shop: &str| get(s, &format!("/shops/{shop}")).await["offers"].clone();
    post(
        s,
        "/offers",
        json!({"shopId": 1, "name": "a", "until": "2026-03-04T06:00:00Z"}),
    )
    .await;
    post(s, "/offers", json!({"shopId": 1, "name": "b"})).await;
    assert_eq!(offers("1").await, 2);
    s.advance(3_600_000);
    // An expired record does not block the unique name. The create removes it and its count.
    post(
        s,
        "/offers",
        json!({"shopId": 2, "name": "a", "until": "2026-03-04T07:00:00Z"}),
    )
    .await;
    assert_eq!((offers("1").await, offers("2").await), (json!(1), json!(1)));
    s.advance(3_600_000);
    let table = std::sync::Arc::clone(s.running().adapters().table("offers").unwrap());
    assert_eq!(table.sweep(s.now()).await.unwrap(), 1);
    assert_eq!((offers("1").await, offers("2").await), (json!(1), json!(0)));
}

pub(super) async fn counters_stay_within_a_tenant(s: &Server) {
    let (ann, eve) = (s.token_in("ann", "red"), s.token_in("eve", "blue"));
    let send = async |token: &str, method: &str, path: &str, body: &str| {
        let headers = [
            ("authorization", token),
            ("content-type", "application/json"),
        ];
        s.raw(
            method,
            path,
            &headers[..if body.is_empty() { 1 } else { 2 }],
            body,
        )
        .await
    };
    assert_eq!(
        send(&ann, "POST", "/boards", r#"{"id":"b"}"#).await.status,
        201
    );
    assert_eq!(
        send(&ann, "POST", "/pins", r#"{"boardId":"b"}"#)
            .await
            .status,
        201
    );
    // A record that names a record of another tenant does not change the count there.
    let made = send(&eve, "POST", "/pins", r#"{"boardId":"b"}"#).await;
    assert_eq!(made.status, 201);
    assert_eq!(send(&ann, "GET", "/boards/b", "").await.json()["pins"], 1);
    assert_eq!(
        send(
            &eve,
            "DELETE",
            &format!("/pins/{}", made.json()["id"].as_str().unwrap()),
            ""
        )
        .await
        .status,
        204
    );
    assert_eq!(send(&ann, "GET", "/boards/b", "").await.json()["pins"], 1);
}

pub(super) async fn a_recount_computes_the_current_number(s: &Server) {
    topics(s, &["t"]).await;
    for n in 0..3 {
        post(
            s,
            "/answers",
            json!({"id": format!("a{n}"), "topicId": "t", "status": "live"}),
        )
        .await;
    }
    assert_eq!(
        send_ok(s, "POST", "/topics/recount", json!({"id": "t"})).await["live"],
        3
    );
    send_ok(s, "PATCH", "/answers/a0", json!({"status": "draft"})).await;
    assert_eq!(
        send_ok(s, "POST", "/topics/recount", json!({"id": "t"})).await["live"],
        2
    );
}

/// Calls from code in transactions: one rolls back, one commits.
pub(super) async fn counters_follow_transactions_of_code(s: &Server) {
    topics(s, &["t", "u"]).await;
    let answers = s.running().adapter::<Answer>().unwrap();
    let cx = Cx::actor(Actor::user("w")).at(s.now());
    let live = |id: &str, topic: &str| AnswerCreate {
        id: id.to_owned(),
        slug: Some("one".to_owned()),
        topic_id: Some(topic.to_owned()),
        parent_id: None,
        status: Some(Status::Live),
        points: None,
        text: None,
        tags: None,
    };
    let undone = cx
        .transaction(async |cx| {
            answers.create(cx, live("a", "t")).await?;
            answers.delete(cx, "a", None).await?;
            answers.create(cx, live("b", "t")).await?;
            Err::<(), _>(linchpin::Error::not_found())
        })
        .await;
    assert_eq!(undone.map_err(|e| e.code()), Err(Code::NotFound));
    check_counters(s, "a rolled-back transaction").await;
    assert_eq!(get(s, "/topics/t").await["total"], 0);
    cx.transaction(async |cx| {
        answers.create(cx, live("a", "t")).await?;
        // The create fails. The transaction continues and the count is unchanged.
        let taken = answers
            .create(cx, live("b", "u"))
            .await
            .map(|_| ())
            .map_err(|e| e.code());
        assert_eq!(taken, Err(Code::Conflict));
        answers.publish(cx, "a").await.map(|_| ()).unwrap_err();
        answers.move_to(cx, "a", "u").await?;
        Ok(())
    })
    .await
    .unwrap();
    check_counters(s, "a transaction").await;
    assert_eq!(get(s, "/topics/u").await["total"], 1);
}

/// A new count does not change `version` and `updatedAt` of the record with the counter.
pub(super) async fn changes_of_other_fields_do_not_count(s: &Server) {
    topics(s, &["t"]).await;
    let before = get(s, "/topics/t").await;
    s.advance(1000);
    send_ok(
        s,
        "POST",
        "/answers",
        json!({"id": "a", "topicId": "t", "status": "live"}),
    )
    .await;
    let after = get(s, "/topics/t").await;
    assert_eq!(
        (&after["version"], &after["updatedAt"], &after["live"]),
        (&before["version"], &before["updatedAt"], &json!(1))
    );
}

/// A record with a counter never answers 304, because its `ETag` does not change.
pub(super) async fn a_record_with_a_counter_is_never_304(s: &Server) {
    topics(s, &["t"]).await;
    let first = s.get("/topics/t").await;
    post(
        s,
        "/answers",
        json!({"id": "a", "topicId": "t", "status": "live"}),
    )
    .await;
    let again = s
        .raw(
            "GET",
            "/topics/t",
            &[("if-none-match", &first.header("etag"))],
            "",
        )
        .await;
    assert_eq!((again.status, &again.json()["live"]), (200, &json!(1)));
    let document = s.get("/openapi.json").await.json();
    let get = &document["paths"]["/topics/{id}"]["get"];
    assert!(
        get["responses"]["304"].is_null() && get["responses"]["200"].is_object(),
        "{get}"
    );
}
