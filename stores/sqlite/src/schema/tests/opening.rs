//! Tests of files that cannot be used as a database.

use std::path::Path;

use linchpin_core::store::Store;

use super::{ddl, execute_on_file, file};
use crate::{SqliteOptions, SqliteStore};

fn open_error(path: &Path) -> String {
    let error = SqliteStore::open(SqliteOptions::new(path)).expect_err("refused");
    std::error::Error::source(&error)
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_a_database_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes.txt");
    let text = "not a database, but long enough to be looked at ".repeat(40);
    std::fs::write(&path, &text).expect("written");
    let error = open_error(&path);
    assert!(
        error.contains("notes.txt: it is not a SQLite database"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), text);

    let error = open_error(&folder.path().join("no/such/test.db"));
    assert!(
        error.contains("there is no folder") && error.contains("no/such"),
        "{error}"
    );
    assert!(!folder.path().join("no").exists());
    let error = open_error(folder.path());
    assert!(error.contains("it is a folder"), "{error}");
    for name in ["", ":memory:", "file:test.db?mode=ro"] {
        let error = open_error(Path::new(name));
        assert!(error.contains("it must be the name of a file"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_a_newer_format_is_refused() {
    // Bytes 18 and 19 of the header: the versions needed for writes and reads. Byte 47: the format
    // of the schema.
    for (at, value, expected) in [
        (18, 3, "newer format that this version can only read"),
        (19, 3, "or it has a newer format"),
        (47, 9, "unsupported"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        execute_on_file(&file(&folder), &ddl());
        let mut bytes = std::fs::read(file(&folder)).expect("bytes");
        bytes[at] = value;
        std::fs::write(file(&folder), &bytes).expect("written");
        let error = open_error(&file(&folder));
        assert!(error.contains(expected), "byte {at}: {error}");
        assert!(
            std::fs::read(file(&folder)).expect("bytes") == bytes,
            "the file was changed"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    execute_on_file(&file(&folder), &ddl());
    let mut permissions = std::fs::metadata(file(&folder))
        .expect("metadata")
        .permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(file(&folder), permissions).expect("set");
    // The root user can write to a read-only file, so it is not refused.
    if std::fs::OpenOptions::new()
        .append(true)
        .open(file(&folder))
        .is_ok()
    {
        SqliteStore::open(SqliteOptions::new(file(&folder)))
            .expect("it can be written")
            .close()
            .await;
    } else {
        let error = open_error(&file(&folder));
        assert!(error.contains("it is read-only"), "{error}");
    }
}
