use linchpin::entity::ListQuery;
use linchpin::{Package, package};

use super::entity::{GIVEN, REDEEM, SEND, TRY};
use super::*;
use crate::testing::{Bed, on_stores};

static TOKENS: Package = package!(
    name = "tokens",
    entities = [entity(OneTime, [REDEEM, TRY, SEND, GIVEN])]
);

on_stores!(
    &super::TOKENS =>
    a_token_works_once_for_its_purpose,
    one_of_fifty_concurrent_calls_consumes_a_token,
    an_expired_token_is_refused,
    a_newer_link_ends_the_earlier_ones,
    fifty_concurrently_issued_tokens_leave_one,
    attempts_are_counted_before_the_check,
    a_failed_transaction_leaves_the_token_usable,
    stored_tokens_reveal_neither_token_nor_payload,
    voiding_ends_tokens_of_the_named_purposes,
    the_last_token_of_one_millisecond_is_the_newest,
);

const HALF_HOUR: Duration = Duration::from_mins(30);
const LINK: Terms = Terms::link(HALF_HOUR);
const CHALLENGE: Terms = Terms {
    lifetime: HALF_HOUR,
    attempts: 5,
    sends: 3,
    only_newest: false,
};

fn tokens(bed: &Bed) -> OneTimes {
    OneTimes::new(
        bed.app.adapter::<OneTime>().unwrap(),
        bed.keys.clone(),
        bed.env.clone(),
    )
}

fn cx(bed: &Bed) -> Cx {
    Cx::system("test").at(bed.env.clock.now())
}

async fn issue(bed: &Bed, purpose: Purpose, terms: Terms) -> SecretText {
    tokens(bed)
        .issue(&cx(bed), purpose, "u1", &"payload", terms)
        .await
        .unwrap()
}

async fn find(bed: &Bed, purpose: Purpose, token: &SecretText) -> Option<OneTime> {
    tokens(bed)
        .find(&cx(bed), purpose, token.expose())
        .await
        .unwrap()
}

async fn a_token_works_once_for_its_purpose(bed: &Bed) {
    let token = issue(bed, Purpose::ResetPassword, LINK).await;
    assert_eq!(token.expose().len(), 43);
    for other in [
        Purpose::VerifyEmail,
        Purpose::MagicLink,
        Purpose::Login,
        Purpose::Reauth,
    ] {
        assert!(find(bed, other, &token).await.is_none());
    }
    let found = find(bed, Purpose::ResetPassword, &token).await.unwrap();
    assert_eq!(
        (
            found.user_id.as_str(),
            tokens(bed).payload::<String>(&found).unwrap().as_str()
        ),
        ("u1", "payload")
    );
    let other = OneTime {
        purpose: Purpose::MagicLink,
        ..found.clone()
    };
    assert!(!tokens(bed).take(&cx(bed), &other).await.unwrap());
    assert!(tokens(bed).take(&cx(bed), &found).await.unwrap());
    assert!(!tokens(bed).take(&cx(bed), &found).await.unwrap());
    assert!(find(bed, Purpose::ResetPassword, &token).await.is_none());
    for hostile in ["", "x", &"A".repeat(43), &"A".repeat(100_000), "\0", "é"] {
        assert!(
            find(bed, Purpose::ResetPassword, &SecretText::new(hostile))
                .await
                .is_none()
        );
    }
}

async fn one_of_fifty_concurrent_calls_consumes_a_token(bed: &Bed) {
    let token = issue(bed, Purpose::MagicLink, LINK).await;
    let found = find(bed, Purpose::MagicLink, &token).await.unwrap();
    let takes = (0..50).map(|_| {
        let (tokens, cx, found) = (tokens(bed), cx(bed), found.clone());
        tokio::spawn(async move { tokens.take(&cx, &found).await.unwrap() })
    });
    let mut taken = 0;
    for take in takes.collect::<Vec<_>>() {
        taken += usize::from(take.await.unwrap());
    }
    assert_eq!(taken, 1);
}

async fn an_expired_token_is_refused(bed: &Bed) {
    let token = issue(bed, Purpose::ResetPassword, LINK).await;
    let found = find(bed, Purpose::ResetPassword, &token).await.unwrap();
    bed.clock
        .advance(HALF_HOUR.checked_sub(Duration::from_millis(1)).unwrap());
    assert!(find(bed, Purpose::ResetPassword, &token).await.is_some());
    bed.clock.advance(Duration::from_millis(1));
    assert!(find(bed, Purpose::ResetPassword, &token).await.is_none());
    assert!(
        !tokens(bed).take(&cx(bed), &found).await.unwrap(),
        "found before its expiry, taken after it"
    );
    assert!(
        tokens(bed)
            .attempt(&cx(bed), &found)
            .await
            .unwrap()
            .is_none()
    );
}

async fn a_newer_link_ends_the_earlier_ones(bed: &Bed) {
    let first = issue(bed, Purpose::ResetPassword, LINK).await;
    let other = issue(bed, Purpose::VerifyEmail, LINK).await;
    let strangers = tokens(bed)
        .issue(&cx(bed), Purpose::ResetPassword, "u2", &(), LINK)
        .await
        .unwrap();
    bed.clock.advance(Duration::from_secs(1));
    let second = issue(bed, Purpose::ResetPassword, LINK).await;
    assert!(find(bed, Purpose::ResetPassword, &first).await.is_none());
    assert!(find(bed, Purpose::ResetPassword, &second).await.is_some());
    assert!(find(bed, Purpose::VerifyEmail, &other).await.is_some());
    assert!(
        find(bed, Purpose::ResetPassword, &strangers)
            .await
            .is_some()
    );
    // A user can have several challenges.
    let (a, b) = (
        issue(bed, Purpose::Login, CHALLENGE).await,
        issue(bed, Purpose::Login, CHALLENGE).await,
    );
    assert!(
        find(bed, Purpose::Login, &a).await.is_some()
            && find(bed, Purpose::Login, &b).await.is_some()
    );
}

