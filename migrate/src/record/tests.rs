use super::*;
use crate::diff::tests::fixture::{field, optional, task};
use crate::files::{pretty, write_document};
use linchpin_core::entity::Kind;
use std::fs;

fn recorded(dir: &Path, name: &str, entities: &[&EntityDesc]) -> Migration {
    match record(dir, name, Declarations::Entities(entities), false).unwrap() {
        Recorded::Migration { migration, .. } => *migration,
        nothing @ Recorded::Nothing { .. } => panic!("{nothing:?}"),
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The texts of all files.
fn texts(dir: &Path) -> Vec<(String, String)> {
    let text = |name: String| (name.clone(), fs::read_to_string(dir.join(name)).unwrap());
    names(dir).into_iter().map(text).collect()
}

#[test]
fn recording_writes_one_file_and_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let dir = &folder.path().join("migrations");
    let (plain, noted) = (task(&[]), task(&[optional(field("note", Kind::String))]));
    let first = recorded(dir, "create_tasks", &[&plain]);
    assert_eq!((first.seq, &first.parent), (1, &None));
    let before = texts(dir);
    let second = recorded(dir, "add_note", &[&noted]);
    assert_eq!(second.seq, 2);
    assert_eq!(second.parent, Some(first.snapshot_digest.clone()));
    assert_eq!(
        names(dir),
        ["0001_create_tasks.json", "0002_add_note.json", "chain.json"]
    );
    assert!(texts(dir).contains(&before[0]), "an older file has changed");
    assert_eq!(Chain::load(dir).unwrap().migrations(), [first, second]);

    let again = record(dir, "again", Declarations::Entities(&[&noted]), false).unwrap();
    assert_eq!(again, Recorded::Nothing { notes: vec![] });
    assert_eq!(names(dir).len(), 3);
}

#[test]
fn an_app_without_entities_has_nothing_to_record() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let nothing = record(dir, "a", Declarations::Entities(&[]), false).unwrap();
    assert_eq!(nothing, Recorded::Nothing { notes: vec![] });
    assert!(names(dir).is_empty());
}

#[test]
fn a_dry_run_writes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let trial = record(dir, "a", Declarations::Entities(&[&task(&[])]), true).unwrap();
    let Recorded::Migration { written, file, .. } = trial else {
        panic!("a dry run returns the migration");
    };
    assert_eq!((written, file.as_str()), (false, "0001_a.json"));
    assert!(names(dir).is_empty());
}

#[test]
fn refused_recordings_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    recorded(dir, "create_tasks", &[&task(&[])]);
    let before = texts(dir);
    let owner = task(&[field("owner", Kind::String)]);
    let refused = |name: &str, desc: &EntityDesc| {
        record(dir, name, Declarations::Entities(&[desc]), false).unwrap_err()
    };
    let refusal = refused("x", &owner);
    assert_eq!(refusal.code, "required_needs_value");
    let note = task(&[optional(field("note", Kind::String))]);
    assert_eq!(refused("create_tasks", &note).code, "name_taken");
    assert_eq!(texts(dir), before);

    // A truncated file is refused, and not read as an empty one.
    let file = dir.join("0001_create_tasks.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() / 2]).unwrap();
    let before = texts(dir);
    let refusal = refused("x", &note);
    assert_eq!(
        (refusal.code, refusal.exit),
        ("snapshot_invalid", Exit::Planning)
    );
    assert_eq!(texts(dir), before);
}

#[test]
fn a_saved_snapshot_can_be_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let saved = Snapshot::of([&task(&[])]);
    let done = record(dir, "a", Declarations::Saved(&saved), false).unwrap();
    assert!(matches!(done, Recorded::Migration { .. }));
    let same = record(dir, "b", Declarations::Entities(&[&task(&[])]), false).unwrap();
    assert!(matches!(same, Recorded::Nothing { .. }));
}

/// Writes a folder after a merge of two branches. Each branch recorded one migration after the same
/// first one, and `chain.json` lists both. Returns the entity with the fields of both branches, and
/// the one with the field of the first branch only.
fn merged(dir: &Path) -> (EntityDesc, EntityDesc) {
    let note = || optional(field("note", Kind::String));
    let size = || optional(field("size", Kind::Integer));
    recorded(dir, "create_tasks", &[&task(&[])]);
    let other = tempfile::tempdir().unwrap();
    for (name, text) in texts(dir) {
        fs::write(other.path().join(name), text).unwrap();
    }
    recorded(dir, "add_note", &[&task(&[note()])]);
    recorded(other.path(), "add_size", &[&task(&[size()])]);
    fs::copy(
        other.path().join("0002_add_size.json"),
        dir.join("0002_add_size.json"),
    )
    .unwrap();
    let (ours, theirs) = (
        Files::load(dir).unwrap(),
        Files::load(other.path()).unwrap(),
    );
    let mut index = crate::chain::Index {
        format: 2,
        migrations: entries(&ours),
    };
    index.migrations.push(entries(&theirs)[1].clone());
    write_document(&dir.join(INDEX), &crate::canonical::json_of(&index)).unwrap();
    (task(&[note(), size()]), task(&[note()]))
}

