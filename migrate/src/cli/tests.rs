use super::offline::offline;
use super::output::{document, texts};
use super::*;
use crate::diff::tests::fixture::{field, line, optional, task};
use crate::error::{Exit, Refusal};
use crate::step::Phase;
use linchpin_core::entity::{EntityDesc, Kind};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn parsed(line: &str) -> Invocation {
    parse(&words(line)).unwrap_or_else(|refusal| panic!("{line}: {refusal}"))
}

fn refused(line: &str) -> String {
    let refusal = parse(&words(line)).expect_err(line);
    assert_eq!((refusal.code, refusal.exit), ("usage", Exit::Usage));
    refusal.message
}

#[test]
fn every_command_is_parsed() {
    for spec in super::spec::COMMANDS {
        let mut line = spec.words.join(" ");
        for argument in spec.arguments {
            line.push_str(if *argument == "SEQ" { " 3" } else { " a" });
        }
        if spec.words[1] == "squash" {
            line.push_str(" --until 3");
        }
        let command = parsed(&line).command;
        assert_eq!(command.words(), spec.words.join(" "));
    }
}

#[test]
fn options_are_accepted_in_both_spellings_and_at_any_position() {
    let digest = "0a".repeat(32);
    let line = format!(
        "--json --dir=a/b migrate --url postgres://u:p@h/d apply --phase backfill \
         --approve {digest} --batch 10 --duty=0.25 --max-rate 7 --lock-timeout 500ms \
         --lock-wait 2s --index-wait 10m --wait 1s --max-steps 3 --no-backup --dry-run \
         --plan p.json --color never --quiet --store sqlite"
    );
    let Invocation { command, common } = parsed(&line);
    assert!(common.json && common.quiet);
    assert_eq!(common.folder(), Path::new("a/b"));
    assert_eq!(common.color, Color::Never);
    assert_eq!(common.store.as_deref(), Some("sqlite"));
    assert_eq!(common.url.as_deref(), Some("postgres://u:p@h/d"));
    assert!(!format!("{common:?}").contains("u:p"));
    let Command::Apply(args) = command else {
        panic!("{command:?}");
    };
    assert_eq!(args.phase, Some(Phase::Backfill));
    assert_eq!(args.plan.as_deref(), Some(Path::new("p.json")));
    assert!(args.dry_run);
    let options = args.options;
    assert_eq!(options.approve, Some(digest));
    assert_eq!((options.pace.batch, options.pace.max_rate), (10, Some(7)));
    assert!((options.pace.duty - 0.25).abs() < f64::EPSILON);
    assert_eq!(options.lock_timeout, Duration::from_millis(500));
    assert_eq!(options.lock_wait, Duration::from_secs(2));
    assert_eq!(options.index_wait, Duration::from_mins(10));
    assert_eq!(options.wait, Duration::from_secs(1));
    assert_eq!((options.max_steps, options.backup), (3, false));
}

