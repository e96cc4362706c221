//! Checks the folders of the test cases: each folder of `fail/` is an option, and each option has a
//! neighbour in `pass/`: a similar declaration that compiles.

#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each entry: folders below `fail/`, the file below `pass/` that contains their neighbours, and a
/// text that must be in this file.
const NEIGHBOURS: &[(&[&str], &str, &str)] = &[
    (
        &["entity/struct"],
        "entity/odd_declarations.rs",
        "#[entity(",
    ),
    (&["entity/struct"], "entity/types.rs", "#[entity"),
    (&["entity/struct"], "entity/most_fields.rs", "#[entity"),
    (&["entity/primary"], "entity/neighbours.rs", "// primary:"),
    (&["entity/default"], "entity/neighbours.rs", "// default:"),
    (
        &["entity/constraints"],
        "entity/neighbours.rs",
        "// constraints:",
    ),
    (
        &["entity/names", "entity/rename_from"],
        "entity/neighbours.rs",
        "// names, rename_from:",
    ),
    (
        &["entity/index", "entity/unique", "entity/private"],
        "entity/neighbours.rs",
        "// index, unique, private:",
    ),
    (&["entity/version"], "entity/neighbours.rs", "// version:"),
    (
        &["entity/pagination"],
        "entity/neighbours.rs",
        "// pagination:",
    ),
    (
        &[
            "entity/options",
            "entity/routes",
            "entity/middleware",
            "entity/guards",
            "entity/rate_limit",
            "entity/timeout",
        ],
        "entity/neighbours.rs",
        "// options, routes, middleware, guards, rate_limit, timeout:",
    ),
    (
        &["entity/read_only", "entity/client_set"],
        "entity/neighbours.rs",
        "// read_only:",
    ),
    (
        &["entity/required", "entity/check", "entity/max_body"],
        "entity/full.rs",
        "check = ",
    ),
    (
        &["entity/soft_delete", "entity/ttl"],
        "entity/visibility.rs",
        "// soft_delete, ttl:",
    ),
    (
        &["entity/tenant", "entity/scope", "entity/parent_path"],
        "entity/visibility.rs",
        "// tenant, scope:",
    ),
    (
        &["entity/stores"],
        "entity/store_of_another_crate.rs",
        "stores(",
    ),
    (&["entity/search"], "entity/search.rs", "search("),
    (&["entity/sort"], "operation/sorts.rs", "sort("),
    (
        &["entity/paging"],
        "operation/sorts.rs",
        "paging = \"page\"",
    ),
    (&["entity/computed"], "entity/computed.rs", "computed"),
    (
        &["entity/transform", "entity/computed"],
        "entity/migrations.rs",
        "#[transform",
    ),
    (
        &["package/migrations"],
        "entity/migrations.rs",
        "migrations!(",
    ),
    (&["entity/counter"], "entity/counters.rs", "counter("),
    (
        &["entity/gate", "entity/visible"],
        "entity/gates.rs",
        "gate(",
    ),
    (
        &["entity/relations", "entity/on_delete"],
        "entity/relations.rs",
        "belongs_to(",
    ),
    (
        &["entity/field_enum", "entity/embedded"],
        "entity/enums_and_items.rs",
        "FieldEnum",
    ),
    (
        &["entity/permission"],
        "entity/permissions.rs",
        "owner_field",
    ),
    (
        &[
            "entity/audit",
            "entity/auth",
            "entity/roles",
            "entity/idempotent",
        ],
        "entity/policy.rs",
        "#[entity(",
    ),
    (
        &[
            "entity/event",
            "entity/input",
            "entity/output",
            "entity/output_once",
        ],
        "entity/policy.rs",
        "output(",
    ),
    (
        &["entity/projection"],
        "entity/projection.rs",
        "#[projection(",
    ),
    (
        &["operation/kind", "operation/options", "operation/entity"],
        "operation/path_to_entity.rs",
        "#[operation(",
    ),
    (
        &["operation/transition"],
        "operation/transition.rs",
        "from = [",
    ),
    (&["operation/match"], "operation/match_pins.rs", "match("),
    (&["operation/set"], "operation/set.rs", "set("),
    (&["operation/set"], "operation/set_constraints.rs", "set("),
    (
        &["operation/lookup", "operation/sort"],
        "operation/filters.rs",
        "kind = \"lookup\"",
    ),
    (
        &["operation/field_update"],
        "operation/writes.rs",
        "set(note), nullable, partial",
    ),
    (
        &["operation/array"],
        "operation/writes.rs",
        "field = labels, value = input(labels)",
    ),
    (&["operation/increment"], "operation/increment.rs", "by = "),
    (
        &["operation/aggregate"],
        "operation/aggregate.rs",
        "group_by",
    ),
    (
        &["operation/computed_aggregate"],
        "operation/computed_aggregate.rs",
        "// computed_aggregate:",
    ),
    (
        &["operation/computed_aggregate"],
        "operation/computed_aggregate.rs",
        "// target_match:",
    ),
    (
        &["operation/stores"],
        "operation/computed_aggregate.rs",
        "// stores, atomic:",
    ),
    (
        &["operation/batch"],
        "operation/writes.rs",
        "filter = (note.is_some()), set(views = 0)",
    ),
    (
        &["operation/filter", "operation/params"],
        "operation/filters.rs",
        "filter = (",
    ),
    (
        &["operation/context"],
        "operation/context.rs",
        "// context:",
    ),
    (
        &["operation/upsert"],
        "operation/writes.rs",
        "match(title, author_id), set(slug), on_create(",
    ),
    (
        &["operation/search"],
        "operation/search.rs",
        "kind = \"search\"",
    ),
    (
        &["operation/collection"],
        "operation/writes.rs",
        "operations(list, update), identify_by = number",
    ),
    (
        &["operation/consume"],
        "operation/writes.rs",
        "expiry = until",
    ),
    (&["operation/derive"], "operation/derive.rs", "// source:"),
    (&["operation/derive"], "operation/derive.rs", "// merge:"),
    (&["operation/names"], "operation/names.rs", "pub const"),
    (&["operation/custom"], "operation/custom.rs", "// handler:"),
    (&["operation/custom"], "operation/custom.rs", "// params:"),
    (
        &["operation/permission"],
        "operation/upsert_permission.rs",
        "permission(",
    ),
    (
        &["operation/output_once"],
        "operation/writes.rs",
        "// output_once:",
    ),
    (
        &["operation/soft_delete", "operation/restore"],
        "operation/deleted.rs",
        "restore",
    ),
    (
        &["operation/sorts", "operation/paging"],
        "operation/sorts.rs",
        "sorts(",
    ),
    (
        &["operation/unscoped", "operation/auth"],
        "entity/visibility.rs",
        "// unscoped:",
    ),
    (
        &[
            "operation/audit",
            "operation/event",
            "operation/idempotent",
            "operation/output",
        ],
        "entity/policy.rs",
        "#[operation(",
    ),
    (
        &["operation/projection"],
        "entity/projection.rs",
        "#[operation(",
    ),
    (&["operation/route"], "entity/moved.rs", "#[operation("),
    (&["package/paths"], "operation/packages.rs", "package!("),
    (
        &["package/entities"],
        "package/neighbours.rs",
        "// apply_to:",
    ),
    (
        &["package/audited", "package/middleware", "package/options"],
        "package/neighbours.rs",
        "package!(",
    ),
    (&["package/route"], "package/neighbours.rs", "#[route("),
    (
        &[
            "channel/item",
            "channel/of",
            "channel/name",
            "channel/options",
            "channel/history",
            "channel/auth",
        ],
        "channel/neighbours.rs",
        "// item, of, name, options, history, auth:",
    ),
    (
        &["channel/on", "channel/payload"],
        "channel/neighbours.rs",
        "// on, payload:",
    ),
    (
        &["channel/by", "channel/when", "channel/gates"],
        "channel/neighbours.rs",
        "// by, when, gates:",
    ),
    (&["channel/event"], "channel/neighbours.rs", "// event:"),
    (&["channel/relay"], "channel/neighbours.rs", "// relay:"),
    (
        &["channel/incoming"],
        "channel/neighbours.rs",
        "// incoming:",
    ),
    (&["channel/rooms"], "channel/neighbours.rs", "// rooms:"),
    (
        &["channel/unlisted"],
        "channel/neighbours.rs",
        "// unlisted:",
    ),
    (
        &["sse/path", "sse/auth"],
        "sse/neighbours.rs",
        "// path, auth:",
    ),
    (
        &["sse/partition", "sse/events", "sse/options"],
        "sse/neighbours.rs",
        "// partition, events, options:",
    ),
    (&["sse/unlisted"], "sse/neighbours.rs", "// unlisted:"),
    (&["webhooks/events"], "webhooks/neighbours.rs", "// events:"),
    (&["webhooks/when"], "webhooks/neighbours.rs", "// when:"),
];

