use std::sync::Arc;
use std::time::Duration;

use linchpin::entity::ListQuery;
use linchpin::{Package, package};

use super::counter::{Counter, END_EMPTY, GIVE_BACK, TAKE};
use super::table::Limit;
use super::*;

impl Limiter {
    async fn take_distinct(&self, hit: Hit<'_>, value: &str) -> Result<Taken> {
        self.admit_distinct(hit, value)
            .await?
            .map_err(|full| rate_limited(full.seconds))
    }
}
use crate::testing::{Bed, on_stores};

static COUNTERS: Package = package!(
    name = "counters",
    entities = [entity(Counter, [TAKE, GIVE_BACK, END_EMPTY])]
);

on_stores!(
    &super::COUNTERS =>
    exactly_the_allowed_number_of_attempts_passes,
    concurrent_attempts_are_counted_like_sequential_ones,
    a_success_returns_the_attempts_that_count_failures,
    concurrent_refunds_are_all_counted,
    a_window_ends_and_refused_attempts_do_not_extend_it,
    a_successful_attempt_starts_no_window,
    an_attempt_is_counted_in_all_buckets_or_in_none,
    distinct_identifiers_are_counted_once,
    concurrent_distinct_identifiers_are_counted_once,
    limit_counters_contain_no_identifiers,
    an_ended_window_is_not_refunded,
    concurrent_failures_keep_the_longest_window,
);

fn limiter(bed: &Bed) -> Limiter {
    let mut limits = Limits::default();
    limits
        .set(
            "login",
            Limit {
                max: 10,
                window_seconds: 900,
            },
        )
        .unwrap();
    limits
        .set(
            "loginIp",
            Limit {
                max: 12,
                window_seconds: 60,
            },
        )
        .unwrap();
    Limiter::new(
        bed.app.adapter::<Counter>().unwrap(),
        bed.ring.clone(),
        bed.env.clone(),
        Some(limits),
    )
}

const LOGIN: Hit<'static> = Hit {
    bucket: Bucket::Login,
    key: &["192.0.2.1", "alice@example.test"],
};
const IP: Hit<'static> = Hit {
    bucket: Bucket::LoginIp,
    key: &["192.0.2.1"],
};
const ALL: Hit<'static> = Hit {
    bucket: Bucket::Register,
    key: &["192.0.2.1"],
};
const SPREAD: Hit<'static> = Hit {
    bucket: Bucket::LoginSpread,
    key: &["192.0.2.1"],
};

async fn passes(limiter: &Limiter, hit: Hit<'_>) -> bool {
    match limiter.take(&[hit]).await {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.code(), Code::RateLimited, "{error:?}");
            false
        }
    }
}

/// Runs `work` with the numbers from 0 to `n - 1`, all at the same time.
async fn run_concurrently<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    n: usize,
    work: impl Fn(usize) -> F,
) -> Vec<T> {
    let barrier = Arc::new(tokio::sync::Barrier::new(n));
    let mut tasks = Vec::new();
    for i in 0..n {
        let (barrier, work) = (barrier.clone(), work(i));
        tasks.push(tokio::spawn(async move {
            barrier.wait().await;
            work.await
        }));
    }
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.unwrap());
    }
    done
}

async fn counters(bed: &Bed) -> Vec<Counter> {
    let cx = Cx::system("look").at(bed.env.clock.now());
    bed.app
        .adapter::<Counter>()
        .unwrap()
        .list(&cx, ListQuery::new().limit(200))
        .await
        .unwrap()
        .items
}

async fn exactly_the_allowed_number_of_attempts_passes(bed: &Bed) {
    let limiter = limiter(bed);
    for _ in 0..10 {
        assert!(passes(&limiter, LOGIN).await);
    }
    let refused = limiter.take(&[LOGIN]).await.unwrap_err();
    assert_eq!(
        (refused.code().status(), refused.retry_after_seconds()),
        (429, Some(900))
    );
    // Another caller is not affected.
    assert!(
        passes(
            &limiter,
            Hit {
                key: &["192.0.2.1", "bob@example.test"],
                ..LOGIN
            }
        )
        .await
    );
    assert!(
        passes(
            &limiter,
            Hit {
                key: &["192.0.2.2", "alice@example.test"],
                ..LOGIN
            }
        )
        .await
    );
    limiter.clear(LOGIN).await;
    assert!(passes(&limiter, LOGIN).await);
}

