use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use linchpin::Code;

use super::*;
use crate::env::Env;
use crate::secret::SecretText;

/// A cost far below the minimum of the settings, because these tests do not depend on it.
fn cheap(m: u32) -> Params {
    Params::new(m, 1, 1, Some(32)).unwrap()
}

fn hasher(legacy: Vec<Arc<dyn LegacyVerifier>>) -> Hasher {
    Hasher::new(cheap(32), 2, Env::system().rng, legacy).unwrap()
}

fn password(text: &str) -> Password {
    Password::for_check(&SecretText::new(text), 128).unwrap()
}

#[tokio::test]
async fn a_hash_is_salted_argon2id_with_its_parameters() {
    let hasher = hasher(Vec::new());
    let (a, b) = (
        hasher.hash(password("violet otter")).await.unwrap(),
        hasher.hash(password("violet otter")).await.unwrap(),
    );
    assert!(a.starts_with("$argon2id$v=19$m=32,t=1,p=1$"), "{a}");
    assert_ne!(a, b);
    let hash = PasswordHash::new(&a).unwrap();
    assert_eq!(
        (hash.salt.unwrap().len(), hash.hash.unwrap().len()),
        (16, 32)
    );
    assert_eq!(
        hasher
            .verify(password("violet otter"), Some(a.clone()))
            .await
            .unwrap(),
        Verdict::Right { rehashed: None }
    );
    assert_eq!(
        hasher
            .verify(password("Violet otter"), Some(a))
            .await
            .unwrap(),
        Verdict::Wrong
    );
}

#[tokio::test]
async fn no_password_matches_the_dummy_hash() {
    let hasher = hasher(Vec::new());
    assert_eq!(
        hasher.verify(password("violet otter"), None).await.unwrap(),
        Verdict::Wrong
    );
}

/// A wrong password takes as long for an account that does not exist, or has no password.
#[tokio::test]
async fn a_missing_hash_costs_the_same_work() {
    let hasher = hasher(Vec::new());
    let stored = hasher.hash(password("violet otter")).await.unwrap();
    let (ours, dummy) = (
        PasswordHash::new(&stored).unwrap(),
        PasswordHash::new(&hasher.0.dummy).unwrap(),
    );
    assert_eq!(
        (ours.algorithm, Params::try_from(&ours).unwrap()),
        (dummy.algorithm, Params::try_from(&dummy).unwrap())
    );
    for (stored, checks) in [(None, 1), (Some(stored), 2)] {
        assert_eq!(
            hasher.verify(password("wrong"), stored).await.unwrap(),
            Verdict::Wrong
        );
        assert_eq!(hasher.0.argon2_checks.load(Ordering::SeqCst), checks);
    }
}

#[tokio::test]
async fn other_parameters_are_rehashed_after_a_right_password_only() {
    let before = Hasher::new(cheap(16), 1, Env::system().rng, Vec::new()).unwrap();
    let stored = before.hash(password("violet otter")).await.unwrap();
    let now = hasher(Vec::new());
    assert_eq!(
        now.verify(password("wrong"), Some(stored.clone()))
            .await
            .unwrap(),
        Verdict::Wrong
    );
    let Verdict::Right {
        rehashed: Some(new_hash),
    } = now
        .verify(password("violet otter"), Some(stored))
        .await
        .unwrap()
    else {
        panic!("not rehashed")
    };
    assert!(new_hash.contains("m=32,"), "{new_hash}");
    assert_eq!(
        now.verify(password("violet otter"), Some(new_hash))
            .await
            .unwrap(),
        Verdict::Right { rehashed: None }
    );
}

/// Verifies passwords that another program stored backwards.
#[derive(Default)]
struct Backwards(AtomicUsize);

impl LegacyVerifier for Backwards {
    fn recognises(&self, stored: &str) -> bool {
        stored.starts_with("$backwards$")
    }
    fn verify(&self, password: &str, stored: &str) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        stored
            .trim_start_matches("$backwards$")
            .chars()
            .rev()
            .eq(password.chars())
    }
}

