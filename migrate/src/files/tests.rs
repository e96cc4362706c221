use super::*;
use crate::chain::tests::migration;
use std::os::unix::fs::PermissionsExt;

fn write(dir: &Path, list: &[Migration]) {
    let names: Vec<String> = list.iter().map(Migration::file).collect();
    let new: Vec<(&str, &Migration)> = names.iter().map(String::as_str).zip(list).collect();
    let entries: Vec<Entry> = list.iter().map(|m| m.entry(m.file())).collect();
    save(dir, &new, &entries).unwrap();
}

fn two_migrations() -> Vec<Migration> {
    let a = migration(1, "a", None);
    let b = migration(2, "b", Some(&a));
    vec![a, b]
}

#[test]
fn a_saved_folder_is_loaded_with_its_leftover_files() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("deep/migrations");
    assert_eq!(Chain::load(&dir).unwrap(), Chain::empty());
    write(&dir, &two_migrations());
    assert_eq!(Chain::load(&dir).unwrap().migrations(), two_migrations());
    let names = list(&dir).unwrap();
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        ["0001_a.json", "0002_b.json", "chain.json"]
    );

    fs::write(dir.join("0003_left.json"), "{").unwrap();
    fs::write(dir.join("README.md"), "").unwrap();
    assert_eq!(Files::load(&dir).unwrap().leftovers, ["0003_left.json"]);
}

#[test]
fn a_folder_that_cannot_be_written_keeps_its_chain() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    write(dir, &two_migrations()[..1]);
    let before = fs::read_to_string(dir.join(INDEX)).unwrap();
    // A folder has the name of the file, so the rename fails, for root too.
    fs::create_dir(dir.join("0002_b.json")).unwrap();
    let b = &two_migrations()[1];
    let refusal = save(dir, &[("0002_b.json", b)], &[b.entry(b.file())]).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.exit),
        ("file_unwritable", Exit::Planning)
    );
    assert_eq!(fs::read_to_string(dir.join(INDEX)).unwrap(), before);
    // The temporary file is gone.
    let names = list(dir).unwrap();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn a_file_in_place_of_the_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("migrations");
    fs::write(&file, "").unwrap();
    assert_eq!(Files::load(&file).unwrap_err().code, "file_unreadable");
    let refusal = save(&file, &[], &[]).unwrap_err();
    assert_eq!(refusal.code, "file_unwritable");
}

#[test]
fn symbolic_links_out_of_the_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, outside) = (folder.path().join("in"), folder.path().join("out.json"));
    write(&dir, &two_migrations());
    fs::rename(dir.join("0002_b.json"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, dir.join("0002_b.json")).unwrap();
    let refusal = Chain::load(&dir).unwrap_err();
    assert_eq!(refusal.code, "snapshot_invalid");
    assert!(
        refusal
            .message
            .ends_with("the file is a symbolic link to a file outside the folder")
    );
    // A link to a file in the folder is read.
    fs::remove_file(dir.join("0002_b.json")).unwrap();
    fs::rename(&outside, dir.join("b.txt")).unwrap();
    std::os::unix::fs::symlink("b.txt", dir.join("0002_b.json")).unwrap();
    Chain::load(&dir).unwrap();
}

#[test]
fn large_and_unreadable_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    write(dir, &two_migrations());
    let file = dir.join("0002_b.json");
    fs::write(&file, vec![b' '; MAX_BYTES + 1]).unwrap();
    let refusal = Chain::load(dir).unwrap_err();
    assert!(refusal.message.contains("larger than 16 MiB"));
    fs::write(&file, [0xff]).unwrap();
    assert!(Chain::load(dir).unwrap_err().message.contains("not UTF-8"));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(Chain::load(dir).unwrap_err().code, "file_unreadable");
}

#[test]
fn writing_a_document_replaces_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    write_document(&path, &serde_json::json!({"b": 1, "a": [2]})).unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\n  \"a\": [\n    2\n  ],\n  \"b\": 1\n}\n"
    );
}
