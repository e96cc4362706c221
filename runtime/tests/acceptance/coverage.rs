//! Coverage: checks that the tests of promised behaviour exist on every store, so that a removed or
//! renamed test is noticed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Tests that run on every store, by subject. If a test is renamed or removed, change its name here
/// too.
const ON_EVERY_STORE: &[(&str, &[&str])] = &[
    (
        "the generated routes",
        &[
            "a_disabled_route_is_not_mounted",
            "routes_are_closed_by_default",
            "paths_are_plurals_in_kebab_case",
            "a_namespace_is_a_prefix_of_the_table_only",
            "create_returns_the_record_with_generated_values",
            "create_requires_required_fields",
            "create_reports_all_problems_at_once",
            "create_refuses_unknown_fields",
            "create_refuses_fields_that_the_server_writes",
            "a_taken_unique_value_is_a_conflict",
            "a_taken_key_is_a_conflict",
            "concurrent_creates_of_one_unique_value_succeed_once",
            "null_clears_optional_fields_only",
            "dates_with_an_offset_are_returned_in_utc",
            "a_date_needs_a_time",
            "an_integer_is_a_whole_number_in_range",
            "invalid_json_is_malformed_json",
            "a_body_needs_the_json_content_type",
            "an_empty_body_lacks_the_required_fields",
            "a_large_body_is_refused",
            "get_returns_what_create_returned",
            "update_changes_the_given_fields_only",
            "an_empty_update_changes_nothing",
            "update_clears_optional_fields_with_null",
            "update_refuses_the_key_and_immutable_fields",
            "update_to_a_taken_unique_value_is_a_conflict",
            "update_of_a_missing_record_is_not_found",
            "another_method_is_method_not_allowed",
            "a_deleted_record_is_not_found",
            "private_and_write_only_fields_are_never_returned",
            "a_valid_request_id_is_kept",
            "a_soft_deleted_record_is_hidden",
            "a_soft_deleted_record_frees_its_unique_values",
            "a_record_expires_after_its_ttl",
            "integer_keys_have_one_spelling",
            "an_unreachable_store_is_unavailable",
        ],
    ),
    (
        "lists",
        &[
            "a_page_has_the_default_limit",
            "ties_are_broken_by_the_key",
            "a_limit_above_the_maximum_counts_as_the_maximum",
            "an_invalid_limit_is_refused",
            "sort_dir_reverses_the_default_order",
            "a_changed_cursor_is_refused",
            "a_deleted_record_leaves_no_gap_in_later_pages",
            "new_records_cause_no_duplicates_in_later_pages",
            "filters_apply_before_the_page_is_cut",
            "all_unknown_parameters_are_reported_at_once",
            "a_filter_value_of_another_type_is_refused",
            "contains_ignores_case_and_has_no_wildcards",
            "in_and_nin_take_lists",
            "ne_matches_missing_values",
            "hidden_and_json_fields_are_refused_as_filters",
            "an_empty_list_is_an_empty_page",
            "null_is_the_smallest_value",
            "a_cursor_with_other_filters_is_refused",
        ],
    ),
    (
        "lookup and exists",
        &[
            "a_lookup_takes_its_parameter_in_the_query_or_in_the_path",
            "a_lookup_without_a_match_returns_null",
            "a_lookup_without_pagination_returns_all",
            "a_lookup_continues_at_its_cursor",
            "a_lookup_limits_its_pages",
            "an_omitted_parameter_drops_its_condition",
            "a_lookup_finds_missing_values",
            "a_fixed_value_is_no_parameter",
            "parameters_may_have_other_names_than_their_fields",
            "a_lookup_with_a_sort_returns_the_first",
            "a_lookup_has_no_post",
            "lookups_hide_deleted_records",
            "exists_answers_get_and_head",
            "exists_checks_further_conditions",
        ],
    ),
    (
        "transition",
        &[
            "a_transition_sets_state_and_fields",
            "a_transition_from_another_state_is_refused",
            "a_transition_of_a_missing_record_is_not_found",
            "a_transition_starts_from_each_of_its_states",
            "a_transition_may_return_a_boolean",
            "a_transition_takes_parameters",
            "concurrent_transitions_succeed_once",
        ],
    ),
    (
        "field_update",
        &[
            "field_update_writes_its_fields",
            "field_update_refuses_other_fields",
            "field_update_validates_its_fields",
            "partial_fields_may_be_omitted",
            "nullable_fields_may_be_cleared",
            "match_conditions_restrict_a_field_update",
        ],
    ),
    (
        "array_push, array_pull, array_set",
        &[
            "array_push_adds_a_value_once",
            "array_push_without_dedupe_repeats_values",
            "array_pull_removes_all_equal_values",
            "array_set_replaces_the_list",
            "array_push_creates_an_optional_list",
            "array_push_of_a_context_value",
            "concurrent_pushes_all_arrive",
        ],
    ),
    (
        "batch",
        &[
            "a_batch_updates_all_matches",
            "a_batch_deletes_all_matches",
            "a_batch_without_a_match_changes_nothing",
            "a_batch_applies_every_condition",
            "a_void_batch_returns_nothing",
        ],
    ),
    (
        "upsert",
        &[
            "upsert_creates_then_updates",
            "upsert_keeps_omitted_fields",
            "concurrent_upserts_create_once",
        ],
    ),
    (
        "consume",
        &[
            "consume_returns_a_record_once",
            "consume_may_return_a_boolean",
            "consume_ignores_expired_records",
            "consume_takes_the_first_in_order",
            "concurrent_consumes_succeed_once",
        ],
    ),
    (
        "increment",
        &[
            "increment_adds_its_amount",
            "the_client_does_not_choose_the_amount",
            "concurrent_increments_all_count",
        ],
    ),
    (
        "aggregate and computed_aggregate",
        &[
            "aggregate_counts_and_sums",
            "aggregate_groups_by_a_field",
            "aggregate_computes_every_function",
            "aggregate_of_no_records",
            "aggregate_groups_by_week",
            "computed_aggregate_stores_its_number",
        ],
    ),
    (
        "search",
        &[
            "search_finds_text_in_its_fields",
            "search_requires_a_text",
            "search_pages_through_its_hits",
        ],
    ),
    (
        "collection",
        &[
            "collection_adds_and_updates_items",
            "a_full_collection_is_refused",
            "a_collection_mounts_its_methods_only",
            "item_keys_are_unique",
        ],
    ),
    (
        "derive",
        &[
            "derive_merges_by_union_concat_and_intersect",
            "derive_merges_by_first_and_priority",
        ],
    ),
    (
        "custom",
        &[
            "custom_returns_the_result_of_its_function",
            "custom_without_http_has_no_route",
            "custom_without_a_function_for_the_store_does_not_start",
        ],
    ),
    (
        "policies",
        &[
            "every_closed_route_refuses_anonymous_callers",
            "records_of_another_owner_are_not_found",
            "the_owner_is_written_by_the_server",
            "a_client_cannot_supply_context_values",
            "tenants_never_see_each_other",
            "a_route_with_roles_refuses_other_users",
            "calls_beyond_the_rate_limit_are_refused",
            "repeated_idempotent_calls_have_one_effect",
            "concurrent_idempotent_calls_have_one_effect",
            "a_static_route_wins_over_a_parameter",
        ],
    ),
    (
        "versions",
        &[
            "if_match_is_required_and_checked",
            "concurrent_updates_of_one_version_succeed_once",
        ],
    ),
    (
        "start-up",
        &["start_up_reports_permissions_without_an_evaluator"],
    ),
    (
        "the API document",
        &["the_openapi_document_is_complete_and_stable"],
    ),
    (
        "visibility, relations, events",
        &[
            "a_context_default_is_written_by_the_server",
            "a_computed_field_follows_every_change",
            "a_gate_hides_records_everywhere",
            "records_without_a_tenant_are_public",
            "permissions_allow_deny_and_abstain",
            "a_counter_follows_every_change",
            "a_transition_accepts_a_record_that_is_already_in_the_target_state",
            "restore_brings_a_deleted_record_back",
            "concurrent_claims_get_different_records",
            "a_lookup_offers_named_sorts",
            "a_parameter_defaults_to_the_instant_of_the_call",
            "pages_have_numbers",
            "output_once_is_returned_once",
            "a_response_names_its_event",
        ],
    ),
];

