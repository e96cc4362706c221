//! Every rule of the contract's list of compile-time checks has a case that fails and a neighbour that is nearly wrong.

#![allow(clippy::unwrap_used)] // in a test, stopping is the report

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How many rules the contract has.
const RULES: u8 = 67;

/// Where the nearly wrong neighbours of a rule stand, below `pass/`, and words of theirs.
const NEIGHBOURS: &[(&[u8], &str, &str)] = &[
    (&[1, 2], "entity/neighbours.rs", "// 01, 02:"),
    (&[3, 4, 5], "entity/neighbours.rs", "// 03, 04, 05:"),
    (&[6], "entity/neighbours.rs", "// 06:"),
    (&[7, 62], "entity/neighbours.rs", "// 07, 62:"),
    (&[8, 9, 10], "entity/neighbours.rs", "// 08, 09, 10:"),
    (&[11, 14], "entity/visibility.rs", "// 11, 14:"),
    (&[12, 13], "entity/visibility.rs", "// 12, 13:"),
    (&[15], "entity/neighbours.rs", "// 15:"),
    (&[16, 58, 61], "entity/neighbours.rs", "// 16, 58, 61:"),
    (&[17], "entity/neighbours.rs", "// 17:"),
    (&[17], "operation/57_custom.rs", "// 17:"),
    (&[18, 19, 20], "operation/16_to_20_transition.rs", "from = ["),
    (&[21], "operation/21_match_pins.rs", "match("),
    (&[22, 23], "operation/23_set.rs", "set("),
    (&[24, 25], "operation/37_to_41_filters.rs", "kind = \"lookup\""),
    (&[26, 27], "operation/writes.rs", "set(note), nullable, partial"),
    (&[28], "operation/writes.rs", "field = labels, value = input(labels)"),
    (&[29], "operation/29_increment.rs", "by = "),
    (&[30, 31, 32], "operation/30_aggregate.rs", "group_by"),
    (&[33], "operation/33_to_34_computed_aggregate.rs", "// 33:"),
    (&[34], "operation/33_to_34_computed_aggregate.rs", "// 34:"),
    (&[35, 36], "operation/writes.rs", "filter = (note.is_some()), set(views = 0)"),
    (&[37, 38, 39, 40, 41], "operation/37_to_41_filters.rs", "filter = ("),
    (&[40], "operation/57_custom.rs", "// 40:"),
    (&[40], "operation/40_context.rs", "// 40:"),
    (&[42, 43, 44], "operation/writes.rs", "match(title, author_id), set(slug), on_create("),
    (&[45], "operation/45_search.rs", "kind = \"search\""),
    (&[46, 47], "operation/writes.rs", "operations(list, update), identify_by = number"),
    (&[48], "operation/writes.rs", "expiry = until"),
    (&[49], "operation/49_to_50_derive.rs", "// 49:"),
    (&[50], "operation/49_to_50_derive.rs", "// 50:"),
    (&[51, 52], "operation/51_names.rs", "pub const"),
    (&[53, 54], "operation/53_packages.rs", "package!("),
    (&[55, 56], "operation/33_to_34_computed_aggregate.rs", "// 55, 56:"),
    (&[57, 63], "operation/57_custom.rs", "// 57:"),
    (&[63], "operation/16_to_20_transition.rs", "// 63:"),
    (&[59], "entity/permissions.rs", "owner_field"),
    (&[60], "entity/policy.rs", "output("),
    (&[64], "entity/relations.rs", "belongs_to("),
    (&[65], "entity/neighbours.rs", "// 65:"),
    (&[66], "entity/visibility.rs", "// 66:"),
    (&[67], "entity/visibility.rs", "// 67:"),
];

fn below(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder)
}

/// The rules that files in `fail/` are named after, each with its stored message.
fn failing() -> BTreeSet<u8> {
    let mut found = BTreeSet::new();
    for subject in std::fs::read_dir(below("fail")).unwrap() {
        for case in std::fs::read_dir(subject.unwrap().path()).unwrap() {
            let path = case.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let number = name.split('_').next().and_then(|number| number.parse::<u8>().ok());
            if path.extension().is_some_and(|kind| kind == "rs") {
                assert!(path.with_extension("stderr").exists(), "{name} has no stored message");
                found.extend(number);
            }
        }
    }
    found
}

#[test]
fn every_rule_has_a_case() {
    let found = failing();
    let missing: Vec<u8> = (1..=RULES).filter(|rule| !found.contains(rule)).collect();
    assert!(missing.is_empty(), "rules without a case in fail/: {missing:?}");
}

#[test]
fn every_rule_has_a_neighbour() {
    for (rules, file, words) in NEIGHBOURS {
        let text = std::fs::read_to_string(below("pass").join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(text.contains(words), "{file} has no `{words}`, the neighbour of {rules:?}");
    }
    let named: BTreeSet<u8> = NEIGHBOURS.iter().flat_map(|(rules, ..)| rules.iter().copied()).collect();
    let missing: Vec<u8> = (1..=RULES).filter(|rule| !named.contains(rule)).collect();
    assert!(missing.is_empty(), "rules without a neighbour in pass/: {missing:?}");
}