#[tokio::test]
async fn an_imported_hash_is_replaced_at_the_first_right_password() {
    let hasher = hasher(vec![Arc::new(Backwards::default())]);
    let stored = || Some("$backwards$retto teloiv".to_owned());
    assert_eq!(
        hasher.verify(password("wrong"), stored()).await.unwrap(),
        Verdict::Wrong
    );
    let Verdict::Right {
        rehashed: Some(new_hash),
    } = hasher
        .verify(password("violet otter"), stored())
        .await
        .unwrap()
    else {
        panic!("not rehashed")
    };
    assert!(new_hash.starts_with("$argon2id$"));
}

/// A point at which two threads wait for each other, once it is in use.
#[derive(Default)]
struct Meeting {
    /// The number of threads at the meeting point; `None` while it is not in use.
    arrived: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Meeting {
    fn arrive(&self) {
        let mut arrived = self.arrived.lock().unwrap();
        let Some(count) = arrived.as_mut() else {
            return;
        };
        *count += 1;
        self.changed.notify_all();
        drop(
            self.changed
                .wait_timeout_while(arrived, Duration::from_secs(20), |arrived| {
                    arrived.is_some_and(|count| count < 2)
                })
                .unwrap(),
        );
    }
}

/// A verifier of imported hashes, which is also a random source. Both wait at the meeting point.
struct MeetingVerifier(Arc<Meeting>);

impl LegacyVerifier for MeetingVerifier {
    fn recognises(&self, stored: &str) -> bool {
        stored.starts_with("$attending$")
    }
    fn verify(&self, password: &str, _: &str) -> bool {
        self.0.arrive();
        password == "violet otter"
    }
}

impl SecureRng for MeetingVerifier {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        self.0.arrive();
        Env::system().rng.fill(bytes)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hashes_with_other_parameters_are_verified_concurrently_with_the_dummy() {
    let meeting = Arc::new(Meeting::default());
    let rng = Arc::new(MeetingVerifier(Arc::clone(&meeting)));
    let hasher = Hasher::new(
        cheap(32),
        2,
        rng,
        vec![Arc::new(MeetingVerifier(Arc::clone(&meeting)))],
    )
    .unwrap();
    for (text, right) in [("violet otter", true), ("wrong", false)] {
        *meeting.arrived.lock().unwrap() = Some(0);
        let verdict = hasher
            .verify(password(text), Some("$attending$".to_owned()))
            .await
            .unwrap();
        assert_eq!(
            *meeting.arrived.lock().unwrap(),
            Some(2),
            "{text}: the two hashes are computed at the same time"
        );
        assert_eq!(
            matches!(verdict, Verdict::Right { rehashed: Some(_) }),
            right,
            "{text}"
        );
    }
}

#[tokio::test]
async fn the_same_password_under_the_same_salt_has_the_same_hash() {
    let hasher = hasher(Vec::new());
    let hash = async |text: &str, salt: u8| {
        hasher
            .hash_with(password(text), [salt; SALT_BYTES])
            .await
            .unwrap()
    };
    let first = hash("violet otter", 1).await;
    assert_eq!(first, hash("violet otter", 1).await);
    assert!(first != hash("violet otter", 2).await && first != hash("violet utter", 1).await);
    assert_eq!(
        hasher
            .verify(password("violet otter"), Some(first))
            .await
            .unwrap(),
        Verdict::Right { rehashed: None }
    );
}

#[tokio::test]
async fn earlier_passwords_are_recognised() {
    let hasher = hasher(vec![Arc::new(Backwards::default())]);
    let earlier = vec![
        hasher.hash(password("first one")).await.unwrap(),
        "$backwards$eno dnoces".to_owned(),
    ];
    for (text, known) in [
        ("first one", true),
        ("second one", true),
        ("third one", false),
    ] {
        assert_eq!(
            hasher
                .is_one_of(password(text), earlier.clone())
                .await
                .unwrap(),
            known,
            "{text}"
        );
    }
    assert!(
        !hasher
            .is_one_of(password("first one"), Vec::new())
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn an_unreadable_hash_is_an_error_and_never_matches() {
    let hasher = hasher(Vec::new());
    let expensive = "$argon2id$v=19$m=4194304,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE";
    for stored in [
        "",
        "plain",
        "$1$x$y",
        "$argon2id$v=19$m=32,t=1,p=1$c2FsdA",
        expensive,
    ] {
        let error = hasher
            .verify(password("plain"), Some(stored.to_owned()))
            .await
            .expect_err(stored);
        assert_eq!(error.code(), Code::Internal, "{stored}");
        assert!(!format!("{error:?}").contains("c2FsdA"));
    }
}

#[test]
fn the_cost_has_a_minimum_and_a_maximum() {
    assert!(Argon2Cost::default().params().is_ok());
    assert!(
        Argon2Cost {
            m: 19_456,
            t: 2,
            p: 1
        }
        .params()
        .is_ok()
    );
    for (m, t, p) in [
        (19_456, 1, 1),
        (19_455, 9, 1),
        (65_536, 0, 1),
        (65_536, 2, 0),
        (u32::MAX, 2, 1),
        (65_536, u32::MAX, 1),
    ] {
        assert!(Argon2Cost { m, t, p }.params().is_err(), "{m} {t} {p}");
    }
}

/// The only cost below the minimum needs the feature `test-util`.
#[test]
fn the_test_cost_needs_the_feature() {
    assert_eq!(
        Argon2Cost { m: 8, t: 1, p: 1 }.params().is_ok(),
        cfg!(feature = "test-util")
    );
    for (m, t, p) in [(9, 1, 1), (8, 2, 1), (16, 1, 2), (7, 1, 1)] {
        assert!(Argon2Cost { m, t, p }.params().is_err(), "{m} {t} {p}");
    }
}

/// A gate at which work waits; it counts arrivals.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    arrivals: AtomicUsize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hashing_is_limited_and_a_full_queue_is_refused() {
    let hasher = hasher(Vec::new());
    let gate = Arc::new(Gate::default());
    let mut tasks = Vec::new();
    for _ in 0..2 + QUEUE {
        let (hasher, gate) = (hasher.clone(), gate.clone());
        tasks.push(tokio::spawn(async move {
            let work = move |_: &Inner| {
                gate.arrivals.fetch_add(1, Ordering::SeqCst);
                let open = gate.open.lock().unwrap();
                drop(gate.opened.wait_while(open, |open| !*open).unwrap());
                Ok(())
            };
            hasher.run(work).await
        }));
    }
    while hasher.0.admitted.available_permits() > 0 || gate.arrivals.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    let refused = hasher.hash(password("violet otter")).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.retry_after_seconds()),
        (Code::Unavailable, Some(1))
    );
    assert_eq!(
        gate.arrivals.load(Ordering::SeqCst),
        2,
        "two hashes are computed at the same time"
    );

    // A call that is dropped while it waits frees its place in the queue.
    tasks.pop().unwrap().abort();
    while hasher.0.admitted.available_permits() == 0 {
        tokio::task::yield_now().await;
    }
    *gate.open.lock().unwrap() = true;
    gate.opened.notify_all();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert!(hasher.hash(password("violet otter")).await.is_ok());
}

#[tokio::test]
async fn hashing_that_panics_is_an_error_and_frees_its_slot() {
    let hasher = hasher(Vec::new());
    for _ in 0..QUEUE * 2 {
        let result = hasher
            .run::<()>(|_| panic!("a panic of a legacy verifier"))
            .await;
        assert_eq!(result.unwrap_err().code(), Code::Internal);
    }
}
