//! A deletion with a grace period: its request, its cancellation, and its removal after the grace
//! period.

use serde_json::{Value as Json, json};

use crate::child::{Answer, GOOD, Peer, ROOT};
use crate::{Before, Case, registered_user};

const WEEK: u64 = 7 * 86_400;

async fn request_deletion(peer: &Peer, before: &Before) -> Option<Answer> {
    peer.ask("DELETE", "me", &before.token, json!({ "password": GOOD }))
        .await
}

async fn cancel_deletion(peer: &Peer, before: &Before) -> Option<Answer> {
    peer.ask("POST", "cancel-deletion", &before.token, json!({}))
        .await
}

/// Whether the deletion of an account is scheduled. Checks that the response of a sign-in and the
/// rights of the session agree.
async fn is_scheduled(peer: &Peer, before: &Before) -> bool {
    let login = peer.login(&before.email, GOOD).await;
    assert_eq!(login.status, 200, "{login:?}");
    let sessions_status = peer
        .ask("GET", "sessions", &before.token, Json::Null)
        .await
        .unwrap()
        .status;
    match (
        login.body["deletionScheduledFor"].is_string(),
        sessions_status,
    ) {
        (true, 403) => true,
        (false, 200) => false,
        other => panic!("{other:?}"),
    }
}

/// The number of entries for an event in the owner's activity.
async fn count_events(peer: &Peer, before: &Before, event: &str) -> usize {
    let page = peer
        .ask("GET", "activity?limit=100", &before.token, Json::Null)
        .await
        .unwrap();
    assert_eq!(page.status, 200, "{page:?}");
    page.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["event"] == event)
        .count()
}

/// Whether the request got no response, or 503. Then it may have had no effect.
fn may_have_failed(answer: Option<&Answer>) -> bool {
    answer.is_none_or(|answer| answer.status == 503)
}

pub struct Request;

impl Case for Request {
    const GRACE: u64 = WEEK;

    async fn request(peer: &Peer, before: &Before) -> Option<Answer> {
        request_deletion(peer, before).await
    }

    async fn check(peer: &Peer, before: &Before, answer: Option<Answer>) {
        let other = peer.me(&before.other).await;
        if is_scheduled(peer, before).await {
            assert_eq!(other, 401, "the request ends other sessions");
        } else {
            assert!(may_have_failed(answer.as_ref()), "{answer:?}");
            assert_eq!(other, 200, "the request had no effect");
            let again = request_deletion(peer, before).await.unwrap();
            assert_eq!(again.status, 202, "{again:?}");
            assert!(is_scheduled(peer, before).await);
        }
        // The deletion can be cancelled, and each event is audited once.
        assert_eq!(cancel_deletion(peer, before).await.unwrap().status, 200);
        assert!(!is_scheduled(peer, before).await);
        for event in [
            "auth:account.deletion.scheduled",
            "auth:account.deletion.cancelled",
        ] {
            assert_eq!(count_events(peer, before, event).await, 1, "{event}");
        }
    }
}

pub struct Cancellation;

impl Case for Cancellation {
    const GRACE: u64 = WEEK;

    async fn before(peer: &Peer, n: i64) -> Before {
        let before = registered_user(peer, n).await;
        assert_eq!(request_deletion(peer, &before).await.unwrap().status, 202);
        before
    }

    async fn request(peer: &Peer, before: &Before) -> Option<Answer> {
        cancel_deletion(peer, before).await
    }

    async fn check(peer: &Peer, before: &Before, answer: Option<Answer>) {
        let again = cancel_deletion(peer, before).await.unwrap();
        match again.status {
            200 => assert!(may_have_failed(answer.as_ref()), "{answer:?}"),
            409 => assert_eq!(again.text("code"), "not_scheduled"),
            _ => panic!("{again:?}"),
        }
        assert!(!is_scheduled(peer, before).await);
        assert_eq!(
            count_events(peer, before, "auth:account.deletion.cancelled").await,
            1
        );
        // Sessions that the request ended stay ended.
        assert_eq!(peer.me(&before.other).await, 401);
    }
}

/// A new sign-up with the address removes an account whose grace period is over. The background
/// job removes such accounts too, also those whose removal was interrupted.
pub struct Purge;

impl Case for Purge {
    const GRACE: u64 = WEEK;
    const WAIT_SECONDS: u64 = WEEK;

    async fn before(peer: &Peer, n: i64) -> Before {
        Cancellation::before(peer, n).await
    }

    async fn request(peer: &Peer, before: &Before) -> Option<Answer> {
        peer.ask(
            "POST",
            "register",
            "",
            json!({ "email": before.email, "password": GOOD }),
        )
        .await
    }

    async fn check(peer: &Peer, before: &Before, answer: Option<Answer>) {
        assert_eq!(
            (peer.me(&before.token).await, peer.me(&before.other).await),
            (401, 401),
            "all sessions of the account have ended"
        );
        let again = peer.register(&before.email).await;
        match (answer.map(|answer| answer.status), again.status) {
            (Some(201 | 503) | None, 409) | (None | Some(503), 201) => {}
            other => panic!("{other:?} {again:?}"),
        }
        let login = peer.login(&before.email, GOOD).await;
        assert_eq!(login.status, 200, "{login:?}");
        assert!(
            login.text("userId") != before.id && login.body["deletionScheduledFor"].is_null(),
            "{login:?}"
        );
        // The remaining audit entries do not contain the id of the old account.
        let root = peer.login(ROOT, GOOD).await.text("token");
        let proved = peer
            .ask(
                "POST",
                "step-up",
                &root,
                json!({ "method": "password", "password": GOOD }),
            )
            .await
            .unwrap();
        let old_entries = peer
            .ask(
                "GET",
                &format!("admin/audit?userId={}", before.id),
                &proved.text("token"),
                Json::Null,
            )
            .await
            .unwrap();
        assert_eq!(
            (old_entries.status, &old_entries.body["items"]),
            (200, &json!([])),
            "{old_entries:?}"
        );
        let new = peer
            .ask(
                "GET",
                &format!("admin/audit?userId={}", login.text("userId")),
                &proved.text("token"),
                Json::Null,
            )
            .await
            .unwrap();
        assert!(
            new.body["items"]
                .as_array()
                .is_some_and(|rows| !rows.is_empty()),
            "{new:?}"
        );
    }
}