async fn fifty_concurrently_issued_tokens_leave_one(bed: &Bed) {
    let issues = (0..50).map(|_| {
        let (tokens, cx) = (tokens(bed), cx(bed));
        tokio::spawn(async move {
            tokens
                .issue(&cx, Purpose::ResetPassword, "u1", &(), LINK)
                .await
                .unwrap()
        })
    });
    let mut alive = 0;
    for issue in issues.collect::<Vec<_>>() {
        alive += usize::from(
            find(bed, Purpose::ResetPassword, &issue.await.unwrap())
                .await
                .is_some(),
        );
    }
    // Some look-ups ran while other tokens were still being issued. After all of them one token is
    // left.
    assert!(alive >= 1);
    let left = bed
        .app
        .adapter::<OneTime>()
        .unwrap()
        .list(&cx(bed), ListQuery::new().limit(200))
        .await
        .unwrap()
        .items;
    assert_eq!(left.len(), 1);
}

async fn attempts_are_counted_before_the_check(bed: &Bed) {
    let token = issue(bed, Purpose::Login, CHALLENGE).await;
    let found = find(bed, Purpose::Login, &token).await.unwrap();
    let attempts = (0..50).map(|_| {
        let (tokens, cx, found) = (tokens(bed), cx(bed), found.clone());
        tokio::spawn(async move { tokens.attempt(&cx, &found).await.unwrap() })
    });
    let mut left = Vec::new();
    for attempt in attempts.collect::<Vec<_>>() {
        left.extend(attempt.await.unwrap().map(|one| one.attempts_left));
    }
    left.sort_unstable();
    assert_eq!(left, [0, 1, 2, 3, 4]);
    for expected in [true, true, true, false] {
        assert_eq!(
            tokens(bed)
                .count_send(&cx(bed), &found)
                .await
                .unwrap()
                .is_some(),
            expected
        );
    }
}

async fn a_failed_transaction_leaves_the_token_usable(bed: &Bed) {
    let token = issue(bed, Purpose::ResetPassword, LINK).await;
    let found = find(bed, Purpose::ResetPassword, &token).await.unwrap();
    let tokens = tokens(bed);
    let failed: Result<()> = cx(bed)
        .transaction(async |cx| {
            assert!(tokens.take(cx, &found).await?);
            Err(Error::unavailable("the write after the token failed"))
        })
        .await;
    assert!(failed.is_err());
    assert!(find(bed, Purpose::ResetPassword, &token).await.is_some());
    assert!(tokens.take(&cx(bed), &found).await.unwrap());
}

async fn stored_tokens_reveal_neither_token_nor_payload(bed: &Bed) {
    let tokens = tokens(bed);
    let token = tokens
        .issue(
            &cx(bed),
            Purpose::VerifyNewEmail,
            "u1",
            &"new@example.test",
            LINK,
        )
        .await
        .unwrap();
    let found = find(bed, Purpose::VerifyNewEmail, &token).await.unwrap();
    assert!(
        !found.id.contains(token.expose()) && !found.sealed.as_ref().unwrap().contains("example")
    );
    let changed = tokens
        .replace(&cx(bed), &found, &"other@example.test")
        .await
        .unwrap();
    assert_eq!(
        tokens.payload::<String>(&changed).unwrap(),
        "other@example.test"
    );
    // A payload that was copied to another token cannot be decrypted.
    let other = tokens
        .issue(&cx(bed), Purpose::VerifyNewEmail, "u2", &(), LINK)
        .await
        .unwrap();
    let other = find(bed, Purpose::VerifyNewEmail, &other).await.unwrap();
    assert!(
        tokens
            .payload::<String>(&OneTime {
                sealed: found.sealed,
                ..other
            })
            .is_err()
    );
}

async fn voiding_ends_tokens_of_the_named_purposes(bed: &Bed) {
    let (reset, magic) = (
        issue(bed, Purpose::ResetPassword, LINK).await,
        issue(bed, Purpose::MagicLink, LINK).await,
    );
    let verify = issue(bed, Purpose::VerifyEmail, LINK).await;
    tokens(bed)
        .void(
            &cx(bed),
            "u1",
            &[Purpose::ResetPassword, Purpose::MagicLink],
        )
        .await
        .unwrap();
    assert!(
        find(bed, Purpose::ResetPassword, &reset).await.is_none()
            && find(bed, Purpose::MagicLink, &magic).await.is_none()
    );
    assert!(find(bed, Purpose::VerifyEmail, &verify).await.is_some());
}

/// If a user requests two mails at once, the second link works, even within one millisecond.
async fn the_last_token_of_one_millisecond_is_the_newest(bed: &Bed) {
    let tokens_of_app = tokens(bed);
    let issue = async || {
        tokens_of_app
            .issue(&cx(bed), Purpose::VerifyEmail, "u1", &"payload", LINK)
            .await
            .unwrap()
    };
    for _ in 0..8 {
        let (first, second) = (issue().await, issue().await);
        assert!(find(bed, Purpose::VerifyEmail, &first).await.is_none());
        let found = find(bed, Purpose::VerifyEmail, &second).await.unwrap();
        let newest = tokens(bed)
            .newest(&cx(bed), Purpose::VerifyEmail, "u1")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(newest.id, found.id);
    }
}
