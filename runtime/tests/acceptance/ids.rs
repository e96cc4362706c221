//! Acceptance ids: every case of the contract is a test on every store, so that one that is removed or renamed is noticed.
//!
//! Cases over HTTP are tests of this program, named by their id, once per store. Cases of the compiler are ui tests, named
//! below with a part of the message they hold the compiler to. All else is named here with the reason.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Every id of the contract: a group, and how many cases it has.
const ALL: &[(&str, u8)] = &[
    ("def", 12),
    ("crud", 32),
    ("list", 18),
    ("look", 14),
    ("tran", 7),
    ("fupd", 6),
    ("arr", 7),
    ("bat", 6),
    ("ups", 4),
    ("cons", 5),
    ("inc", 3),
    ("agg", 6),
    ("srch", 3),
    ("coll", 4),
    ("der", 2),
    ("cust", 3),
    ("pol", 11),
    ("ver", 2),
    ("cap", 2),
    ("oapi", 1),
    ("ext", 14),
];

/// Tests that are not of this program, by file and name.
const ELSEWHERE: &[(&str, &str, &str, &str)] = &[(
    "cap_01",
    "a store that lacks things, in the place of one that does not exist yet",
    "app_suite/gate.rs",
    "cap_01_lists_every_gap_and_touches_nothing",
)];

/// Tests that one store has no part in: the store, the test with the store left open, and why.
const NOT_ON: &[(&str, &str, &str)] = &[("memory", "provider::lasting::*", "nothing of it outlives the process")];

/// Extensions (contract 14) that come with the packages that need them. None may have a test: whoever builds one takes it off.
const LATER: &[(&str, &str)] = &[];

/// Cases of the compiler: id, file below `ui-tests/tests/fail`, part of its message.
const COMPILER: &[(&str, &str, &str)] = &[
    ("DEF-01", "entity/01_no_primary", "entity `Post` has no primary key"),
    ("DEF-01", "entity/01_two_primaries", "entity `Post` has 2 primary keys: `id`, `key`"),
    ("DEF-01", "entity/02_primary_type", "primary key `id` must be String or i64, found bool"),
    ("DEF-02", "entity/08_unknown_field_in_index", "help: `title`"),
    ("DEF-02", "entity/08_unknown_field_in_unique", "help: `slug`"),
    ("DEF-02", "entity/08_unknown_field_in_sort", "unknown field `created` in sort"),
    ("DEF-02", "entity/12_unknown_tenant_field", "unknown tenant field `tenant`"),
    ("DEF-02", "entity/12_unknown_scope_field", "unknown scope field `owner`"),
    ("DEF-02", "entity/11_soft_delete_unknown", "unknown soft_delete field `deleted`"),
    ("DEF-03", "entity/03_uuid_on_integer", "default `uuid` needs a string field"),
    ("DEF-03", "entity/03_now_on_string", "default `now` needs a date field"),
    ("DEF-03", "entity/04_on_update_on_string", "`on_update = now` needs a date field"),
    ("DEF-04", "entity/09_repeated_in_unique", "field `email` repeated in unique"),
    ("DEF-05", "entity/several_mistakes", "error: linchpin: "),
    ("DEF-06", "entity/15_default_exceeds_max", "default_limit 300 exceeds max_limit 200"),
    ("DEF-11", "operation/19_not_a_variant", "found for enum `Status`"),
    ("DEF-12", "operation/29_not_a_number", "increment needs a number"),
    ("BAT-06", "operation/35_filter_is_empty", "the filter is empty"),
    ("UPS-04", "operation/42_no_such_unique", "needs a unique on (title)"),
    ("POL-10", "package/53_extra_against_get", "generated get of Post"),
    ("POL-10", "package/53_operation_against_get", "generated get of Post"),
    ("EXT-04", "entity/13_public_route_of_tenant", "help: `tenant(tenant_id, optional, anonymous_read)`"),
    ("EXT-06", "entity/x10_counter_field", "help: known: "),
    ("EXT-09", "operation/17_claim_with_route", "it is for code and has no route"),
];