#[test]
fn a_forked_migration_is_recorded_again_after_the_other_one() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (both, _) = merged(dir);
    let declared = Declarations::Entities(&[&both]);
    let refusal = record(dir, "x", declared, false).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.exit),
        ("history_forked", Exit::Planning)
    );
    assert_eq!(
        rebase(dir, "add_sizes", declared, false)
            .unwrap_err()
            .message,
        "the chain has no migration `add_sizes`; did you mean `add_size`?"
    );
    let done = rebase(dir, "add_size", declared, false).unwrap();
    let Recorded::Migration {
        migration,
        file,
        replaces,
        ..
    } = done
    else {
        panic!("nothing was recorded");
    };
    assert_eq!((migration.seq, file.as_str()), (3, "0003_add_size.json"));
    assert_eq!(
        migration.changes,
        [Change::AddField {
            entity: "tasks".to_owned(),
            field: "size".to_owned(),
            transform: None,
        }]
    );
    assert_eq!(replaces, ["add_size"]);
    assert_eq!(Chain::load(dir).unwrap().seq(), 3);
    assert!(Files::load(dir).unwrap().leftovers.is_empty());
    let again = record(dir, "y", declared, false).unwrap();
    assert!(matches!(again, Recorded::Nothing { .. }));
}

#[test]
fn a_forked_migration_without_further_changes_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (_, one) = merged(dir);
    let done = rebase(dir, "add_size", Declarations::Entities(&[&one]), false).unwrap();
    assert!(matches!(done, Recorded::Nothing { .. }));
    assert_eq!(Chain::load(dir).unwrap().seq(), 2);
}

#[test]
fn squashing_leaves_one_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let fields = [
        optional(field("a", Kind::String)),
        optional(field("b", Kind::String)).rename_from(&["a"]),
        optional(field("b", Kind::String)),
    ];
    recorded(dir, "one", &[&task(&fields[..1])]);
    recorded(dir, "two", &[&task(&fields[1..2])]);
    let last = optional(field("c", Kind::String));
    recorded(dir, "three", &[&task(&[fields[2], last])]);
    let head = Chain::load(dir).unwrap().snapshot();

    assert_eq!(squash(dir, 4, false).unwrap_err().code, "migration_unknown");
    let before = texts(dir);
    assert!(squash(dir, 2, true).unwrap().is_some());
    assert_eq!(texts(dir), before);
    let baseline = squash(dir, 2, false).unwrap().unwrap();
    assert_eq!((baseline.seq, baseline.name.as_str()), (2, "baseline"));
    let former = &baseline.snapshot.entities["tasks"].fields["b"].former_names;
    assert_eq!(former, &["a"]);
    assert_eq!(
        names(dir),
        ["0002_baseline.json", "0003_three.json", "chain.json"]
    );
    let chain = Chain::load(dir).unwrap();
    assert_eq!(chain.snapshot(), head);
    assert!(chain.migrations()[0].is_baseline());
    assert_eq!(squash(dir, 2, false).unwrap(), None);
}

#[test]
fn restoring_a_migration_replaces_an_altered_file() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    recorded(dir, "one", &[&task(&[])]);
    let note = optional(field("note", Kind::String));
    let two = recorded(dir, "two", &[&task(&[note])]);
    let before = texts(dir);
    for damage in ["{".to_owned(), pretty(&two).replace("note", "memo")] {
        fs::write(dir.join("0002_two.json"), damage).unwrap();
        Chain::load(dir).unwrap_err();
        assert_eq!(restore(dir, &two).unwrap(), "0002_two.json");
        assert_eq!(texts(dir), before);
    }
    fs::remove_file(dir.join("0002_two.json")).unwrap();
    restore(dir, &two).unwrap();
    assert_eq!(texts(dir), before);
    let other = Migration { seq: 9, ..two };
    assert_eq!(restore(dir, &other).unwrap_err().code, "migration_unknown");
}
