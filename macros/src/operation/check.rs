//! The rules for operations of all kinds. The rules of one kind are in the file of the kind.

use linchpin_vocabulary::kind::Records;
use syn::Ident;
use syn::ext::IdentExt;

use super::kinds::Plan;
use super::model::Model;
use super::path::{Method, Segment};
use super::{capability, reach};
use crate::diagnostics::Diagnostics;
use crate::expr::Scope;
use crate::names;
use crate::policy::{audit, event, idempotent, narrow, once, permission};

/// Checks all rules of an operation.
pub(super) fn check(model: &Model<'_>, scope: &mut Scope<'_>) {
    let (parsed, input) = (&model.parsed, model.parsed.input());
    let (args, entity) = (&parsed.args, scope.model);
    let reads = model.plan.as_ref().is_some_and(Plan::only_reads);
    capability::check(parsed.kind, &input, reads, entity, &parsed.at, scope.d);
    model.body.check(&input, scope);
    if !parsed.kind.facts.has_methods {
        args.route.refuse_others(scope.d);
    }
    args.route
        .route_override
        .refuse_entity_path(&entity.path, scope.d);
    let Some(plan) = &model.plan else { return };
    for part in &plan.parts {
        part.route_override
            .refuse_entity_path(&entity.path, scope.d);
    }
    if let Some((key, _)) = &args.route.policy.description {
        scope
            .d
            .error(
                key,
                "an operation does not accept `description`: its doc comment is the description",
            )
            .help("`/// ..` above the const");
    }
    reach::check(args, plan, &parsed.name, parsed.declared, entity, scope.d);
    check_policies(model, plan, scope);
}

/// Checks the policies of the operation's routes.
fn check_policies(model: &Model<'_>, plan: &Plan, scope: &mut Scope<'_>) {
    let (entity, facts) = (scope.model, model.parsed.kind.facts);
    let is_single_method = plan.parts.is_empty();
    let common = &model.parsed.args.route.policy;
    let returns_records = is_single_method && plan.returns.contains_records();
    let by_id = || {
        model
            .routes
            .iter()
            .any(|(_, segments)| segments.contains(&Segment::Param("id".to_owned())))
    };
    let records = match facts.records {
        Records::One | Records::Many => true,
        Records::OfPath => by_id(),
        Records::Foreign => false,
    };
    let changes_one_record = is_single_method && !plan.reads() && plan.returns.is_one_record();
    for policy in
        std::iter::once(common).chain(plan.parts.iter().filter_map(|part| part.policy.as_ref()))
    {
        narrow::check_operation(policy, returns_records, entity, scope.d);
        once::check_operation(
            policy,
            changes_one_record,
            facts.answer_members,
            entity,
            scope.d,
        );
        permission::check_operation(
            policy,
            records,
            facts.records != Records::Many,
            entity,
            scope.d,
        );
        event::check_operation(policy, facts, entity, scope.d);
    }
    if !model.routes.is_empty()
        && model
            .routes
            .iter()
            .all(|(method, _)| *method == Method::Get)
    {
        common.refuse_max_body("a GET route", scope.d);
    }
    let reading = plan
        .parts
        .iter()
        .filter(|part| part.reads())
        .filter_map(|part| part.policy.as_ref());
    for policy in reading.chain((is_single_method && plan.reads()).then_some(common)) {
        idempotent::refuse(policy, "an operation that only reads", scope.d);
        audit::refuse(policy, "an operation that only reads", scope.d);
    }
}

/// The names that no operation can have: every adapter has these methods.
const RESERVED_NAMES: &[&str] = &["create", "get", "list", "update", "delete", "purge"];

/// Returns the adapter method and the route segment of an operation.
pub(crate) fn name_of(ident: &Ident, d: &mut Diagnostics) -> (String, String) {
    let written = ident.unraw().to_string();
    let (name, kebab) = (names::snake(&written), names::kebab(&written));
    if RESERVED_NAMES.contains(&name.as_str()) {
        d.error(
            ident,
            format!("operation name `{name}` is taken: every adapter has a method with this name"),
        )
        .help("another name");
    }
    let fits = kebab.len() <= 63 && kebab.starts_with(|c: char| c.is_ascii_alphabetic());
    if !fits
        || !kebab
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    {
        d.error(
            ident,
            format!("operation name becomes `{kebab}`, which is not a valid route segment"),
        )
        .help("a name of letters, digits and `_`, a letter first, at most 63 characters");
    }
    (name, kebab)
}