async fn concurrent_attempts_are_counted_like_sequential_ones(bed: &Bed) {
    let limiter = limiter(bed);
    let passed = run_concurrently(50, |_| {
        let limiter = limiter.clone();
        async move { passes(&limiter, LOGIN).await }
    });
    assert_eq!(
        passed.await.into_iter().filter(|passed| *passed).count(),
        10
    );
    assert!(!passes(&limiter, LOGIN).await);
}

async fn a_success_returns_the_attempts_that_count_failures(bed: &Bed) {
    let limiter = limiter(bed);
    for _ in 0..9 {
        drop(limiter.take(&[LOGIN, IP, ALL]).await.unwrap());
    }
    limiter
        .take(&[LOGIN, IP, ALL])
        .await
        .unwrap()
        .succeeded()
        .await;
    // `LOGIN` counts failures in a row: all 10 attempts are allowed again. `IP` counts failures: 9
    // of 12 are used. `ALL` counts every attempt: 10 of 20 are used.
    let left = async |hit: Hit<'_>| {
        let mut n = 0;
        while passes(&limiter, hit).await {
            n += 1;
        }
        n
    };
    assert_eq!(
        (left(LOGIN).await, left(IP).await, left(ALL).await),
        (10, 3, 10)
    );
}

async fn concurrent_refunds_are_all_counted(bed: &Bed) {
    let limiter = limiter(bed);
    // These 5 of 12 attempts stay counted during the refunds below.
    for _ in 0..5 {
        assert!(passes(&limiter, IP).await);
    }
    run_concurrently(50, |_| {
        let limiter = limiter.clone();
        async move {
            if let Ok(taken) = limiter.take(&[IP]).await {
                taken.succeeded().await;
            }
        }
    })
    .await;
    for n in 0..7 {
        assert!(passes(&limiter, IP).await, "{n}");
    }
    assert!(!passes(&limiter, IP).await);
}

async fn a_window_ends_and_refused_attempts_do_not_extend_it(bed: &Bed) {
    let limiter = limiter(bed);
    for _ in 0..12 {
        assert!(passes(&limiter, IP).await);
        bed.clock.advance(Duration::from_secs(1));
    }
    for _ in 0..5 {
        assert!(!passes(&limiter, IP).await);
    }
    bed.clock.advance(Duration::from_millis(47_999));
    assert_eq!(
        limiter.take(&[IP]).await.unwrap_err().retry_after_seconds(),
        Some(1),
        "one millisecond is rounded up to one second"
    );
    bed.clock.advance(Duration::from_millis(1));
    for _ in 0..12 {
        assert!(passes(&limiter, IP).await);
    }
    assert!(!passes(&limiter, IP).await);
}

async fn a_successful_attempt_starts_no_window(bed: &Bed) {
    let limiter = limiter(bed);
    limiter.take(&[IP]).await.unwrap().succeeded().await;
    assert!(counters(bed).await.is_empty());
    bed.clock.advance(Duration::from_secs(59));
    assert!(passes(&limiter, IP).await);
    bed.clock.advance(Duration::from_secs(59));
    for _ in 0..11 {
        assert!(passes(&limiter, IP).await);
    }
    assert!(
        !passes(&limiter, IP).await,
        "the window starts with the first attempt that stays counted"
    );
}

async fn an_attempt_is_counted_in_all_buckets_or_in_none(bed: &Bed) {
    let limiter = limiter(bed);
    for _ in 0..12 {
        assert!(passes(&limiter, IP).await);
    }
    for _ in 0..30 {
        assert!(limiter.take(&[LOGIN, ALL, IP]).await.is_err());
    }
    for _ in 0..10 {
        assert!(passes(&limiter, LOGIN).await);
    }
    assert!(!passes(&limiter, LOGIN).await);
}

