//! Tests that check the statements of a plan for Postgres with the linter squawk. `cargo xtask` or
//! `python3 -m pip install squawk-cli` installs it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use linchpin_core::entity::TransformDesc;
use linchpin_core::schema::Snapshot;
use linchpin_migrate::Phase;
use serde_json::{Value as Json, json};

use crate::support::{App, Db, Link, index, people, snapshot, to_text};

/// Rules of the linter that do not apply, each with the reason.
const EXCLUDED: [(&str, &str); 2] = [
    (
        "prefer-robust-stmts",
        "the ledger records which objects exist; a step is checked before it runs again",
    ),
    (
        "require-timeout-settings",
        "the engine sets lock_timeout on its connection before each step",
    ),
];

fn first() -> Snapshot {
    snapshot(&[
        (
            "users",
            json!({
                "name": { "type": "string" },
                "age": { "type": "integer", "optional": true },
                "email": { "type": "string", "optional": true },
                "level": { "type": "enum", "values": ["a", "b"] },
            }),
            json!({ "indexes": [index("ix_users_age", &["age"])] }),
        ),
        ("gone", json!({ "text": { "type": "string" } }), json!({})),
    ])
}

/// Adds one entity, drops one, and changes the fields and indexes of the third.
fn second() -> Snapshot {
    snapshot(&[
        (
            "users",
            json!({
                "title": { "type": "string", "formerNames": ["name"] },
                "email": { "type": "string", "default": { "literal": "" } },
                "level": { "type": "enum", "values": ["a", "b", "c"] },
                "score": { "type": "number", "default": { "literal": 1.5 } },
                "note": { "type": "string", "optional": true },
                "token": { "type": "string", "default": { "kind": "uuid" } },
            }),
            json!({
                "indexes": [index("ix_users_note", &["note"])],
                "uniques": [index("ux_users_title", &["title"])],
            }),
        ),
        (
            "posts",
            json!({ "text": { "type": "string" } }),
            json!({ "indexes": [index("ix_posts_text", &["text"])] }),
        ),
    ])
}

/// The statements of the steps whose comment names one of the phases.
fn statements_of(text: &str, phases: &[&str]) -> String {
    let mut out = String::new();
    let mut chosen = false;
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("-- ") {
            let phase = comment.split(' ').nth(1).expect("a phase");
            chosen = phases.contains(&phase);
        }
        if chosen {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// A violated rule, the kind of the step, and the statement.
type Finding = (String, String, String);

/// Runs the linter and returns its findings.
fn lint(sql: &str) -> Vec<Finding> {
    let mut child = Command::new("squawk")
        .args(["--reporter", "json", "--pg-version", "13.0"])
        .arg(format!(
            "--exclude={}",
            EXCLUDED.map(|(rule, _)| rule).join(",")
        ))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("squawk is installed: `python3 -m pip install squawk-cli`");
    let mut input = child.stdin.take().expect("an input");
    input.write_all(sql.as_bytes()).expect("written");
    drop(input);
    let output = child.wait_with_output().expect("an output");
    let found: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines: Vec<&str> = sql.lines().collect();
    let read = |finding: &Json| {
        let at = finding["line"].as_u64().expect("a line");
        let at = usize::try_from(at).expect("a line");
        let mut before = lines[..at].iter().rev();
        let kind = before.find_map(|line| line.strip_prefix("-- ")?.split(' ').nth(2));
        let rule = finding["rule_name"].as_str().expect("a rule");
        (
            rule.to_owned(),
            kind.unwrap_or_default().to_owned(),
            lines[at].to_owned(),
        )
    };
    let found = found.as_array().expect("a list");
    found.iter().map(read).collect()
}

/// Whether a finding outside of contract steps is harmless.
fn is_harmless((rule, kind, statement): &Finding) -> bool {
    match (rule.as_str(), kind.as_str()) {
        // No session uses a table that the same plan creates.
        ("require-concurrent-index-creation", "createIndex") => {
            statement.contains(" ON \"posts\" ")
        }
        // The new check accepts more than the former one. The step runs only after all older
        // binaries have stopped.
        ("ban-drop-constraint" | "renaming-object", "replaceCheck") => true,
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_outside_of_contract_steps_do_not_block_other_sessions() {
    let db = Db::postgres();
    let before = App::new(&[first()]);
    db.apply(&before, Phase::Contract).await.expect("installed");
    let app = App::new(&[first(), second()]);
    let done = db
        .command(&app, "migrate plan --sql")
        .await
        .expect("a plan");
    let text = done.text;
    for kind in [
        "addColumn",
        "createIndex",
        "createTable",
        "renameColumn",
        "dropTable",
    ] {
        assert!(text.contains(&format!(" {kind} ")), "{kind} in\n{text}");
    }
    let open = statements_of(&text, &["expand", "backfill"]);
    let mut found = lint(&open);
    found.retain(|finding| !is_harmless(finding));
    assert_eq!(found, [], "{open}");
    let contract = statements_of(&text, &["contract"]);
    let mut rules: Vec<String> = lint(&contract).into_iter().map(|(rule, ..)| rule).collect();
    rules.sort();
    rules.dedup();
    assert_eq!(
        rules,
        [
            "ban-drop-column",
            "ban-drop-constraint",
            "ban-drop-table",
            "renaming-column"
        ],
        "{contract}"
    );

    // Proof that the linter reports statements that block.
    let careless = "ALTER TABLE users ADD COLUMN x text NOT NULL;\nCREATE INDEX i ON users (x);\n";
    let rules: Vec<String> = lint(careless).into_iter().map(|(rule, ..)| rule).collect();
    assert_eq!(rules.len(), 2, "{rules:?}");
}

static TO_TEXT: TransformDesc = people::to_text(to_text);

/// A field has an earlier and a new column until the contract phase, and both binaries serve.
#[tokio::test(flavor = "multi_thread")]
async fn statements_of_a_field_with_two_columns_do_not_block_before_the_contract_phase() {
    let views = |kind: &str| {
        let fields = json!({ "views": { "type": kind }, "title": { "type": "string" } });
        snapshot(&[("posts", fields, json!({}))])
    };
    let second = Link::converted(views("string"), ("posts", "views"), &TO_TEXT);
    let db = Db::postgres();
    let before = App::new(&[views("integer")]);
    db.apply(&before, Phase::Contract).await.expect("installed");
    db.execute(&["INSERT INTO posts (id, views, title) VALUES ('a', 1, 'A')"])
        .await;
    let app = App::of_links([Link::plain(views("integer")), second], &[&TO_TEXT]);
    let done = db.command(&app, "migrate plan --sql").await;
    let plan = done.unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!(plan.result["migrations"][0]["overlap"], json!(true));
    let text = plan.text;
    assert!(text.contains("views__next"), "{text}");

    let open = statements_of(&text, &["expand", "backfill"]);
    assert!(open.contains(" transform "), "{open}");
    assert_eq!(lint(&open), [], "{open}");
    let contract = statements_of(&text, &["contract"]);
    let mut rules: Vec<String> = lint(&contract).into_iter().map(|(rule, ..)| rule).collect();
    rules.sort();
    rules.dedup();
    assert!(
        rules.contains(&"ban-drop-column".to_owned()),
        "{rules:?} {contract}"
    );
}
