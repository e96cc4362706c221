//! Tests of the routes that read the deliveries of an endpoint, the attempts of a delivery, and the
//! payload.

use std::time::Duration;

use linchpin::testing::Client;
use serde_json::{Value as Json, json};

use crate::bed::TestApp;
use crate::receiver::{Plan, Receiver};

/// Creates an endpoint and orders, waits until the deliveries of the orders are written, and
/// returns the path of the endpoint.
async fn endpoint_with_orders(test_app: &TestApp, receiver: &Receiver, orders: usize) -> String {
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    for at in 0..orders {
        test_app.order(&at.to_string()).await;
    }
    // The receiver got the last message, so all deliveries are written.
    receiver.until(orders).await;
    format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap())
}

/// Sends a request that is refused, and returns the status and the first problem of the response.
async fn refused(client: &Client, path: &str) -> (u16, Json) {
    let answer = client.get(path).await.unwrap();
    let problem = answer.json().unwrap()["details"][0].clone();
    (answer.status(), problem)
}

fn ids(page: &Json) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn deliveries_of_an_endpoint_are_paged_by_number_and_by_cursor() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let path = endpoint_with_orders(&test_app, &receiver, 45).await;
    let list = format!("{path}/deliveries");
    let mut walked = Vec::new();
    for (page, count, more) in [(1, 20, true), (2, 20, true), (3, 5, false), (4, 0, false)] {
        let found = test_app.get(&format!("{list}?page={page}")).await;
        assert_eq!(ids(&found).len(), count, "page {page}");
        assert_eq!(found["hasMore"], more, "page {page}");
        assert_eq!(found["nextCursor"].is_string(), more, "page {page}");
        walked.extend(ids(&found));
    }
    let all = test_app.get(&format!("{list}?pageSize=1000")).await;
    assert_eq!(
        ids(&all),
        walked,
        "at most 100 are returned, in the same order"
    );
    let times = all["items"].as_array().unwrap().iter();
    let mut times: Vec<&str> = times
        .map(|one| one["createdAt"].as_str().unwrap())
        .collect();
    times.reverse();
    assert!(times.is_sorted(), "newest first");

    // Cursors return each row once, even if new rows arrive.
    let first = test_app.get(&format!("{list}?pageSize=30")).await;
    let cursor = first["nextCursor"].as_str().unwrap();
    test_app.order("late").await;
    receiver.until(46).await;
    let rest = test_app
        .get(&format!("{list}?pageSize=30&cursor={cursor}"))
        .await;
    assert_eq!([ids(&first), ids(&rest)].concat(), walked);

    let admin = test_app.admin();
    for (query, name, code) in [
        ("page=0", "page", "range"),
        ("page=-1", "page", "range"),
        ("pageSize=0", "pageSize", "range"),
        ("page=101&pageSize=100", "page", "range"),
        ("page=99999999999", "page", "range"),
        (&format!("page=1&cursor={cursor}"), "page", "not_allowed"),
        ("status=lost", "status", "enum"),
    ] {
        let (status, problem) = refused(&admin, &format!("{list}?{query}")).await;
        let found = (status, problem["path"].clone(), problem["code"].clone());
        let expected = (400, json!(format!("query:{name}")), json!(code));
        assert_eq!(found, expected, "{query}");
    }
    for query in ["page=x", "cursor=x", "deliveryId=x"] {
        let (status, _) = refused(&admin, &format!("{list}?{query}")).await;
        assert_eq!(status, 400, "{query}");
    }
    test_app.get(&format!("{list}?page=100&pageSize=100")).await;
}

#[tokio::test]
async fn a_page_has_at_most_100_deliveries() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let path = endpoint_with_orders(&test_app, &receiver, 0).await;
    let paused = test_app
        .admin()
        .patch(&path, json!({ "status": "paused" }))
        .await;
    assert_eq!(paused.unwrap().status(), 200);
    for at in 0..101 {
        test_app.order(&at.to_string()).await;
    }
    let list = format!("{path}/deliveries?pageSize=1000");
    let mut page = test_app.get(&list).await;
    while page["hasMore"] == false {
        tokio::time::sleep(Duration::from_millis(10)).await;
        page = test_app.get(&list).await;
    }
    assert_eq!(ids(&page).len(), 100);
}