async fn distinct_identifiers_are_counted_once(bed: &Bed) {
    let limiter = limiter(bed);
    for _ in 0..3 {
        for n in 0..15 {
            assert!(
                limiter
                    .take_distinct(SPREAD, &format!("{n}@example.test"))
                    .await
                    .is_ok()
            );
        }
    }
    let refused = limiter
        .take_distinct(SPREAD, "15@example.test")
        .await
        .unwrap_err();
    assert_eq!(
        (refused.code(), refused.retry_after_seconds()),
        (Code::RateLimited, Some(900))
    );
    assert!(
        limiter
            .take_distinct(SPREAD, "3@example.test")
            .await
            .is_ok()
    );
    bed.clock.advance(Duration::from_mins(15));
    // A call that refunds its count makes room for the next.
    for n in 20..34 {
        drop(
            limiter
                .take_distinct(SPREAD, &format!("{n}@example.test"))
                .await
                .unwrap(),
        );
    }
    limiter
        .take_distinct(SPREAD, "mine@example.test")
        .await
        .unwrap()
        .succeeded()
        .await;
    assert!(
        limiter
            .take_distinct(SPREAD, "34@example.test")
            .await
            .is_ok()
    );
    assert!(
        limiter
            .take_distinct(SPREAD, "35@example.test")
            .await
            .is_err()
    );
}

async fn concurrent_distinct_identifiers_are_counted_once(bed: &Bed) {
    let limiter = limiter(bed);
    let try_all = async |count: usize, hit: Hit<'static>| {
        let attempts = run_concurrently(50, |i| {
            let limiter = limiter.clone();
            async move {
                limiter
                    .take_distinct(hit, &format!("{}@example.test", i % count))
                    .await
                    .is_ok()
                    .then_some(i % count)
            }
        });
        attempts
            .await
            .into_iter()
            .flatten()
            .collect::<std::collections::BTreeSet<usize>>()
    };
    assert_eq!(try_all(50, SPREAD).await.len(), 15);

    // Twenty-five callers, twice each. A caller who is admitted once is admitted again, and
    // duplicate counts are refunded in the end.
    let elsewhere = Hit {
        key: &["192.0.2.2"],
        ..SPREAD
    };
    let mut passed = try_all(25, elsewhere).await;
    assert!(passed.len() <= 15, "{passed:?}");
    for n in 0..25 {
        let passes = limiter
            .take_distinct(elsewhere, &format!("{n}@example.test"))
            .await
            .is_ok();
        assert_eq!(passes, passed.contains(&n) || passed.len() < 15, "{n}");
        passed.extend(passes.then_some(n));
    }
    assert_eq!(passed.len(), 15);
}

async fn limit_counters_contain_no_identifiers(bed: &Bed) {
    let limiter = limiter(bed);
    drop(limiter.take(&[LOGIN, IP]).await.unwrap());
    drop(
        limiter
            .take_distinct(SPREAD, "alice@example.test")
            .await
            .unwrap(),
    );
    let all = counters(bed).await;
    assert_eq!(all.len(), 4);
    let text = format!("{all:?}");
    assert!(
        !text.contains("alice") && !text.contains("192.0") && !text.contains("login"),
        "{text}"
    );
}

async fn an_ended_window_is_not_refunded(bed: &Bed) {
    let limiter = limiter(bed);
    let earlier = limiter.take(&[IP]).await.unwrap();
    bed.clock.advance(Duration::from_mins(1));
    for _ in 0..12 {
        assert!(passes(&limiter, IP).await);
    }
    earlier.succeeded().await;
    assert!(
        !passes(&limiter, IP).await,
        "the attempt was counted in the previous window"
    );
}

async fn concurrent_failures_keep_the_longest_window(bed: &Bed) {
    let limiter = limiter(bed);
    let hit = Hit {
        bucket: Bucket::PasswordLockout,
        key: &["alice@example.test"],
    };
    let mut taken = Vec::new();
    for _ in 0..5 {
        taken.push(limiter.take(&[hit]).await.unwrap());
    }
    bed.clock.advance(Duration::from_secs(1));
    // The last attempt fails first.
    for failed in taken.iter().rev() {
        failed.failed().await.unwrap();
    }
    let end = later(bed.env.clock.now(), 5 * 86_400_000);
    assert_eq!(counters(bed).await[0].window_end, Some(end));
}

#[tokio::test]
async fn disabled_limits_count_nothing() {
    let bed = Bed::memory(&COUNTERS).await;
    let limiter = Limiter::new(
        bed.app.adapter::<Counter>().unwrap(),
        bed.ring.clone(),
        bed.env.clone(),
        None,
    );
    for _ in 0..100 {
        limiter.take(&[LOGIN]).await.unwrap().succeeded().await;
        limiter
            .take_distinct(SPREAD, "x")
            .await
            .unwrap()
            .succeeded()
            .await;
    }
    limiter.clear(LOGIN).await;
    assert!(counters(&bed).await.is_empty());
}
