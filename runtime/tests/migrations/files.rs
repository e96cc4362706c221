//! Snapshots and the folder of migrations.

use std::fs;

use serde_json::Value as Json;

use crate::AppFolder;

#[test]
fn the_declared_snapshot_is_the_same_bytes_everywhere() {
    let (here, there) = (AppFolder::new(), AppFolder::new());
    let output = here.run("plain", "schema print");
    assert_eq!((output.exit, output.err.as_str()), (0, ""));
    let json: Json = output.json();
    assert_eq!(json["format"], 2);
    assert_eq!(
        output.out,
        format!("{}\n", linchpin::migrate::canonical(&json))
    );
    assert_eq!(there.run("plain", "schema print").out, output.out);
    assert_eq!(there.run("reordered", "schema print").out, output.out);
}

#[test]
fn only_storage_facts_change_the_snapshot() {
    let place = AppFolder::new();
    let plain = place.run("plain", "schema print").out;
    assert_eq!(place.run("validated", "schema print").out, plain);
    for generation in ["indexed", "noted", "renamed", "retyped"] {
        assert_ne!(place.run(generation, "schema print").out, plain);
    }
}

#[test]
fn a_recorded_change_is_one_new_file_and_the_index() {
    let place = AppFolder::recorded("plain");
    let before = place.files();
    let output = place.run("noted", "migrate record add_note");
    assert_eq!(output.exit, 0, "{output:?}");
    assert_eq!(
        output.out,
        "recorded migration 2 `add_note` in migrations/0002_add_note.json\n  add field tasks.note\n"
    );
    let after = place.files();
    let names: Vec<&str> = after.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["0001_start.json", "0002_add_note.json", "chain.json"]
    );
    assert_eq!(after[0], before[0]);

    let again = place.run("noted", "migrate record again");
    assert_eq!((again.exit, again.out.as_str()), (0, "nothing to record\n"));
    assert_eq!(place.files(), after);
    let verified = place.run("noted", "migrate verify --offline");
    assert_eq!(
        (verified.exit, verified.out.as_str()),
        (0, "2 migrations verified\n")
    );
}

#[test]
fn a_rename_is_recorded_once_and_its_annotation_may_stay() {
    let place = AppFolder::recorded("plain");
    let output = place.run("renamed", "migrate record rename");
    assert!(
        output
            .out
            .ends_with("\n  rename field tasks.views to view_count\n"),
        "{output:?}"
    );
    let again = place.run("renamed", "migrate record again");
    assert_eq!((again.exit, again.out.as_str()), (0, "nothing to record\n"));
    assert_eq!(
        again.err,
        "note: renames of earlier migrations, whose `rename_from` may be removed: \
         `tasks.view_count` from `views`\n"
    );
}

#[test]
fn the_format_of_a_file_does_not_matter_but_its_content_does() {
    let place = AppFolder::recorded("plain");
    let file = place.path("0001_start.json");
    let text = fs::read_to_string(&file).unwrap();
    let json: Json = serde_json::from_str(&text).unwrap();
    let members: Vec<String> = json
        .as_object()
        .unwrap()
        .iter()
        .rev()
        .map(|(key, value)| format!("\t\"{key}\":   {value}"))
        .collect();
    fs::write(&file, format!("{{\r\n{}\r\n}}", members.join(",\r\n"))).unwrap();
    let output = place.run("plain", "migrate verify --offline");
    assert_eq!(output.exit, 0, "{output:?}");

    let changed = text.replace("\"name\": \"start\"", "\"name\": \"begin\"");
    let changed = changed.replace("\"optional\": false", "\"optional\": true");
    assert_ne!(changed, text);
    fs::write(&file, changed).unwrap();
    let output = place.run("plain", "migrate verify --offline");
    assert_eq!(output.exit, 5);
    assert!(
        output
            .out
            .starts_with("error digest_mismatch: `0001_start.json`: "),
        "{output:?}"
    );
}

#[test]
fn a_truncated_file_stops_recording() {
    let place = AppFolder::recorded("plain");
    let file = place.path("0001_start.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() / 2]).unwrap();
    let before = place.files();
    let output = place.run("noted", "migrate record x");
    assert_eq!((output.exit, output.out.as_str()), (3, ""));
    assert!(
        output.err.contains("`0001_start.json` is not valid at `$."),
        "{output:?}"
    );
    assert_eq!(place.files(), before);
    let output = place.run("noted", "migrate record x --json");
    assert_eq!(output.json()["error"]["code"], "snapshot_invalid");
}