#[test]
fn wrong_arguments_are_refused_with_a_similar_name() {
    for (line, message) in [
        (
            "migrate plan --chekc",
            "unknown option `--chekc`; did you mean `--check`?",
        ),
        (
            "migrate aply",
            "unknown command `migrate aply`; did you mean `apply`?",
        ),
        (
            "schema prnt",
            "unknown command `schema prnt`; did you mean `print`?",
        ),
        (
            "migrat plan",
            "unknown command `migrat`; did you mean `migrate`?",
        ),
        (
            "migrate",
            "`migrate` needs a command: record, plan, apply, verify, status, adopt, \
            restore, rebase, squash, rollback",
        ),
        ("migrate plan --json --json", "`--json` is given twice"),
        ("migrate plan --dir a --dir=b", "`--dir` is given twice"),
        ("migrate plan --check=yes", "`--check` takes no value"),
        ("migrate plan --out", "`--out` needs a value: --out FILE"),
        (
            "migrate plan --out --json",
            "`--out` needs a value: --out FILE",
        ),
        (
            "migrate plan --approve a",
            "`--approve` is not an option of `migrate plan`",
        ),
        ("migrate record", "`migrate record` needs NAME"),
        (
            "migrate record a b",
            "`migrate record` does not take the argument `b`",
        ),
        (
            "migrate record Add",
            "`Add` is not a migration name: write a lower-case letter, then at \
            most 62 lower-case letters, digits and `_`",
        ),
        ("migrate squash", "`migrate squash` needs `--until SEQ`"),
        ("migrate restore x", "`SEQ` is a number, 1 or more"),
        ("migrate restore 0", "`SEQ` is a number, 1 or more"),
        ("migrate restore +3", "`SEQ` is a number, 1 or more"),
        (
            "migrate apply --batch 0",
            "`--batch` is a number, 1 to 10000",
        ),
        (
            "migrate apply --batch 10001",
            "`--batch` is a number, 1 to 10000",
        ),
        (
            "migrate apply --duty 0",
            "`--duty` is a number over 0 and at most 1",
        ),
        (
            "migrate apply --duty 1.1",
            "`--duty` is a number over 0 and at most 1",
        ),
        (
            "migrate apply --duty NaN",
            "`--duty` is a number over 0 and at most 1",
        ),
        (
            "migrate apply --phase contrct",
            "`--phase` is `expand`, `backfill` or `contract`; did \
            you mean `contract`?",
        ),
        (
            "migrate apply --wait 5",
            "`--wait` is a time such as `500ms`, `2s` or `10m`, not `5`",
        ),
        (
            "migrate apply --wait 5h",
            "`--wait` is a time such as `500ms`, `2s` or `10m`, not `5h`",
        ),
        (
            "migrate apply --wait s",
            "`--wait` is a time such as `500ms`, `2s` or `10m`, not `s`",
        ),
        (
            "migrate verify --offline --data",
            "`--data` cannot be combined with `--offline`: it \
            reads the database",
        ),
        ("schema diff a", "`schema diff` needs FILE_B"),
        (
            "migrate status --color red",
            "`--color` is `auto`, `always` or `never`",
        ),
    ] {
        assert_eq!(refused(line), message, "{line}");
    }
}

#[test]
fn an_incomplete_approval_digest_is_refused() {
    let digest = "0123456789abcdef".repeat(4);
    parsed(&format!("migrate apply --approve {digest}"));
    let message = "`--approve` is a digest: 64 lower-case hexadecimal digits";
    for wrong in [
        digest.to_uppercase(),
        digest[..12].to_owned(),
        format!(" {digest}"),
        format!("{digest} "),
        format!("{digest}0"),
        String::new(),
    ] {
        let args = ["migrate", "apply", "--approve", wrong.as_str()].map(str::to_owned);
        let refusal = parse(&args).unwrap_err();
        assert_eq!(
            (refusal.message.as_str(), refusal.exit),
            (message, Exit::Usage)
        );
    }
}

#[test]
fn passwords_are_never_in_messages() {
    for line in [
        "migrate plan --ulr=postgres://u:s3cret@h/d",
        "migrate plan postgres://u:s3cret@h/d",
        "postgres://u:s3cret@h/d migrate plan",
        "migrate postgres://u:s3cret@h/d?password=s3cret",
    ] {
        assert!(!refused(line).contains("s3cret"), "{line}");
    }
    for (url, shown) in [
        ("postgres://u:p@h:1/d?x=y#z", "postgres://h:1/d"),
        ("postgres://u:a@b/c@h/d", "postgres://h/d"),
        ("postgres://h/d", "postgres://h/d"),
        ("sqlite:a.db", "sqlite:a.db"),
    ] {
        assert_eq!(shown_url(url), shown);
    }
}

/// Runs a command that needs no database. Returns the exit status, standard output, standard error
/// and the JSON document.
fn run(
    line: &str,
    dir: &Path,
    entities: &[&EntityDesc],
) -> (u8, String, String, serde_json::Value) {
    let line = format!("{line} --dir {}", dir.display());
    let invocation = parsed(&line);
    let context = Context {
        entities: Some(entities),
        embedded: None,
    };
    let done = offline(&invocation, &context).expect("the command needs no database");
    let (out, err) = texts(&done, false, false);
    let document = document(invocation.command.words(), &done);
    let exit = u8::try_from(document["exit"].as_u64().unwrap()).unwrap();
    assert_eq!(document["ok"], json!(exit == 0));
    assert_eq!(document.get("error").is_some(), done.is_err());
    (exit, out, err, document)
}

