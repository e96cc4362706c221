use super::*;
use crate::canonical::json_of;
use crate::files::pretty;
use serde_json::json;

/// A snapshot with one table of this name.
pub(crate) fn snapshot(table: &str) -> Snapshot {
    let json = json!({"format": 2, "entities": {table: {
        "name": "T", "storageName": table, "formerNames": [], "primary": "id",
        "fields": {"id": {"type": "string", "column": "id", "optional": false,
            "default": {"literal": 0.1}, "formerNames": []}},
        "indexes": [], "uniques": [], "counters": [], "checks": []
    }}});
    strict::decode("s", json).unwrap()
}

/// A migration after another one.
pub(crate) fn migration(seq: u64, name: &str, parent: Option<&Migration>) -> Migration {
    let snapshot = snapshot(name);
    Migration {
        format: 2,
        seq,
        name: name.to_owned(),
        parent: parent.map(|parent| parent.snapshot_digest.clone()),
        snapshot_digest: digest_of(&snapshot),
        snapshot,
        changes: vec![Change::CreateEntity {
            entity: name.to_owned(),
        }],
        transforms: vec![TransformRecord {
            name: "tasks::split".to_owned(),
            from: "string".to_owned(),
            to: "integer".to_owned(),
            body: "0".repeat(64),
        }],
    }
}

fn index(migrations: &[Migration]) -> String {
    let migrations = migrations.iter().map(|m| m.entry(m.file())).collect();
    pretty(&Index {
        format: 2,
        migrations,
    })
}

fn read(index: &str, texts: &[(String, String)]) -> Result<Chain, Refusal> {
    Files::read(index, |name| {
        let text = texts.iter().find(|(file, _)| file == name);
        text.map(|(_, text)| Cow::Borrowed(text.as_str()))
            .ok_or_else(|| missing(name))
    })?
    .chain()
}

fn texts(migrations: &[Migration]) -> Vec<(String, String)> {
    migrations.iter().map(|m| (m.file(), pretty(m))).collect()
}

fn three_migrations() -> Vec<Migration> {
    let a = migration(1, "a", None);
    let b = migration(2, "b", Some(&a));
    let c = migration(3, "c", Some(&b));
    vec![a, b, c]
}

#[test]
fn a_written_chain_is_read_unchanged() {
    let migrations = three_migrations();
    let chain = read(&index(&migrations), &texts(&migrations)).unwrap();
    assert_eq!(chain.migrations(), migrations);
    assert_eq!(chain.seq(), 3);
    assert_eq!(chain.get(2), Some(&migrations[1]));
    assert_eq!(
        chain.snapshot_before(2),
        Some(migrations[0].snapshot.clone())
    );
    assert_eq!(chain.snapshot_before(1), Some(Snapshot::empty()));
    assert_eq!(chain.snapshot(), migrations[2].snapshot);
}

#[test]
fn the_chain_of_a_binary_is_read_like_a_folder() {
    let migrations = three_migrations();
    let leaked = |text: String| -> &'static str { text.leak() };
    let files: Vec<(&str, &str)> = texts(&migrations)
        .into_iter()
        .map(|(file, text)| (leaked(file), leaked(text)))
        .collect();
    let mut embedded = Embedded {
        chain: leaked(index(&migrations)),
        files: files.leak(),
        ..Embedded::EMPTY
    };
    let chain = Chain::embedded(&embedded).unwrap();
    assert_eq!(chain.migrations(), migrations);
    embedded.files = &embedded.files[..2];
    let refusal = Chain::embedded(&embedded).unwrap_err();
    assert_eq!(refusal.code, "chain_broken");
    assert_eq!(Chain::embedded(&Embedded::EMPTY).unwrap(), Chain::empty());
}

#[test]
fn formatting_and_key_order_of_a_file_do_not_matter() {
    let migrations = three_migrations();
    let mut texts = texts(&migrations);
    let json = json_of(&migrations[1]);
    let members: Vec<String> = json
        .as_object()
        .unwrap()
        .iter()
        .rev()
        .map(|(key, value)| format!("\t\"{key}\" :\r\n{value}"))
        .collect();
    texts[1].1 = format!("{{{}}}", members.join(" ,"));
    assert_ne!(texts[1].1, pretty(&migrations[1]));
    read(&index(&migrations), &texts).unwrap();
}

