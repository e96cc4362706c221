//! `consume`.

use std::time::Duration;

use linchpin::Cx;
use serde_json::{Value as Json, json};

use super::{Voucher, VoucherPatch};
use crate::server::Server;

pub(super) async fn code(s: &Server, body: Json) -> String {
    let reply = s.post("/vouchers", body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()["id"].as_str().unwrap().to_owned()
}

pub(super) async fn consume_returns_a_record_once(s: &Server) {
    let id = code(s, json!({"code": "k"})).await;
    let first = s.post("/vouchers/redeem", json!({"code": "k"})).await;
    assert_eq!((first.status, &first.json()["id"]), (200, &json!(id)));
    let second = s.post("/vouchers/redeem", json!({"code": "k"})).await;
    assert_eq!((second.status, second.json()), (200, Json::Null));
    assert_eq!(s.get(&format!("/vouchers/{id}")).await.status, 404);
}

pub(super) async fn consume_may_return_a_boolean(s: &Server) {
    code(s, json!({"code": "k"})).await;
    assert_eq!(
        &s.post("/vouchers/spend", json!({"code": "k"})).await.body[..],
        b"true"
    );
    assert_eq!(
        &s.post("/vouchers/spend", json!({"code": "k"})).await.body[..],
        b"false"
    );
}

pub(super) async fn consume_ignores_expired_records(s: &Server) {
    let id = code(
        s,
        json!({"code": "k", "expiresAt": "2026-03-04T05:06:07.008Z"}),
    )
    .await;
    assert_eq!(
        s.post("/vouchers/redeem", json!({"code": "k"}))
            .await
            .json(),
        Json::Null
    );
    assert_eq!(s.get(&format!("/vouchers/{id}")).await.status, 200);
    let valid = code(
        s,
        json!({"code": "k", "rank": 9, "expiresAt": "2026-03-04T05:06:07.009Z"}),
    )
    .await;
    assert_eq!(
        s.post("/vouchers/redeem", json!({"code": "k"}))
            .await
            .json()["id"],
        json!(valid),
        "an expired record does not hide a valid one"
    );
}

pub(super) async fn consume_takes_the_first_in_order(s: &Server) {
    code(s, json!({"code": "k", "rank": 2})).await;
    let first = code(s, json!({"code": "k", "rank": 1})).await;
    assert_eq!(
        s.post("/vouchers/redeem", json!({"code": "k"}))
            .await
            .json()["id"],
        json!(first)
    );
    assert_eq!(s.walk("/vouchers").await.len(), 1);
}

pub(super) async fn concurrent_consumes_succeed_once(s: &Server) {
    code(s, json!({"code": "k"})).await;
    let replies = s
        .parallel(25, |_| s.post("/vouchers/redeem", json!({"code": "k"})))
        .await;
    assert_eq!(replies.iter().filter(|r| r.json() != Json::Null).count(), 1);
}

// More concurrent callers than records.
pub(super) async fn concurrent_consumes_return_different_records(s: &Server) {
    for rank in 0..10 {
        code(s, json!({"code": "k", "rank": rank})).await;
    }
    let replies = s
        .parallel(25, |_| s.post("/vouchers/redeem", json!({"code": "k"})))
        .await;
    let mut taken: Vec<String> = replies
        .iter()
        .filter_map(|r| r.json()["id"].as_str().map(str::to_owned))
        .collect();
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 10);
}

/// A consume that can match only one record waits while another transaction has locked this record.
pub(super) async fn consume_skips_records_in_use(s: &Server) {
    let id = code(s, json!({"code": "k"})).await;
    let vouchers = s.running().adapter::<Voucher>().unwrap();
    let cx = Cx::system("a test");
    let changed = cx.transaction(async |cx| {
        let patch = VoucherPatch {
            rank: Some(7),
            ..VoucherPatch::default()
        };
        vouchers.update(cx, id.clone(), patch, None).await?;
        tokio::time::sleep(Duration::from_millis(400)).await;
        Ok(())
    });
    let taken = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        s.post("/vouchers/take", json!({"id": id})).await
    };
    let (changed, taken) = tokio::join!(changed, taken);
    assert!(changed.is_ok());
    assert_eq!((taken.status, &taken.json()["rank"]), (200, &json!(7)));
    assert_eq!(
        s.post("/vouchers/take", json!({"id": id})).await.json(),
        Json::Null
    );
}