#[test]
fn recording_prints_the_changes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let plain = task(&[]);
    let (exit, out, err, document) = run("migrate record create_tasks", dir, &[&plain]);
    let file = dir.join("0001_create_tasks.json");
    assert_eq!((exit, err.as_str()), (0, ""));
    assert_eq!(
        out,
        format!(
            "recorded migration 1 `create_tasks` in {}\n  create entity tasks\n",
            file.display()
        )
    );
    assert_eq!(document["result"]["seq"], 1);
    assert_eq!(
        document["result"]["changes"],
        json!([{"kind": "createEntity", "entity": "tasks"}])
    );
    let (exit, out, ..) = run("migrate record again", dir, &[&plain]);
    assert_eq!((exit, out.as_str()), (0, "nothing to record\n"));
    let note = task(&[optional(field("note", Kind::String))]);
    let (exit, out, ..) = run("migrate record add_note --dry-run", dir, &[&note]);
    assert_eq!(exit, 0);
    assert!(out.starts_with("would record migration 2 `add_note` in "));
    assert!(out.ends_with("\n  add field tasks.note\n"));
    assert!(!dir.join("0002_add_note.json").exists());
}

#[test]
fn planning_errors_are_printed_with_their_source_lines() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    run(
        "migrate record one",
        dir,
        &[&task(&[field("views", Kind::Integer)])],
    );
    let view_count = line(14, field("view_count", Kind::Integer)).rename_from(&["veiws"]);
    let size = line(15, field("size", Kind::String));
    let one = task(&[view_count]);
    let (exit, out, err, document) = run("migrate record two", dir, &[&one]);
    assert_eq!((exit, out.as_str()), (3, ""));
    assert_eq!(
        err,
        "linchpin: field `view_count` is renamed from `veiws`, which the previous snapshot (1 \
         `one`) does not have; it has: `id`, `views`; did you mean `views`?\n  \
         entity `Task`, field `view_count`  (src/tasks.rs:14)\n  \
         help: write the name that the previous migration recorded\n"
    );
    assert_eq!(
        document["error"],
        json!({
            "code": "rename_source_missing",
            "message": "field `view_count` is renamed from `veiws`, which the previous snapshot \
                (1 `one`) does not have; it has: `id`, `views`; did you mean `views`?",
            "details": [{
                "message": "entity `Task`, field `view_count`",
                "at": "src/tasks.rs:14",
            }],
            "help": "write the name that the previous migration recorded",
        })
    );
    let (_, _, err, document) = run("migrate record two", dir, &[&task(&[view_count, size])]);
    assert!(err.starts_with("linchpin: 2 declarations need a correction\n"));
    assert!(err.contains("\n  required_needs_value: entity `Task`, field `size`: "));
    assert_eq!(
        document["error"]["details"][1]["code"],
        "required_needs_value"
    );
    assert_eq!(document["error"]["details"][1]["at"], "src/tasks.rs:15");
}

#[test]
fn offline_verification_reports_all_problems() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let fields = |count: usize| {
        let names = ["a", "b", "c", "d"];
        let all: Vec<_> = names[..count]
            .iter()
            .map(|name| optional(field(name, Kind::String)))
            .collect();
        task(&all)
    };
    for (count, name) in [(0, "zero"), (1, "one"), (2, "two")] {
        run(&format!("migrate record {name}"), dir, &[&fields(count)]);
    }
    let (exit, out, ..) = run("migrate verify --offline", dir, &[&fields(2)]);
    assert_eq!((exit, out.as_str()), (0, "3 migrations verified\n"));

    let (exit, out, _, document) = run("migrate verify --offline", dir, &[&fields(3)]);
    assert_eq!(exit, 5);
    assert!(out.contains(
        "error unrecorded_changes: the declarations differ from the head of the chain: add field \
         tasks.c\n"
    ));
    assert_eq!(document["ok"], false);
    assert_eq!(
        document["result"]["findings"][0]["code"],
        "unrecorded_changes"
    );

    // All three are reported: two damaged files and a leftover one.
    for file in ["0001_zero.json", "0003_two.json"] {
        let path = dir.join(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen("\"string\"", "\"number\"", 1)).unwrap();
    }
    fs::write(dir.join("0009_old.json"), "{}").unwrap();
    let (exit, out, _, document) = run("migrate verify --offline", dir, &[&fields(2)]);
    assert_eq!(exit, 5);
    let codes: Vec<&str> = document["result"]["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["code"].as_str().unwrap())
        .collect();
    assert_eq!(
        codes,
        ["digest_mismatch", "digest_mismatch", "leftover_file"]
    );
    assert!(
        out.contains("error digest_mismatch: `0001_zero.json`: "),
        "{out}"
    );
    assert!(
        out.contains("info leftover_file: `0009_old.json` is not listed"),
        "{out}"
    );
}