fn below(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder)
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The options below `fail/`. Each contains cases, and each case has a stored message.
fn options() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for subject in entries(&below("fail")) {
        for option in entries(&subject) {
            assert!(
                option.is_dir(),
                "{} is not in the folder of an option",
                option.display()
            );
            let cases: Vec<PathBuf> = entries(&option)
                .filter(|case| case.extension().is_some_and(|kind| kind == "rs"))
                .collect();
            assert!(!cases.is_empty(), "{} has no case", option.display());
            for case in cases {
                assert!(
                    case.with_extension("stderr").exists(),
                    "{} has no stored message",
                    case.display()
                );
                let plain = name(&case)
                    .trim_end_matches(".rs")
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b == b'_');
                assert!(plain, "{} is not named after a mistake", case.display());
            }
            found.insert(format!("{}/{}", name(&subject), name(&option)));
        }
    }
    found
}

#[test]
fn every_option_has_a_failing_and_a_passing_case() {
    let found = options();
    let named: BTreeSet<String> = NEIGHBOURS
        .iter()
        .flat_map(|(options, ..)| options.iter().map(|&option| option.to_owned()))
        .collect();
    assert!(found.len() > 80, "{}", found.len());
    let missing: Vec<_> = found.difference(&named).collect();
    assert!(
        missing.is_empty(),
        "options without a neighbour in pass/: {missing:?}"
    );
    let gone: Vec<_> = named.difference(&found).collect();
    assert!(gone.is_empty(), "options without a case in fail/: {gone:?}");
}

#[test]
fn each_neighbour_exists_in_its_file() {
    for (options, file, text) in NEIGHBOURS {
        let source = std::fs::read_to_string(below("pass").join(file))
            .unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(
            source.contains(text),
            "{file} has no `{text}`, the neighbour of {options:?}"
        );
    }
}
