//! A run without the digest of its plan: it changes nothing and does not disclose the digest.

use crate::AppFolder;
use crate::starting::{Database, apply, with_next_migration};

/// The complete state that a run could change: the bytes of a file, or the catalog and the ledger
/// of a server.
fn state(database: &Database) -> Vec<u8> {
    match database {
        Database::Sqlite(folder) => std::fs::read(folder.path().join("tasks.db")).unwrap(),
        Database::Postgres(_) => {
            let facts = [
                "SELECT table_name || column_name || data_type || is_nullable || \
                 coalesce(column_default, '') FROM information_schema.columns \
                 WHERE table_schema = 'public' ORDER BY table_name, column_name",
                "SELECT conrelid::regclass || pg_get_constraintdef(oid) FROM pg_constraint \
                 WHERE connamespace = 'public'::regnamespace ORDER BY 1",
                "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
                "SELECT linchpin_schema::text FROM linchpin_schema",
                "SELECT linchpin_migrations::text FROM linchpin_migrations ORDER BY 1",
                "SELECT linchpin_migration_steps::text FROM linchpin_migration_steps ORDER BY 1",
            ];
            facts
                .map(|sql| database.texts(sql).join("\n"))
                .join("\n")
                .into_bytes()
        }
    }
}

#[test]
fn a_run_without_the_digest_changes_nothing_and_does_not_print_it() {
    for database in Database::each() {
        let url = &database.url();
        let old = AppFolder::recorded("served");
        apply(&old, "served", url, "");
        database.execute("INSERT INTO tasks (id, views, size) VALUES ('1', 0, 's')");
        let new = with_next_migration(&old, "served_dropped");
        let run = |words: &str| {
            let variables = [
                ("LINCHPIN_DATABASE_URL", url.as_str()),
                ("LINCHPIN_LOG", "trace"),
            ];
            new.run_in("served_dropped", words, &variables)
        };
        let plan = run("migrate plan --json").json();
        let digest = plan["result"]["approvalDigest"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(digest.len(), 64);
        let before = state(&database);
        let other = if digest.starts_with('0') { "1" } else { "0" };
        let other = format!("--approve {other}{}", &digest[1..]);
        for (options, exit, code) in [
            ("", 4, "approval_required"),
            ("--json", 4, "approval_required"),
            ("--phase contract", 4, "approval_required"),
            ("--no-backup --json", 4, "approval_required"),
            (&other, 4, "approval_mismatch"),
            (&format!("--json {other}"), 4, "approval_mismatch"),
            ("--dry-run", 0, ""),
            ("--dry-run --json", 0, ""),
        ] {
            let output = run(&format!("migrate apply {options}"));
            assert_eq!(output.exit, exit, "{options}: {output:?}");
            if options.contains("--json") && exit > 0 {
                assert_eq!(output.json()["error"]["code"], code, "{output:?}");
            }
            for text in [&output.out, &output.err] {
                assert!(!text.contains(&digest), "{options}: {output:?}");
            }
            assert!(state(&database) == before, "{options}");
        }
        let output = run(&format!("migrate apply --approve {digest}"));
        assert_eq!(output.exit, 0, "{output:?}");
        assert!(!output.out.contains(&digest) && !output.err.contains(&digest));
        assert!(state(&database) != before);
    }
}