/// Tests that do not run on one store: the store, the path of the test with `*` in place of the
/// store, and the reason.
const NOT_ON: &[(&str, &str, &str)] = &[(
    "memory",
    "provider::lasting::*",
    "its records do not survive the process",
)];

/// Tests in other programs, by file and name.
const ELSEWHERE: &[(&str, &str)] = &[(
    "app_suite/capabilities.rs",
    "start_up_lists_every_missing_capability_and_touches_nothing",
)];

/// Compile errors: a file below `ui-tests/tests/fail`, and a part of its message.
const COMPILE_ERRORS: &[(&str, &str)] = &[
    (
        "entity/primary/no_primary",
        "entity `Post` has no primary key",
    ),
    (
        "entity/primary/two_primaries",
        "entity `Post` has 2 primary keys: `id`, `key`",
    ),
    (
        "entity/primary/key_of_another_type",
        "primary key `id` must be String or i64, found bool",
    ),
    ("entity/index/unknown_field", "help: `title`"),
    ("entity/unique/unknown_field", "help: `slug`"),
    (
        "entity/sort/unknown_field",
        "unknown field `created` in sort",
    ),
    (
        "entity/tenant/unknown_field",
        "unknown tenant field `tenant`",
    ),
    ("entity/scope/unknown_field", "unknown scope field `owner`"),
    (
        "entity/soft_delete/unknown_field",
        "unknown soft_delete field `deleted`",
    ),
    (
        "entity/default/uuid_on_integer",
        "default `uuid` needs a string field",
    ),
    (
        "entity/default/now_on_string",
        "default `now` needs a date field",
    ),
    (
        "entity/default/on_update_on_string",
        "`on_update = now` needs a date field",
    ),
    (
        "entity/unique/repeated_field",
        "field `email` repeated in unique",
    ),
    ("entity/options/several_mistakes", "error: linchpin: "),
    (
        "entity/pagination/default_exceeds_max",
        "default_limit 300 exceeds max_limit 200",
    ),
    (
        "operation/transition/not_a_variant",
        "found for enum `Status`",
    ),
    (
        "operation/increment/not_a_number",
        "increment needs a number",
    ),
    ("operation/batch/filter_is_empty", "the filter is empty"),
    (
        "operation/upsert/no_such_unique",
        "needs a unique on (title)",
    ),
    ("package/paths/route_against_get", "generated get of Post"),
    (
        "package/paths/operation_against_get",
        "generated get of Post",
    ),
    (
        "entity/tenant/public_route",
        "help: `tenant(tenant_id, optional, anonymous_read)`",
    ),
    ("entity/counter/wrong_target_field", "help: known: "),
    (
        "operation/batch/records_with_a_route",
        "returns its records, so it cannot have a route",
    ),
];

