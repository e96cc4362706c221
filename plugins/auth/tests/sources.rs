//! Rules about the source of the plugin: one module reads the time and randomness, each rule is
//! implemented in one place, and secrets are never logged.

#![allow(clippy::unwrap_used)] // in a test, a panic reports the failure

use std::path::{Path, PathBuf};

/// All source files except tests.
fn sources() -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut out = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "testing" {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs")
                && !name.ends_with("tests.rs")
                && name != "testing.rs"
            {
                let text = std::fs::read_to_string(&path).unwrap();
                // The rules do not apply to tests within a module.
                let code = text
                    .split("#[cfg(test)]\nmod tests {")
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                out.push((path, code));
            }
        }
    }
    assert!(out.len() > 30, "{} files", out.len());
    out
}

#[test]
fn time_and_randomness_come_from_one_module() {
    const FORBIDDEN: [&str; 9] = [
        "system_now",
        "SystemTime",
        "Instant::now",
        "getrandom",
        "rand::",
        "OsRng",
        "thread_rng",
        "Uuid::new_v",
        "Cx::actor(",
    ];
    for (path, code) in sources() {
        if path.ends_with("env.rs") {
            continue;
        }
        for word in FORBIDDEN {
            let found = code
                .lines()
                .find(|line| line.contains(word) && !line.trim_start().starts_with("//"));
            assert!(
                found.is_none(),
                "{} uses {word}: {}",
                path.display(),
                found.unwrap_or_default()
            );
        }
        // Calls as the system must use the plugin's clock.
        for line in code.lines().filter(|line| line.contains("Cx::system(")) {
            assert!(
                line.contains(".at("),
                "{} calls as the system without the plugin's clock: {line}",
                path.display()
            );
        }
    }
}

/// All audit events.
const EVENTS: [&str; 34] = [
    "auth:user.created",
    "auth:user.updated",
    "auth:user.deleted",
    "auth:login",
    "auth:login.failed",
    "auth:login.throttled",
    "auth:logout",
    "auth:session.created",
    "auth:session.revoked",
    "auth:refresh.reused",
    "auth:email.verified",
    "auth:email.changed",
    "auth:password.changed",
    "auth:password.reset.requested",
    "auth:password.reset",
    "auth:mfa.enabled",
    "auth:mfa.disabled",
    "auth:mfa.failed",
    "auth:mfa.recovery_used",
    "auth:step_up",
    "auth:step_up.failed",
    "auth:passkey.added",
    "auth:passkey.removed",
    "auth:passkey.counter_regression",
    "auth:oauth.linked",
    "auth:oauth.unlinked",
    "auth:account.suspended",
    "auth:account.unsuspended",
    "auth:role.changed",
    "auth:account.deletion.scheduled",
    "auth:account.deletion.cancelled",
    "auth:csrf.failed",
    // Events of recovery codes.
    "auth:mfa.recovery_regenerated",
    "auth:mfa.recovery_ended",
];

#[test]
fn audit_events_in_code_and_in_the_list_are_equal() {
    let mut named = std::collections::BTreeSet::new();
    for (_, code) in sources() {
        for line in code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            named.extend(
                line.split("\"auth:")
                    .skip(1)
                    .filter_map(|rest| rest.split_once('"'))
                    .map(|(name, _)| format!("auth:{name}")),
            );
        }
    }
    let missing: Vec<_> = EVENTS
        .iter()
        .filter(|event| !named.contains(**event))
        .collect();
    let unknown: Vec<_> = named
        .iter()
        .filter(|event| !EVENTS.contains(&event.as_str()))
        .collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "in `EVENTS` but never audited: {missing:?}; audited but not in `EVENTS`: {unknown:?}"
    );
}

#[test]
fn only_the_console_mailer_prints() {
    for (path, code) in sources() {
        for word in ["println!", "eprintln!", "dbg!", "print!("] {
            assert!(
                path.ends_with("local.rs") || !code.contains(word),
                "{} prints with {word}",
                path.display()
            );
        }
    }
}