/// The tests of this program: `crud::memory::crud_01`.
fn tests() -> BTreeSet<String> {
    let listed = Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Whether a name has the form of an id: letters, `_`, digits.
fn is_id(name: &str) -> bool {
    name.split_once('_').is_some_and(|(group, number)| {
        group.bytes().all(|b| b.is_ascii_lowercase()) && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    })
}

/// The stores of this build.
fn stores() -> Vec<&'static str> {
    ["memory", "sqlite"].into_iter().chain(cfg!(feature = "postgres").then_some("postgres")).collect()
}

/// `DEF-01` as a test is called.
fn as_name(id: &str) -> String {
    id.to_lowercase().replace('-', "_")
}

#[test]
fn every_case_is_a_test_on_every_store() {
    let tests = tests();
    let all: BTreeSet<String> = ALL.iter().flat_map(|(group, last)| (1..=*last).map(move |n| format!("{group}_{n:02}"))).collect();
    assert_eq!(all.len(), 162, "as many as the contract has");
    let compiler: BTreeSet<String> = COMPILER.iter().map(|(id, ..)| as_name(id)).collect();
    let reasoned: BTreeSet<&str> = ELSEWHERE.iter().map(|(id, ..)| *id).chain(LATER.iter().map(|(id, _)| *id)).collect();
    assert!(reasoned.iter().all(|id| all.contains(*id)) && compiler.is_subset(&all), "an id that the contract does not have");
    for store in stores() {
        let found: BTreeSet<String> = tests
            .iter()
            .filter(|test| test.split("::").any(|part| part == store))
            .filter_map(|test| test.rsplit("::").next())
            .filter(|name| is_id(name))
            .map(str::to_owned)
            .collect();
        let missing: Vec<_> =
            all.iter().filter(|id| !found.contains(*id) && !compiler.contains(*id) && !reasoned.contains(id.as_str())).collect();
        assert!(missing.is_empty(), "no test on {store} for {missing:?}");
        let unknown: Vec<_> = found.difference(&all).collect();
        assert!(unknown.is_empty(), "tests on {store} whose ids the contract lacks: {unknown:?}");
        let built: Vec<_> = found.iter().filter(|id| reasoned.contains(id.as_str())).collect();
        assert!(built.is_empty(), "tests on {store} of what is said to be elsewhere, or to come: {built:?}");
    }
}

/// Whatever runs on one store runs on all, named by an id or not.
#[test]
fn every_test_of_one_store_is_one_of_all() {
    // By its path, with the store left open.
    let of = |store: &str| -> BTreeSet<String> {
        let on = |test: &String| {
            let parts: Vec<&str> = test.split("::").map(|part| if part == store { "*" } else { part }).collect();
            parts.contains(&"*").then(|| parts.join("::"))
        };
        tests().iter().filter_map(on).collect()
    };
    let (mut all, mut found) = (BTreeSet::new(), Vec::new());
    for store in stores() {
        let tests = of(store);
        all.extend(tests.iter().cloned());
        found.push((store, tests));
    }
    assert!(all.len() > 300, "{}", all.len());
    for (store, tests) in found {
        let meant = |test: &String| NOT_ON.iter().any(|(on, name, _)| *on == store && name == test);
        let missing: Vec<_> = all.difference(&tests).filter(|test| !meant(test)).collect();
        assert!(missing.is_empty(), "not on {store}: {missing:#?}");
    }
    for (store, name, reason) in NOT_ON {
        assert!(all.contains(*name) && !of(store).contains(*name), "{name} is not left out on {store} any more ({reason})");
    }
}

#[test]
fn what_is_elsewhere_is_there() {
    for (id, reason, file, name) in ELSEWHERE {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file)).unwrap();
        assert!(text.contains(&format!("fn {name}()")), "{id} ({reason}): no {name} in {file}");
    }
}

#[test]
fn every_case_of_the_compiler_is_a_ui_test() {
    let fail = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ui-tests/tests/fail");
    for (id, name, part) in COMPILER {
        assert!(fail.join(format!("{name}.rs")).exists(), "{id}: ui test {name} is gone");
        let message = std::fs::read_to_string(fail.join(format!("{name}.stderr"))).unwrap_or_else(|e| panic!("{id}: {name}: {e}"));
        assert!(message.contains(part), "{id}: {name} does not say `{part}`:\n{message}");
    }
    // DEF-05: three mistakes, one run.
    let several = std::fs::read_to_string(fail.join("entity/several_mistakes.stderr")).unwrap();
    assert!(several.matches("error: linchpin: ").count() >= 3, "{several}");
}