/// The tests of this program: `crud::memory::a_deleted_record_is_not_found`.
fn tests() -> BTreeSet<String> {
    let listed = Command::new(std::env::current_exe().unwrap())
        .arg("--list")
        .output()
        .unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect()
}

/// The stores of this build.
fn stores() -> Vec<&'static str> {
    ["memory", "sqlite"]
        .into_iter()
        .chain(cfg!(feature = "postgres").then_some("postgres"))
        .collect()
}

#[test]
fn promised_behaviour_has_a_test_on_every_store() {
    let tests = tests();
    for store in stores() {
        let found: BTreeSet<&str> = tests
            .iter()
            .filter(|test| test.split("::").any(|part| part == store))
            .filter_map(|test| test.rsplit("::").next())
            .collect();
        for (subject, names) in ON_EVERY_STORE {
            let missing: Vec<_> = names.iter().filter(|name| !found.contains(*name)).collect();
            assert!(
                missing.is_empty(),
                "{subject}: no test on {store} of the name {missing:?}"
            );
        }
    }
}

/// A test that runs on one store runs on all.
#[test]
fn a_test_of_one_store_runs_on_every_store() {
    // By path, without the store.
    let tests_on = |store: &str| -> BTreeSet<String> {
        let without_store = |test: &String| {
            let parts: Vec<&str> = test
                .split("::")
                .map(|part| if part == store { "*" } else { part })
                .collect();
            parts.contains(&"*").then(|| parts.join("::"))
        };
        tests().iter().filter_map(without_store).collect()
    };
    let (mut all, mut found) = (BTreeSet::new(), Vec::new());
    for store in stores() {
        let tests = tests_on(store);
        all.extend(tests.iter().cloned());
        found.push((store, tests));
    }
    assert!(all.len() > 300, "{}", all.len());
    for (store, tests) in found {
        let is_exempt = |test: &String| {
            NOT_ON
                .iter()
                .any(|(exempt_store, name, _)| *exempt_store == store && name == test)
        };
        let missing: Vec<_> = all
            .difference(&tests)
            .filter(|test| !is_exempt(test))
            .collect();
        assert!(missing.is_empty(), "not on {store}: {missing:#?}");
    }
    for (store, name, reason) in NOT_ON {
        assert!(
            all.contains(*name) && !tests_on(store).contains(*name),
            "{name} runs on {store} now: remove it from `NOT_ON` ({reason})"
        );
    }
}

#[test]
fn tests_in_other_files_exist() {
    for (file, name) in ELSEWHERE {
        let text = std::fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests")
                .join(file),
        )
        .unwrap();
        assert!(
            text.contains(&format!("fn {name}()")),
            "no {name} in {file}"
        );
    }
}

#[test]
fn compile_errors_have_a_ui_test() {
    let fail = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ui-tests/tests/fail");
    for (name, part) in COMPILE_ERRORS {
        assert!(
            fail.join(format!("{name}.rs")).exists(),
            "ui-test {name} does not exist"
        );
        let message = std::fs::read_to_string(fail.join(format!("{name}.stderr")))
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            message.contains(part),
            "{name} does not say `{part}`:\n{message}"
        );
    }
    // Several mistakes of one declaration are reported in one run.
    let several =
        std::fs::read_to_string(fail.join("entity/options/several_mistakes.stderr")).unwrap();
    assert!(
        several.matches("error: linchpin: ").count() >= 3,
        "{several}"
    );
}