#[test]
fn snapshots_are_printed_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (before, after) = (task(&[]), task(&[optional(field("note", Kind::String))]));
    let (exit, out, ..) = run("schema print", dir, &[&before]);
    assert_eq!(exit, 0);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out, format!("{}\n", crate::canonical(&json)));
    assert_eq!(json["format"], 2);
    let (a, b) = (dir.join("a.json"), dir.join("b.json"));
    run(
        &format!("schema print --out {}", a.display()),
        dir,
        &[&before],
    );
    run(
        &format!("schema print --out {}", b.display()),
        dir,
        &[&after],
    );
    let compare = format!("schema diff {} {}", a.display(), b.display());
    let (exit, out, ..) = run(&compare, dir, &[]);
    assert_eq!((exit, out.as_str()), (0, "  add field tasks.note\n"));
    let compare = format!("schema diff {} {}", a.display(), a.display());
    let (_, out, ..) = run(&compare, dir, &[]);
    assert_eq!(out, "the snapshots are equal\n");
    // A saved snapshot in place of the declarations.
    let record = format!("migrate record one --schema {}", a.display());
    let (exit, ..) = run(&record, dir, &[]);
    assert_eq!(exit, 0);
    let (exit, ..) = run("migrate verify --offline", dir, &[&before]);
    assert_eq!(exit, 0);
}

#[test]
fn database_commands_are_not_carried_out_offline() {
    let context = Context::default();
    for line in [
        "migrate plan",
        "migrate apply",
        "migrate verify",
        "migrate status",
        "migrate adopt",
        "migrate restore 1",
        "migrate rollback",
    ] {
        assert!(offline(&parsed(line), &context).is_none(), "{line}");
    }
    // Without declarations a command that needs them is a usage error.
    let done = offline(&parsed("schema print"), &context).unwrap();
    assert_eq!(done.unwrap_err().exit, Exit::Usage);
}

#[test]
fn json_documents_of_all_outcomes_have_the_same_members() {
    let done = Ok(Outcome {
        exit: Exit::Pending,
        ..Outcome::new("", json!({ "steps": 1 }))
    });
    assert_eq!(
        document("migrate plan", &done),
        json!({ "ok": true, "command": "migrate plan", "exit": 10, "result": { "steps": 1 } })
    );
    let refusal = Refusal::new("usage", Exit::Usage, "no").help("yes");
    assert_eq!(
        document("migrate plan", &Err(refusal)),
        json!({
            "ok": false, "command": "migrate plan", "exit": 2,
            "error": { "code": "usage", "message": "no", "details": [], "help": "yes" },
        })
    );
    assert_eq!(
        super::parse::outline(&words("migrate plan --json --chekc")),
        ("migrate plan".to_owned(), true)
    );
}

#[test]
fn help_names_every_command_and_option() {
    let done = offline(&parsed("migrate --help"), &Context::default())
        .unwrap()
        .unwrap();
    for spec in super::spec::COMMANDS {
        assert!(done.text.contains(&spec.words.join(" ")), "{}", done.text);
    }
    let all = super::spec::COMMANDS.iter().flat_map(|spec| spec.options);
    for name in all.chain(super::spec::COMMON) {
        assert!(
            super::spec::OPTIONS.iter().any(|opt| opt.name == *name),
            "{name}"
        );
    }
}

#[test]
fn help_of_one_command_lists_its_options() {
    let help = |line: &str| {
        let done = offline(&parsed(line), &Context::default());
        done.expect("offline").expect("help").text
    };
    let text = help("migrate apply --help");
    assert!(
        text.contains("--approve") && text.contains("--max-rate"),
        "{text}"
    );
    assert!(!text.contains("migrate squash"), "{text}");
    assert!(help("migrate squash -h").contains("--until"));
    assert_eq!(help("migrate bogus --help"), help("migrate --help"));
}
