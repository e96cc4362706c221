//! Acceptance ids: each case in scope is a test, so that a test that is removed or renamed is noticed.
//!
//! Cases over HTTP are tests of this program, named by their id, once per store. Cases of the compiler are ui tests, named
//! below with a part of the message they hold the compiler to.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Cases over HTTP: a letter group and its numbers.
///
/// Not here: CUST-03 and CAP-01, which never get as far as HTTP, and extensions that do not exist yet.
const HTTP: &[(&str, &[u8])] = &[
    ("def", &[7, 8, 9, 10]),
    ("crud", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32]),
    ("list", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]),
    ("look", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
    ("tran", &[1, 2, 3, 4, 5, 6, 7]),
    ("inc", &[1, 2, 3]),
    ("fupd", &[1, 2, 3, 4, 5, 6]),
    ("arr", &[1, 2, 3, 4, 5, 6, 7]),
    ("bat", &[1, 2, 3, 4, 5]),
    ("ups", &[1, 2, 3]),
    ("coll", &[1, 2, 3, 4]),
    ("cons", &[1, 2, 3, 4, 5]),
    ("der", &[1, 2]),
    ("agg", &[1, 2, 3, 4, 5, 6]),
    ("srch", &[1, 2, 3]),
    ("pol", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 11]),
    ("ver", &[1, 2]),
    ("oapi", &[1]),
    ("cust", &[1, 2]),
    ("ext", &[1, 4, 5, 7, 8, 9, 14]),
    ("cap", &[2]),
];

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

#[test]
fn every_case_over_http_is_a_test_on_every_store() {
    let tests = tests();
    let expected: BTreeSet<String> =
        HTTP.iter().flat_map(|(group, numbers)| numbers.iter().map(move |n| format!("{group}_{n:02}"))).collect();
    let stores = ["memory", "sqlite"].into_iter().chain(cfg!(feature = "postgres").then_some("postgres"));
    for store in stores {
        let found: BTreeSet<String> = tests
            .iter()
            .filter(|test| test.split("::").any(|part| part == store))
            .filter_map(|test| test.rsplit("::").next())
            .filter(|name| is_id(name))
            .map(str::to_owned)
            .collect();
        let missing: Vec<_> = expected.difference(&found).collect();
        assert!(missing.is_empty(), "no test on {store} for {missing:?}");
        let unlisted: Vec<_> = found.difference(&expected).collect();
        assert!(unlisted.is_empty(), "tests on {store} whose ids this list lacks: {unlisted:?}");
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