#[test]
fn a_changed_value_is_a_digest_mismatch() {
    let migrations = three_migrations();
    for (from, to) in [
        ("\"literal\": 0.1", "\"literal\": 0.2"),
        ("\"tasks::split\"", "\"tasks::merge\""),
    ] {
        let mut texts = texts(&migrations);
        let changed = texts[1].1.replace(from, to);
        assert_ne!(changed, texts[1].1);
        texts[1].1 = changed;
        let refusal = read(&index(&migrations), &texts).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.exit),
            ("digest_mismatch", Exit::Data)
        );
        assert!(refusal.message.starts_with("`0002_b.json`: "));
        assert_eq!(refusal.facts.len(), 2);
    }
}

#[test]
fn a_truncated_file_is_invalid() {
    let migrations = three_migrations();
    let mut texts = texts(&migrations);
    texts[2].1.truncate(200);
    let refusal = read(&index(&migrations), &texts).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.exit),
        ("snapshot_invalid", Exit::Planning)
    );
    assert!(
        refusal.message.contains("`0003_c.json`"),
        "{}",
        refusal.message
    );
}

#[test]
fn a_missing_file_breaks_the_chain() {
    let migrations = three_migrations();
    let texts = texts(&migrations[..2]);
    let refusal = read(&index(&migrations), &texts).unwrap_err();
    assert_eq!((refusal.code, refusal.exit), ("chain_broken", Exit::Data));
    assert_eq!(
        refusal.message,
        "`0003_c.json` is listed in `chain.json` but does not exist"
    );
}

#[test]
fn two_migrations_with_one_parent_are_a_fork() {
    let a = migration(1, "a", None);
    let (b, c) = (migration(2, "b", Some(&a)), migration(2, "c", Some(&a)));
    let refusal = Chain::new(vec![a, b, c]).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.exit),
        ("history_forked", Exit::Planning)
    );
    assert_eq!(
        refusal.message,
        "migrations 2 `b` and 2 `c` follow the same snapshot"
    );
}

#[test]
fn wrong_order_numbers_and_names_are_reported() {
    let [a, b, c] = <[Migration; 3]>::try_from(three_migrations()).unwrap();
    let refused = |list: &[&Migration]| {
        let list = list.iter().map(|m| (*m).clone()).collect();
        let refusal = Chain::new(list).unwrap_err();
        assert_eq!((refusal.code, refusal.exit), ("chain_broken", Exit::Data));
        refusal.message
    };
    assert_eq!(
        refused(&[&a, &c]),
        "migration 3 `c` does not follow the migration before it"
    );
    assert_eq!(
        refused(&[&b, &c]),
        "migration 2 `b` does not follow the migration before it"
    );
    let skipped = Migration {
        seq: 4,
        ..c.clone()
    };
    assert_eq!(
        refused(&[&a, &b, &skipped]),
        "the number of migration 4 `c` is not the previous number plus 1"
    );
    let named = Migration {
        name: "b".to_owned(),
        ..c.clone()
    };
    assert_eq!(refused(&[&a, &b, &named]), "two migrations are named `b`");

    // A baseline replaces earlier migrations.
    let baseline = Migration { parent: None, ..b };
    let chain = Chain::new(vec![baseline, c]).unwrap();
    assert!(chain.migrations()[0].is_baseline());
    assert_eq!(chain.snapshot_before(2), None);
}

#[test]
fn only_plain_file_names_are_read() {
    let one = [migration(1, "a", None)];
    for file in [
        "../a.json",
        "/etc/passwd",
        "a/b.json",
        "",
        ".a",
        "a\\b",
        "chain.json",
        "c:a",
    ] {
        let mut json = serde_json::from_str::<serde_json::Value>(&index(&one)).unwrap();
        json["migrations"][0]["file"] = json!(file);
        let refusal = Files::read(&json.to_string(), |name| {
            panic!("`{name}` is read");
        })
        .unwrap_err();
        assert_eq!(refusal.code, "snapshot_invalid");
        assert!(
            refusal
                .message
                .contains("`$.migrations[0].file`: not a plain file name"),
            "{}",
            refusal.message
        );
    }
}

#[test]
fn only_lower_case_names_of_at_most_63_characters_are_valid() {
    for name in ["a", "add_note_2", &"a".repeat(63)] {
        assert!(is_name(name), "{name}");
    }
    for name in ["", "A", "2a", "_a", "a-b", "a b", "\u{e9}", &"a".repeat(64)] {
        assert!(!is_name(name), "{name}");
    }
}