#[tokio::test]
async fn deliveries_of_an_endpoint_are_filtered_and_belong_to_it() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let all_events = test_app.endpoint(&receiver.url(), json!({})).await;
    let all_events = format!("/webhooks/endpoints/{}", all_events["id"].as_str().unwrap());
    let deletions = test_app
        .endpoint(
            &receiver.url(),
            json!({ "events": ["shop.orders.deleted"] }),
        )
        .await;
    let deletions = format!("/webhooks/endpoints/{}", deletions["id"].as_str().unwrap());
    let order = test_app.order("one").await;
    receiver.until(1).await;
    let order = format!("/orders/{}", order["id"].as_str().unwrap());
    assert_eq!(test_app.admin().delete(&order).await.unwrap().status(), 204);
    receiver.until(3).await;
    let count = async |path: String| ids(&test_app.get(&path).await).len();
    assert_eq!(count(format!("{all_events}/deliveries")).await, 2);
    assert_eq!(count(format!("{deletions}/deliveries")).await, 1);
    let created = format!("{all_events}/deliveries?event=shop.orders.created");
    assert_eq!(count(created).await, 1);
    assert_eq!(
        count(format!("{all_events}/deliveries?status=dead")).await,
        0
    );
    while count(format!("{all_events}/deliveries?status=delivered")).await < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let deletion_id = &ids(&test_app.get(&format!("{deletions}/deliveries")).await)[0];
    test_app
        .get(&format!("{deletions}/deliveries/{deletion_id}"))
        .await;
    let wrong = format!("{all_events}/deliveries/{deletion_id}");
    assert_eq!(test_app.admin().get(&wrong).await.unwrap().status(), 404);
}

#[tokio::test]
async fn one_delivery_has_its_payload_and_attempts() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    receiver.next([Plan::status(500)]);
    let path = endpoint_with_orders(&test_app, &receiver, 1).await;
    let failed = test_app.until("failed").await;
    assert!(failed.get("payload").is_none(), "{failed}");
    let id = failed["id"].as_str().unwrap();
    let list = test_app.get(&format!("{path}/deliveries")).await;
    assert!(list["items"][0].get("payload").is_none(), "{list}");
    let sent = receiver.arrived()[0].json();
    for path in [
        format!("/webhooks/deliveries/{id}"),
        format!("{path}/deliveries/{id}"),
    ] {
        let one = test_app.get(&path).await;
        assert_eq!(one["payload"], sent, "{path}");
        assert_eq!(
            (
                &one["status"],
                &one["attempts"],
                &one["lastAttempt"]["statusCode"]
            ),
            (&json!("failed"), &json!(1), &json!(500))
        );
        assert!(one.get("expiresAt").is_none(), "{one}");
    }
    test_app.advance(Duration::from_secs(10));
    receiver.until(2).await;
    test_app.until("delivered").await;
    let attempts = format!("/webhooks/deliveries/{id}/attempts");
    let page = test_app.get(&attempts).await;
    let numbers = page["items"].as_array().unwrap().iter();
    let numbers: Vec<_> = numbers
        .map(|one| (one["number"].as_i64(), one["statusCode"].as_i64()))
        .collect();
    assert_eq!(numbers, [(Some(2), Some(200)), (Some(1), Some(500))]);
    let second = test_app.get(&format!("{attempts}?page=2&pageSize=1")).await;
    assert_eq!(second["items"][0]["number"], 1);
    let (status, problem) = refused(&test_app.admin(), &format!("{attempts}?page=0")).await;
    assert_eq!((status, &problem["code"]), (400, &json!("range")));
}

#[tokio::test]
async fn callers_without_the_management_role_cannot_read_or_replay_deliveries() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let path = endpoint_with_orders(&test_app, &receiver, 1).await;
    let id = test_app.until("delivered").await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let member = test_app.caller(Some("t1"), "member");
    let stranger = test_app.caller(Some("t2"), "admin");
    let nobody = Client::new(&test_app.app);
    for (client, expected) in [(&member, 403), (&nobody, 401), (&stranger, 404)] {
        for path in [
            format!("{path}/deliveries"),
            format!("{path}/deliveries?page=0"),
            format!("{path}/deliveries/{id}"),
            format!("/webhooks/deliveries/{id}"),
            format!("/webhooks/deliveries/{id}/attempts"),
        ] {
            let status = client.get(&path).await.unwrap().status();
            assert_eq!(status, expected, "{path}");
        }
        for path in [
            format!("/webhooks/deliveries/{id}/replay"),
            format!("/webhooks/admin/deliveries/{id}/replay"),
        ] {
            let status = client.post(&path, json!({})).await.unwrap().status();
            assert_eq!(status, expected, "{path}");
        }
    }
    assert_eq!(receiver.count(), 1);
    let admin = format!("/webhooks/admin/deliveries/{id}/replay");
    let replayed = test_app.admin().post(&admin, json!({})).await.unwrap();
    assert_eq!(replayed.status(), 200, "{:?}", replayed.text());
    assert_eq!(
        replayed.json().unwrap(),
        json!({ "replayed": true, "deliveryId": id })
    );
    let arrived = receiver.until(2).await;
    assert_eq!(arrived[0].body, arrived[1].body);
}
