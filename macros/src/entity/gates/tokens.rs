//! Gates and conditions as members of the descriptor, and the checks that need types. The generated
//! code imports the private module of the runtime crate as `__lp`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};

use super::{Gate, condition};
use crate::diagnostics::Diagnostics;
use crate::entity::check;
use crate::entity::{EntityModel, Kind};
use crate::expr::{Resolved, at};

/// `visible: .., gates: .., actions: ..`, for the declared options.
pub(crate) fn descriptor(model: &EntityModel) -> Option<TokenStream> {
    if model.inert {
        return None;
    }
    let declared = &model.gates;
    let visible = declared
        .visible
        .as_ref()
        .and_then(|expr| resolved(model, expr, "visible"))
        .map(|(filter, _)| quote!(visible: __lp::Some(#filter),));
    let gates = (!declared.all.is_empty()).then(|| {
        let gates = declared.all.iter().map(|gate| {
            let (field, target) = (model.number(gate.field), target(model, gate));
            let action = gate.action.as_ref().map(|action| quote!(.action(#action)));
            let depth = gate.depth.as_ref().map(|depth| quote!(.depth(#depth)));
            quote!(__lp::Gate::new(#field, #target) #action #depth)
        });
        quote!(gates: &[#(#gates),*],)
    });
    let actions = (!declared.actions.is_empty()).then(|| {
        let actions = declared.actions.iter().filter_map(|action| {
            let (name, (filter, _)) = (&action.name, resolved(model, &action.filter, "action")?);
            Some(quote!(__lp::Action { name: #name, filter: #filter }))
        });
        quote!(actions: &[#(#actions),*],)
    });
    Some(quote!(#visible #gates #actions))
}

/// Returns the descriptor of the other entity. A descriptor contains the descriptors of the
/// entities to which its gates lead. So a chain of gates must not be a cycle, except a gate of an
/// entity to itself (a tree). `L8` of an entity contains the entities that are reachable through up
/// to 8 gates.
fn target(model: &EntityModel, gate: &Gate) -> TokenStream {
    let (own, target) = (&model.ident, &gate.target);
    if gate.is_tree(model) {
        return quote!(&DESC);
    }
    at(
        quote!(__lp::target::<#target>(__lp::is_cycle(<#own as __lp::Gated>::L8))),
        &target.to_token_stream(),
    )
}

/// The entities that gates lead to, for the detection of cycles.
pub(crate) fn links(model: &EntityModel) -> Option<TokenStream> {
    let targets: Vec<_> = model
        .gates
        .all
        .iter()
        .filter(|gate| !gate.is_tree(model))
        .map(|gate| &gate.target)
        .collect();
    let own = &model.ident;
    (!targets.is_empty() && !model.inert).then(|| {
        quote! {
            use __lp::Open as _;
            __lp::gated! { #own #(#targets),* }
        }
    })
}

/// Resolves a condition whose errors have been reported.
fn resolved(
    model: &EntityModel,
    expr: &syn::Expr,
    what: &str,
) -> Option<(Resolved, Vec<TokenStream>)> {
    let mut ignored = Diagnostics::new();
    let resolved = condition(model, expr, what, &mut ignored);
    ignored.ignore();
    resolved
}

/// Asserts that keys have the type of the other entity's ids, that actions exist, and that the
/// number of links is limited.
pub(crate) fn assertions(model: &EntityModel) -> TokenStream {
    let (mut out, declared) = (TokenStream::new(), &model.gates);
    for gate in &declared.all {
        let (field, span, target_name) = (
            &model.fields[gate.field],
            gate.key.span(),
            gate.target_name(),
        );
        let (module, ident, target) = (&model.generated.module, &field.ident, target(model, gate));
        let marker = at(quote!(#module::#ident), &gate.key.to_token_stream());
        let (key, found) = (
            &field.name,
            if field.kind == Kind::Other {
                "another type".to_owned()
            } else {
                check::kind_text(field)
            },
        );
        let string_key_message = format!(
            "linchpin: key `{key}` is {found}, `{target_name}` has string ids\n\
             help: make it a `String`"
        );
        let integer_key_message = format!(
            "linchpin: key `{key}` is {found}, `{target_name}` has integer ids\n\
             help: make it an `i64`"
        );
        out.extend(quote_spanned!(span=> const _: () = __lp::expect_relation::<#marker>(#target, #string_key_message, #integer_key_message);));
        if !gate.is_tree(model) {
            let (own, other, name) = (&model.ident, &gate.target, &model.name);
            let message = format!(
                "linchpin: gates form a cycle: `{name}` is visible through `{target_name}`, which is visible through `{name}`\nhelp: leave one of \
                 the gates out; if records of one entity are in a hierarchy, use a gate to the entity itself: `gate(parent_id -> {name}, depth = 3)`"
            );
            let check = quote!(const _: () = __lp::expect_no_cycle(<#own as __lp::Gated>::L0, __lp::Along::<#other>::L7, #message););
            out.extend(at(check, &other.to_token_stream()));
        }
        if let Some(action) = &gate.action {
            let name = action.value();
            let message = format!(
                "linchpin: `{target_name}` declares no action `{name}`\nhelp: write `action(\"{name}\", ..)` on `{target_name}`"
            );
            out.extend(quote_spanned!(action.span()=> const _: () = __lp::expect_action(#target, #action, #message);));
        }
    }
    if let Some(gate) = declared.all.first() {
        let name = &model.name;
        let message = format!(
            "linchpin: the visibility of a `{name}` record depends on more than 8 other records\nhelp: use a gate to an entity \
             with fewer gates above it, or a smaller depth"
        );
        out.extend(
            quote_spanned!(gate.word.span()=> const _: () = __lp::expect_links(&DESC, #message);),
        );
    }
    let visible = declared.visible.iter().map(|expr| (expr, "visible"));
    for (expr, what) in visible.chain(
        declared
            .actions
            .iter()
            .map(|action| (&action.filter, "action")),
    ) {
        let asserts = resolved(model, expr, what)
            .map(|(_, asserts)| asserts)
            .unwrap_or_default();
        out.extend(asserts);
    }
    out
}
