//! Tests a backfill of many rows that is killed several times.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::sync::LazyLock;

use linchpin_migrate::Phase;

use crate::support::{App, Db};
use crate::{BATCH, KILLED, app, process, run_to_end, steps};

/// The number of rows in the table.
const ROWS: u64 = 100_000;
/// The maximum number of rows in a batch.
const MAX_BATCH: u64 = 10_000;
/// The number of visits by the trial run before each run: it visits 100 rows twice.
const TRIAL_VISITS: u64 = 200;

/// The variable with the path of a file that gets a byte for each visit of a row.
const VISITS: &str = "LINCHPIN_TEST_CRASH_VISITS";

/// The file that counts visits. A counter in memory would be lost with the killed process.
static VISITED: LazyLock<Option<std::fs::File>> = LazyLock::new(|| {
    let path = std::env::var_os(VISITS)?;
    let file = std::fs::File::options().append(true).open(path);
    Some(file.expect("the file of visits"))
});

/// Counts a call of the transform.
pub(crate) fn count_visit() {
    if let Some(mut file) = VISITED.as_ref() {
        file.write_all(b".").expect("written");
    }
}

/// Installs the first migration, and inserts rows.
async fn insert_rows(db: &Db) {
    let all_migrations = app("rows");
    let first = App::new(&[all_migrations.chain.migrations()[0].snapshot.clone()]);
    db.apply(&first, Phase::Contract).await.expect("installed");
    let sql = if db.is_sqlite() {
        format!(
            "WITH RECURSIVE r(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < {ROWS} - 1) \
             INSERT INTO users (id, visits) SELECT printf('%06d', i), i FROM r"
        )
    } else {
        format!(
            "INSERT INTO users (id, visits) SELECT lpad(i::text, 6, '0'), i \
             FROM generate_series(0, {ROWS} - 1) AS r(i)"
        )
    };
    db.execute(&[&sql]).await;
}

/// The number of rows in the first batches of a run. Each batch is twice as large as the one
/// before, up to `MAX_BATCH`.
fn rows_in(batches: u32) -> u64 {
    (0..batches)
        .map(|n| MAX_BATCH.min(BATCH << n.min(10)))
        .sum()
}

/// Each run continues at the cursor of the previous one. Only the rows of a batch that was not
/// committed are visited again.
pub(crate) async fn a_killed_backfill_continues_at_its_cursor(db: Db) {
    insert_rows(&db).await;
    let app = app("rows");
    let steps = steps(&db, &app).await;
    let step = steps.iter().find(|step| step.kind == "transform");
    let id = &step.expect("a transform").id;
    let folder = tempfile::tempdir().expect("a folder");
    let visits = folder.path().join("visits");
    std::fs::write(&visits, "").expect("a file");
    let count = || std::fs::metadata(&visits).expect("the file").len();

    let (mut done, mut expected) = (0, 0);
    for (batches, point) in [
        (5, "before-commit"),
        (7, "after-commit"),
        (1, "before-commit"),
        (1, "after-commit"),
    ] {
        let fault = format!("{id}:batch:{batches}:{point}");
        let mut process = process(&db.url, "rows", Some(&fault));
        let (status, text) = run_to_end(process.env(VISITS, &visits));
        assert_eq!(status.signal(), Some(KILLED), "{fault}: {text}");
        let committed = batches - u32::from(point == "before-commit");
        done += rows_in(committed);
        expected += rows_in(batches) + TRIAL_VISITS;
        let ledger = db.ledger().await.expect("a ledger");
        let step = &ledger.steps[id];
        assert_eq!(step.rows_done, done, "{fault}");
        assert_eq!(step.cursor, Some(format!("\"{:06}\"", done - 1)), "{fault}");
        assert_eq!(count(), expected, "{fault}");
    }
    assert!((ROWS / 4..ROWS * 3 / 4).contains(&done), "{done}");

    let mut process = process(&db.url, "rows", None);
    let (status, text) = run_to_end(process.env(VISITS, &visits));
    assert!(status.success(), "{text}");
    // All rows once, and the two batches that were not committed.
    assert_eq!(count(), ROWS + MAX_BATCH + BATCH + 5 * TRIAL_VISITS);
    db.assert_at_head(&app).await;
    let wrong = "SELECT count(*) FROM users WHERE visits <> CAST(CAST(id AS INTEGER) AS TEXT) \
                 || ' visits'";
    assert_eq!(db.number(wrong).await, 0);
    let all = db.number("SELECT count(*) FROM users").await;
    assert_eq!(all, i64::try_from(ROWS).expect("a number"));
}