/// For each rule: a piece of code that implements it, and all files that contain this code.
const RULES: [(&str, &[&str]); 21] = [
    ("sessions.create(", &["flow/login.rs"]),
    ("sessions.delete(", &["flow/end.rs"]),
    (
        "user.session_epoch",
        &[
            "entities.rs",
            "flow/login.rs",
            "flow/oauth.rs",
            "flow/password.rs",
            "routes/mailed.rs",
        ],
    ),
    (".expires_at.is_none_or(", &["entities.rs"]),
    ("deletion_due_at.is_some_and(", &["entities.rs"]),
    ("users.create(", &["flow/create.rs"]),
    ("users.delete(", &["flow/deletion.rs"]),
    ("links.create(", &["flow/links.rs"]),
    ("links.delete(", &["flow/links.rs"]),
    ("audits.create(", &["core.rs"]),
    ("refuse(LAST_CREDENTIAL)", &["flow/ways_in.rs"]),
    (
        "refuse(EMAIL_NOT_VERIFIED)",
        &[
            "flow/ways_in.rs",
            "flow/login.rs",
            "flow/renew.rs",
            "guards.rs",
        ],
    ),
    ("refuse(STEP_UP_REQUIRED)", &["flow/proof.rs", "guards.rs"]),
    ("refuse(DELETION_SCHEDULED)", &["guards.rs"]),
    ("refuse(MFA_SETUP_REQUIRED)", &["guards.rs"]),
    ("refuse(INVALID_REDIRECT)", &["return_target.rs"]),
    (
        "jsonwebtoken::decode",
        &["keys/signing.rs", "oauth/id_token.rs"],
    ),
    ("verify_password(", &["password/hash.rs"]),
    ("Cookie::new(", &["session/cookies.rs"]),
    ("x-forwarded-for", &["core.rs"]),
    // The first file sends this header to providers. Only the second one reads it from requests to
    // the app.
    ("AUTHORIZATION", &["oauth/wire.rs", "session/credential.rs"]),
];

#[test]
fn every_rule_is_in_one_module() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources = sources();
    for (word, places) in RULES {
        let holders = sources
            .iter()
            .filter(|(_, code)| without_comments(code).contains(word));
        let mut found_in: Vec<&Path> = holders
            .map(|(path, _)| path.strip_prefix(&source).unwrap())
            .collect();
        let mut places: Vec<&Path> = places.iter().map(Path::new).collect();
        found_in.sort_unstable();
        places.sort_unstable();
        assert_eq!(found_in, places, "`{word}`");
    }
}

/// The code without comment lines. The parts of a method chain are on one line, however rustfmt
/// breaks it.
fn without_comments(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    for line in code.lines().map(str::trim) {
        if line.starts_with("//") {
            continue;
        }
        if !line.starts_with('.') {
            out.push('\n');
        }
        out.push_str(line);
    }
    out
}

/// The table of the README: every file exists, and every flow is listed.
#[test]
fn the_table_of_rules_is_complete() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let table = readme
        .split("## For reviewers")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .unwrap();
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let mut named = std::collections::BTreeSet::new();
    for row in rows {
        let is_file = |word: &&str| Path::new(word).extension().is_some_and(|kind| kind == "rs");
        let files: Vec<&str> = row.split('`').skip(1).step_by(2).filter(is_file).collect();
        assert!(!files.is_empty(), "no file in {row}");
        for file in files {
            assert!(
                root.join("src").join(file).is_file(),
                "the README names {file}"
            );
            assert!(
                named.insert(file.to_owned()),
                "{file} is in two rows of the table"
            );
        }
    }
    // Files without a rule: the module itself, and shared parts of flows.
    let files_without_rule = ["mod.rs", "parts.rs"];
    for entry in std::fs::read_dir(root.join("src/flow")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(
            files_without_rule.contains(&name.as_str()) || named.contains(&format!("flow/{name}")),
            "flow/{name} is in no row of the table"
        );
    }
}

