//! A disk that is really full: a small tmpfs under the SQLite file.
//!
//! Mounting needs privileges, so the test runs itself again in a mount namespace: directly as root,
//! otherwise within a user namespace. The mount ends with the process. If the machine allows
//! neither, the test fails with a message.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use linchpin::http::HttpService;
use linchpin::store::Store;
use linchpin::store::sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value as Json, json};
use tower_service::Service;

use super::side::app;

/// The environment variable with the mount point of the tmpfs. Only the inner run has it.
const MOUNT_POINT_VAR: &str = "LINCHPIN_FULL_DISK";

#[test]
fn a_full_disk_refuses_writes_and_serves_reads() {
    if let Some(folder) = std::env::var_os(MOUNT_POINT_VAR) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        return runtime.block_on(on_a_small_disk(Path::new(&folder)));
    }
    let folder = tempfile::tempdir().unwrap();
    let root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    let namespace: &[&str] = if root {
        &["--mount"]
    } else {
        &["--user", "--map-root-user", "--mount"]
    };
    let script = "mount -t tmpfs -o size=4m tmpfs \"$1\" || exit 77; shift; exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(namespace)
        .args(["sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap());
    let done = command
        .args([
            "--exact",
            "full_disk::a_full_disk_refuses_writes_and_serves_reads",
            "--nocapture",
        ])
        .env(MOUNT_POINT_VAR, folder.path())
        .output();
    let done = done.expect("`unshare` of util-linux is needed to mount a small disk");
    let output = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(
        done.status.code() != Some(77) && !output.contains("unshare failed"),
        "no disk of 4 MB can be mounted here: run as root, or allow user namespaces\n{output}"
    );
    assert!(
        done.status.success() && output.contains("1 passed"),
        "{output}"
    );
}

async fn call(
    service: &HttpService,
    method: &str,
    path: &str,
    body: Option<Json>,
) -> (u16, bool, Json) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json");
    let Ok(response) = service
        .clone()
        .call(
            request
                .body(body.map_or_else(Body::empty, |b| Body::from(b.to_string())))
                .unwrap(),
        )
        .await;
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (
        parts.status.as_u16(),
        parts.headers.contains_key("retry-after"),
        serde_json::from_slice(&body).unwrap_or(Json::Null),
    )
}

/// A large record: a few hundred of them fill the disk.
fn large_record(n: usize) -> Json {
    json!({"slug": format!("s{n}"), "meta": "x".repeat(6000)})
}

/// The writes of this process so far: bytes and number.
fn process_writes() -> (u64, u64) {
    let all = std::fs::read_to_string("/proc/self/io").unwrap();
    let number = |name: &str| {
        all.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            .unwrap()
    };
    (number("wchar:"), number("syscw:"))
}

/// Runs 200 concurrent readiness checks. Returns the bytes and the number of writes that they
/// caused, and how many checks succeeded.
async fn readiness_checks(store: &Arc<dyn Store>) -> (u64, u64, usize) {
    let before = process_writes();
    let checks: Vec<_> = (0..200)
        .map(|_| {
            let store = Arc::clone(store);
            tokio::spawn(async move { store.ready().await.is_ok() })
        })
        .collect();
    let ready = futures_util::future::join_all(checks)
        .await
        .into_iter()
        .filter(|ready| *ready.as_ref().unwrap())
        .count();
    let after = process_writes();
    (after.0 - before.0, after.1 - before.1, ready)
}

async fn on_a_small_disk(folder: &Path) {
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![0_u8; 700_000]).unwrap();
    let file = folder.join("test.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(SqliteOptions::new(&file)).unwrap());
    let (_, service) = app(&store, &Arc::new(AtomicI64::new(1_772_600_000_000))).await;
    let (bytes, _, ready) = readiness_checks(&store).await;
    assert!(
        ready == 200 && bytes < 1 << 20,
        "{bytes} bytes were written by 200 readiness checks, {ready} of them successful"
    );

    // Creates records in groups, until no record fits any more.
    let (mut stored, mut refused) = (Vec::new(), Vec::new());
    let mut n = 0;
    while refused.len() < 100 {
        assert!(n < 2000, "the disk does not fill up");
        let some: Vec<usize> = (n..n + 8).collect();
        n += 8;
        let replies = futures_util::future::join_all(
            some.iter()
                .map(|n| call(&service, "POST", "/samples", Some(large_record(*n)))),
        )
        .await;
        for (n, (status, retry, body)) in some.into_iter().zip(replies) {
            if status == 201 {
                stored.push((n, format!("/samples/{}", body["id"].as_str().unwrap())));
            } else {
                assert_eq!(
                    (status, retry, &body["code"]),
                    (503, true, &json!("unavailable")),
                    "{body}"
                );
                refused.push(n);
            }
        }
    }
    // At least 50 records fit, even if each is a commit of its own, which adds about 24 KB to the
    // write-ahead log.
    assert!(stored.len() >= 50, "{}", stored.len());

    // Reads continue. Every acknowledged write is stored; no refused write is.
    for (n, path) in &stored {
        let (status, _, body) = call(&service, "GET", path, None).await;
        assert_eq!((status, &body["slug"]), (200, &json!(format!("s{n}"))));
    }
    for n in &refused {
        assert_eq!(
            call(&service, "GET", &format!("/samples/slug-taken/s{n}"), None)
                .await
                .2,
            json!({"exists": false}),
            "{n}"
        );
    }
    assert_eq!(call(&service, "GET", "/samples?limit=5", None).await.0, 200);

    // The store reports the full disk and leaves no temporary files. It checks the disk at most
    // once per second.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let (_, writes, ready) = readiness_checks(&store).await;
    assert!(
        ready == 0 && writes < 100,
        "{writes} writes by 200 readiness checks, {ready} of them successful, on a full disk"
    );
    let full = store.ready().await.unwrap_err();
    let cause = std::error::Error::source(&full)
        .map(ToString::to_string)
        .unwrap_or_default();
    assert!(
        full.code() == linchpin::Code::Unavailable && cause.contains("cannot grow"),
        "{full}: {cause}"
    );
    assert_eq!(
        std::fs::read_dir(folder)
            .unwrap()
            .filter(|file| file.as_ref().unwrap().path().ends_with("test.db-room"))
            .count(),
        0
    );

    // When there is room again, the store detects it within a second and continues without a
    // restart.
    std::fs::remove_file(&ballast).unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    store.ready().await.unwrap();
    for n in &refused[..10] {
        let (status, _, body) = call(&service, "POST", "/samples", Some(large_record(*n))).await;
        assert_eq!(status, 201, "{body}");
    }
    assert_eq!(call(&service, "DELETE", &stored[0].1, None).await.0, 204);
    store.close().await;
    let connection = rusqlite::Connection::open(&file).unwrap();
    let sound: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    let count: i64 = connection
        .query_row("SELECT count(*) FROM diff_samples", [], |row| row.get(0))
        .unwrap();
    // 10 more records were created and one was deleted.
    assert_eq!(
        (sound.as_str(), count),
        ("ok", i64::try_from(stored.len()).unwrap() + 9)
    );
}
