//! Snapshots of expansions, and error messages as texts.

use proc_macro2::TokenStream;
use quote::quote;

use crate::snapshot;

const NOTE: &str = "
    struct Note {
        #[field(primary, default = uuid)]
        id: String,
        title: String,
        owner_id: String,
        status: Status,
        #[field(default = 0)]
        views: i64,
        tags: Vec<String>,
        remarks: Vec<Remark>,
        due_at: Option<Timestamp>,
        #[field(default = now)]
        created_at: Timestamp,
    }";

/// Expands an operation of `Note`: runs the second step with the declaration of `Note`, as its
/// schema macro does.
fn expand(source: &str) -> TokenStream {
    expand_on(quote!(unique(title), routes(auth = none)), NOTE, source)
}

fn expand_on(options: TokenStream, entity: &str, source: &str) -> TokenStream {
    let (args, item) = snapshot::declaration(source);
    let entity: TokenStream = entity.parse().unwrap_or_else(|e| panic!("not tokens: {e}"));
    crate::schema::expand(quote!({#args} {#item} {#options} {#entity}))
}

fn check(name: &str, source: &str) {
    snapshot::assert(name, source, &expand(source));
}

/// Compares the expansion on an entity with soft delete with the snapshot.
fn check_soft(name: &str, source: &str) {
    let note = NOTE.replace("due_at", "deleted_at");
    snapshot::assert(
        name,
        source,
        &expand_on(
            quote!(soft_delete(deleted_at), routes(auth = none)),
            &note,
            source,
        ),
    );
}

#[test]
fn a_transition_matches_its_snapshot() {
    check(
        "op_transition",
        include_str!("../../tests/snapshot/op_transition.rs"),
    );
    check(
        "op_transition_full",
        include_str!("../../tests/snapshot/op_transition_full.rs"),
    );
    check(
        "op_transition_already",
        include_str!("../../tests/snapshot/op_transition_already.rs"),
    );
    check(
        "op_transition_chosen",
        include_str!("../../tests/snapshot/op_transition_chosen.rs"),
    );
}

/// A policy with every requirement for the caller.
#[test]
fn a_policy_matches_its_snapshot() {
    check("policy", include_str!("../../tests/snapshot/policy.rs"));
    // With members that only the response of the call contains.
    check(
        "op_output_once",
        include_str!("../../tests/snapshot/op_output_once.rs"),
    );
}

/// Runs both steps for a projection.
#[test]
fn a_projection_matches_its_snapshot() {
    let check = |name: &str, source: &str| {
        let (entity, item) = snapshot::declaration(source);
        let first = crate::projection::run(entity.clone(), item.clone());
        let second = expand_on(
            quote!(routes(auth = none)),
            NOTE,
            &quote!(#[projection(@ projection #entity)] #item).to_string(),
        );
        // The output of the first step is the input of the second.
        let second = if name == "projection" {
            quote!(#first #second)
        } else {
            second
        };
        snapshot::assert(name, source, &second);
    };
    check(
        "projection",
        include_str!("../../tests/snapshot/projection.rs"),
    );
    check(
        "projection_broken",
        include_str!("../../tests/snapshot/projection_broken.rs"),
    );
}

#[test]
fn a_lookup_matches_its_snapshot() {
    check(
        "op_lookup",
        include_str!("../../tests/snapshot/op_lookup.rs"),
    );
    check(
        "op_lookup_full",
        include_str!("../../tests/snapshot/op_lookup_full.rs"),
    );
    let sorts = include_str!("../../tests/snapshot/op_lookup_sorts.rs");
    let indexed = quote!(
        index(owner_id, desc(views), desc(created_at)),
        index(owner_id, title),
        routes(auth = none)
    );
    snapshot::assert("op_lookup_sorts", sorts, &expand_on(indexed, NOTE, sorts));
}

#[test]
fn an_exists_matches_its_snapshot() {
    check(
        "op_exists",
        include_str!("../../tests/snapshot/op_exists.rs"),
    );
    // On an entity in another module.
    check(
        "op_exists_full",
        include_str!("../../tests/snapshot/op_exists_full.rs"),
    );
}

#[test]
fn a_search_matches_its_snapshot() {
    check(
        "op_search",
        include_str!("../../tests/snapshot/op_search.rs"),
    );
    // With a filter and an optional parameter.
    check(
        "op_search_full",
        include_str!("../../tests/snapshot/op_search_full.rs"),
    );
}

#[test]
fn an_aggregate_matches_its_snapshot() {
    check(
        "op_aggregate",
        include_str!("../../tests/snapshot/op_aggregate.rs"),
    );
    check(
        "op_aggregate_full",
        include_str!("../../tests/snapshot/op_aggregate_full.rs"),
    );
}

#[test]
fn a_computed_aggregate_matches_its_snapshot() {
    check(
        "op_computed_aggregate",
        include_str!("../../tests/snapshot/op_computed_aggregate.rs"),
    );
}

#[test]
fn a_custom_operation_matches_its_snapshot() {
    check(
        "op_custom",
        include_str!("../../tests/snapshot/op_custom.rs"),
    );
    // On a record, with a body and with records that are returned by their keys.
    check(
        "op_custom_record",
        include_str!("../../tests/snapshot/op_custom_record.rs"),
    );
}

#[test]
fn a_derive_matches_its_snapshot() {
    check(
        "op_derive",
        include_str!("../../tests/snapshot/op_derive.rs"),
    );
}

#[test]
fn an_increment_matches_its_snapshot() {
    check(
        "op_increment",
        include_str!("../../tests/snapshot/op_increment.rs"),
    );
}

#[test]
fn the_other_writing_operations_match_their_snapshots() {
    check(
        "op_field_update",
        include_str!("../../tests/snapshot/op_field_update.rs"),
    );
    check(
        "op_array_push",
        include_str!("../../tests/snapshot/op_array_push.rs"),
    );
    check("op_batch", include_str!("../../tests/snapshot/op_batch.rs"));
    // A batch that returns its records, so that only code can call it.
    check(
        "op_batch_records",
        include_str!("../../tests/snapshot/op_batch_records.rs"),
    );
    // A batch with optional parameters, which only narrow the filter, and one with a default.
    check(
        "op_batch_narrowed",
        include_str!("../../tests/snapshot/op_batch_narrowed.rs"),
    );
    check(
        "op_upsert",
        include_str!("../../tests/snapshot/op_upsert.rs"),
    );
    check(
        "op_collection_full",
        include_str!("../../tests/snapshot/op_collection_full.rs"),
    );
    check(
        "op_consume",
        include_str!("../../tests/snapshot/op_consume.rs"),
    );
}

#[test]
fn operations_on_deleted_records_match_their_snapshots() {
    check_soft(
        "op_restore",
        include_str!("../../tests/snapshot/op_restore.rs"),
    );
    check_soft(
        "op_lookup_deleted",
        include_str!("../../tests/snapshot/op_lookup_deleted.rs"),
    );
}

/// A declaration with three mistakes expands to three errors, and still to the adapter method, so
/// that code that calls it causes no further error.
#[test]
fn a_broken_operation_matches_its_snapshot() {
    check(
        "op_broken",
        include_str!("../../tests/snapshot/op_broken.rs"),
    );
}

#[test]
fn the_first_step_calls_the_macro_of_the_entity() {
    let (args, item) =
        snapshot::declaration(include_str!("../../tests/snapshot/op_exists_full.rs"));
    let text = super::run(args, item).to_string();
    assert!(
        text.starts_with("crate :: notes :: Note ! { { kind = \"exists\""),
        "{text}"
    );
}

#[test]
fn a_kind_in_camel_case_is_known() {
    let text =
        expand("#[operation(kind = \"computedAggregate\")] const A: Operation<Note>;").to_string();
    assert!(text.contains("computed_aggregate needs `source`"), "{text}");
}