/// Clients depend on error codes, so the README lists each of them.
#[test]
fn the_table_of_errors_is_complete() {
    let source = include_str!("../src/error.rs");
    let (_, errors) = include_str!("../README.md")
        .split_once("\n## Errors\n")
        .expect("a section of errors");
    let errors = errors.split_once("\n## ").expect("another section").0;
    let codes: Vec<(&str, &str)> = source
        .lines()
        .filter_map(|line| line.trim().split_once(" = ")?.1.split_once(", \""))
        .filter_map(|(status, rest)| Some((status.rsplit('(').next()?, rest.split_once('"')?.0)))
        .filter(|(status, _)| status.parse::<u16>().is_ok())
        .collect();
    assert!(codes.len() >= 30, "{codes:?}");
    for (status, code) in codes {
        let row = errors
            .lines()
            .find(|line| line.contains(&format!("`{code}`")))
            .unwrap_or_else(|| panic!("the README does not list `{code}`"));
        assert!(row.starts_with(&format!("| {status} |")), "{code}: {row}");
    }
}

/// All files that may contain tests, such as `tests/acceptance/tokens.rs` and
/// `src/keys/signing/tests.rs`.
fn test_files() -> Vec<(PathBuf, String)> {
    fn below(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["src", "tests", "../../runtime/tests"] {
        below(&root.join(folder), &mut found);
    }
    found
}

/// Each requirement of ASVS 5.0 of levels 1 and 2 in chapters V6 to V10 has one line, and each test
/// that a line names exists.
#[test]
fn the_list_of_requirements_is_complete() {
    const SECTIONS: [(&str, &[u32]); 26] = [
        ("V6.1", &[1, 2, 3]),
        ("V6.2", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        ("V6.3", &[1, 2, 3, 4]),
        ("V6.4", &[1, 2, 3, 4]),
        ("V6.5", &[1, 2, 3, 4, 5]),
        ("V6.6", &[1, 2, 3]),
        ("V6.8", &[1, 2, 3, 4]),
        ("V7.1", &[1, 2, 3]),
        ("V7.2", &[1, 2, 3, 4]),
        ("V7.3", &[1, 2]),
        ("V7.4", &[1, 2, 3, 4, 5]),
        ("V7.5", &[1, 2]),
        ("V7.6", &[1, 2]),
        ("V8.1", &[1, 2]),
        ("V8.2", &[1, 2, 3]),
        ("V8.3", &[1]),
        ("V8.4", &[1]),
        ("V9.1", &[1, 2, 3]),
        ("V9.2", &[1, 2, 3, 4]),
        ("V10.1", &[1, 2]),
        ("V10.2", &[1, 2]),
        ("V10.3", &[1, 2, 3, 4]),
        ("V10.4", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        ("V10.5", &[1, 2, 3, 4, 5]),
        ("V10.6", &[1, 2]),
        ("V10.7", &[1, 2, 3]),
    ];
    let list = include_str!("../ASVS.md");
    let files = test_files();
    let exists = |file: &str, test: &str| {
        let begins = format!("fn {test}(");
        files.iter().any(|(path, text)| {
            let is_in_file = path.file_stem().is_some_and(|stem| stem == file)
                || path.parent().is_some_and(|folder| folder.ends_with(file));
            is_in_file && text.contains(&begins)
        })
    };
    let mut wanted: Vec<String> = SECTIONS
        .iter()
        .flat_map(|(section, all)| all.iter().map(move |n| format!("{section}.{n}")))
        .collect();
    for row in list.lines().filter(|line| line.starts_with("| V")) {
        let cells: Vec<&str> = row
            .split(" | ")
            .map(|cell| cell.trim_matches(['|', ' ']))
            .collect();
        let [id, _, status, evidence] = cells.as_slice() else {
            panic!("a row needs four columns: {row}")
        };
        let place = wanted
            .iter()
            .position(|wanted| wanted == id)
            .unwrap_or_else(|| panic!("unknown or repeated requirement: {row}"));
        wanted.remove(place);
        let tests: Vec<(&str, &str)> = evidence
            .split('`')
            .skip(1)
            .step_by(2)
            .filter_map(|word| word.split_once("::"))
            .collect();
        assert!(
            ["met", "by setting", "partly", "not met", "does not apply"].contains(status),
            "{row}"
        );
        assert!(
            !tests.is_empty() || *status == "does not apply",
            "the row names no test: {row}"
        );
        for (file, test) in tests {
            assert!(
                exists(file, test),
                "there is no test `{file}::{test}`: {row}"
            );
        }
    }
    assert!(wanted.is_empty(), "requirements without a row: {wanted:?}");
}
