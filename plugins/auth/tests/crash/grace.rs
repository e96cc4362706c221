//! A deletion with a time of grace: asked for, called off, and done once that is over.

use serde_json::{Value as Json, json};

use crate::child::{Answer, GOOD, Peer, ROOT};
use crate::{Before, Case, somebody};

const WEEK: u64 = 7 * 86_400;

async fn ask_for_it(peer: &Peer, before: &Before) -> Option<Answer> {
    peer.ask("DELETE", "me", &before.token, json!({ "password": GOOD }))
        .await
}

async fn call_it_off(peer: &Peer, before: &Before) -> Option<Answer> {
    peer.ask("POST", "cancel-deletion", &before.token, json!({}))
        .await
}

/// Whether an account is to be deleted. A sign-in and what the session may do say the same.
async fn is_scheduled(peer: &Peer, before: &Before) -> bool {
    let login = peer.login(&before.email, GOOD).await;
    assert_eq!(login.status, 200, "{login:?}");
    let own = peer
        .ask("GET", "sessions", &before.token, Json::Null)
        .await
        .unwrap()
        .status;
    match (login.body["deletionScheduledFor"].is_string(), own) {
        (true, 403) => true,
        (false, 200) => false,
        other => panic!("{other:?}"),
    }
}

/// How often something has happened to an account, as its owner is told.
async fn happened(peer: &Peer, before: &Before, event: &str) -> usize {
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

/// After a lost response, the change has happened entirely or not at all.
fn is_none_or_late(answer: Option<&Answer>) -> bool {
    answer.is_none_or(|answer| answer.status == 503)
}

pub struct Request;

impl Case for Request {
    const GRACE: u64 = WEEK;

    async fn request(peer: &Peer, before: &Before) -> Option<Answer> {
        ask_for_it(peer, before).await
    }

    async fn judge(peer: &Peer, before: &Before, answer: Option<Answer>) {
        let other = peer.me(&before.other).await;
        if is_scheduled(peer, before).await {
            assert_eq!(other, 401, "other sessions end with it");
        } else {
            assert!(is_none_or_late(answer.as_ref()), "{answer:?}");
            assert_eq!(other, 200, "nothing of it has happened");
            let again = ask_for_it(peer, before).await.unwrap();
            assert_eq!(again.status, 202, "{again:?}");
            assert!(is_scheduled(peer, before).await);
        }
        // It can be called off, and has been written down as often as it has happened.
        assert_eq!(call_it_off(peer, before).await.unwrap().status, 200);
        assert!(!is_scheduled(peer, before).await);
        for event in [
            "auth:account.deletion.scheduled",
            "auth:account.deletion.cancelled",
        ] {
            assert_eq!(happened(peer, before, event).await, 1, "{event}");
        }
    }
}

pub struct Cancellation;

impl Case for Cancellation {
    const GRACE: u64 = WEEK;

    async fn before(peer: &Peer, n: i64) -> Before {
        let before = somebody(peer, n).await;
        assert_eq!(ask_for_it(peer, &before).await.unwrap().status, 202);
        before
    }

    async fn request(peer: &Peer, before: &Before) -> Option<Answer> {
        call_it_off(peer, before).await
    }

    async fn judge(peer: &Peer, before: &Before, answer: Option<Answer>) {
        let again = call_it_off(peer, before).await.unwrap();
        match again.status {
            200 => assert!(is_none_or_late(answer.as_ref()), "{answer:?}"),
            409 => assert_eq!(again.text("code"), "not_scheduled"),
            _ => panic!("{again:?}"),
        }
        assert!(!is_scheduled(peer, before).await);
        assert_eq!(
            happened(peer, before, "auth:account.deletion.cancelled").await,
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
    const WAITS: u64 = WEEK;

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

    async fn judge(peer: &Peer, before: &Before, answer: Option<Answer>) {
        assert_eq!(
            (peer.me(&before.token).await, peer.me(&before.other).await),
            (401, 401),
            "it is gone for everybody"
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
        // The remaining audit of the old account identifies nobody.
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
        let kept = peer
            .ask(
                "GET",
                &format!("admin/audit?userId={}", before.id),
                &proved.text("token"),
                Json::Null,
            )
            .await
            .unwrap();
        assert_eq!(
            (kept.status, &kept.body["items"]),
            (200, &json!([])),
            "{kept:?}"
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
