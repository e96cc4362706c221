//! What no code of the plugin does: time and randomness have one door, and nothing is written down that must not be seen.

#![allow(clippy::unwrap_used)] // in a test, stopping is the report

use std::path::{Path, PathBuf};

/// Every source file but those of tests.
fn sources() -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut out = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "testing" {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && !name.ends_with("tests.rs") && name != "testing.rs" {
                let text = std::fs::read_to_string(&path).unwrap();
                // Tests within a module may do as they like.
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
                out.push((path, code));
            }
        }
    }
    assert!(out.len() > 30, "{} files", out.len());
    out
}

#[test]
fn time_and_randomness_have_one_door() {
    const FORBIDDEN: [&str; 9] =
        ["system_now", "SystemTime", "Instant::now", "getrandom", "rand::", "OsRng", "thread_rng", "Uuid::new_v", "Cx::actor("];
    for (path, code) in sources() {
        if path.ends_with("env.rs") {
            continue;
        }
        for word in FORBIDDEN {
            let found = code.lines().find(|line| line.contains(word) && !line.trim_start().starts_with("//"));
            assert!(found.is_none(), "{} uses {word}: {}", path.display(), found.unwrap_or_default());
        }
        // The instant of a system call is that of the plugin's clock.
        for line in code.lines().filter(|line| line.contains("Cx::system(")) {
            assert!(line.contains(".at("), "{} calls at the system's instant: {line}", path.display());
        }
    }
}

/// The table of contract 15.1.
const EVENTS: [&str; 33] = [
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
    // Beyond the table: what is told of as well.
    "auth:mfa.recovery_regenerated",
];

#[test]
fn every_event_is_written_down_and_no_other() {
    let mut named = std::collections::BTreeSet::new();
    for (_, code) in sources() {
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            named.extend(line.split("\"auth:").skip(1).filter_map(|rest| rest.split_once('"')).map(|(name, _)| format!("auth:{name}")));
        }
    }
    let missing: Vec<_> = EVENTS.iter().filter(|event| !named.contains(**event)).collect();
    let unknown: Vec<_> = named.iter().filter(|event| !EVENTS.contains(&event.as_str())).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "never written down: {missing:?}; in no table: {unknown:?}");
}

#[test]
fn nothing_prints_by_itself() {
    for (path, code) in sources() {
        for word in ["println!", "eprintln!", "dbg!", "print!("] {
            assert!(path.ends_with("local.rs") || !code.contains(word), "{} prints with {word}", path.display());
        }
    }
}
