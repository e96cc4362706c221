//! `min`: the counter never falls below its minimum.

use super::*;

async fn club(s: &Server, id: &str, owners: &[&str]) {
    post(s, "/clubs", json!({"id": id})).await;
    for user in owners {
        post(
            s,
            "/memberships",
            json!({"clubId": id, "userId": user, "rank": "owner"}),
        )
        .await;
    }
}

async fn members_of(s: &Server, club: &str) -> Vec<String> {
    let mut all: Vec<(String, String)> = Vec::new();
    for member in s.walk("/memberships?limit=200").await {
        if member["clubId"] == club {
            all.push((
                member["userId"].as_str().unwrap().to_owned(),
                member["id"].as_str().unwrap().to_owned(),
            ));
        }
    }
    all.sort();
    all.into_iter().map(|(_, id)| id).collect()
}

pub(super) async fn counters_keep_their_minimum(s: &Server) {
    club(s, "c", &["ann", "bob"]).await;
    post(s, "/memberships", json!({"clubId": "c", "userId": "zoe"})).await;
    let [ann, bob, zoe] = &members_of(s, "c").await[..] else {
        panic!("three members")
    };
    assert_eq!(
        s.patch(&format!("/memberships/{ann}"), json!({"rank": "member"}))
            .await
            .status,
        200
    );
    check_counters(s, "after one of two owners has left").await;
    for reply in [
        s.patch(&format!("/memberships/{bob}"), json!({"rank": "member"}))
            .await,
        s.delete(&format!("/memberships/{bob}")).await,
        s.post(
            "/memberships/assign",
            json!({"clubId": "c", "userId": "bob", "rank": "member"}),
        )
        .await,
        s.post("/memberships/demote-all", json!({"club": "c"}))
            .await,
    ] {
        assert_eq!(reply.code(), (409, "last_owner"), "{reply:?}");
        check_counters(s, "a refusal").await;
    }
    assert_eq!(
        get(s, &format!("/memberships/{bob}")).await["rank"],
        "owner"
    );
    // A member who is not an owner may leave.
    assert_eq!(s.delete(&format!("/memberships/{zoe}")).await.status, 204);
    assert_eq!(
        s.post(
            "/memberships/assign",
            json!({"clubId": "c", "userId": "eve", "rank": "owner"})
        )
        .await
        .status,
        201
    );
    assert_eq!(s.delete(&format!("/memberships/{bob}")).await.status, 204);
    check_counters(s, "another owner").await;
    // Two owners step down concurrently: one remains an owner.
    for round in 0..8 {
        let name = format!("r{round}");
        club(s, &name, &["a", "b"]).await;
        let ids = &members_of(s, &name).await;
        let replies = s
            .parallel(2, |n| async move {
                s.patch(
                    &format!("/memberships/{}", ids[n]),
                    json!({"rank": "member"}),
                )
                .await
            })
            .await;
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "{replies:?}");
    }
    check_counters(s, "races").await;
    // The application itself may remove the last owner.
    let members = s.running().adapter::<Membership>().unwrap();
    let last = members_of(s, "c").await;
    members
        .delete(
            &Cx::system("erase an account"),
            &*last[last.len() - 1],
            None,
        )
        .await
        .unwrap();
    check_counters(s, "an erasure").await;
}

/// Deleting the record with the counter deletes the counted records in spite of `min`.
pub(super) async fn a_deletion_of_the_counting_record_ignores_the_minimum(s: &Server) {
    club(s, "c", &["ann"]).await;
    assert_eq!(s.delete("/clubs/c").await.status, 204);
    assert!(members_of(s, "c").await.is_empty());
    check_counters(s, "a deletion").await;
}

/// A refused change may be partly written. Therefore the whole transaction is rolled back, even if
/// its code handles the error.
pub(super) async fn a_refused_change_rolls_back_its_transaction(s: &Server) {
    club(s, "c", &["ann"]).await;
    let (members, id) = (
        s.running().adapter::<Membership>().unwrap(),
        members_of(s, "c").await[0].clone(),
    );
    let outcome = Cx::actor(Actor::user("clerk"))
        .transaction(async |cx| {
            let refused = members
                .delete(cx, id.as_str(), None)
                .await
                .map_err(|e| e.code());
            assert_eq!(refused, Err(Code::Other(409, "last_owner")));
            Ok(())
        })
        .await;
    assert_eq!(outcome.map_err(|e| e.code()), Err(Code::Conflict));
    check_counters(s, "a refusal").await;
    assert_eq!(members_of(s, "c").await, [id]);
}
