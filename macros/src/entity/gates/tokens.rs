//! Gates and conditions as members of the descriptor, and the checks that need types. `__lp` is in
//! scope.

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
    let of = &model.gates;
    let visible = of
        .visible
        .as_ref()
        .and_then(|expr| resolved(model, expr, "visible"))
        .map(|(filter, _)| quote!(visible: __lp::Some(#filter),));
    let gates = (!of.all.is_empty()).then(|| {
        let gates = of.all.iter().map(|gate| {
            let (field, target) = (model.number(gate.field), target(model, gate));
            let action = gate.action.as_ref().map(|action| quote!(.action(#action)));
            let depth = gate.depth.as_ref().map(|depth| quote!(.depth(#depth)));
            quote!(__lp::Gate::new(#field, #target) #action #depth)
        });
        quote!(gates: &[#(#gates),*],)
    });
    let actions = (!of.actions.is_empty()).then(|| {
        let actions = of.actions.iter().filter_map(|action| {
            let (name, (filter, _)) = (&action.name, resolved(model, &action.filter, "action")?);
            Some(quote!(__lp::Action { name: #name, filter: #filter }))
        });
        quote!(actions: &[#(#actions),*],)
    });
    Some(quote!(#visible #gates #actions))
}

/// The descriptor of the other entity, which is part of this one. A tree is the only allowed cycle.
fn target(model: &EntityModel, gate: &Gate) -> TokenStream {
    let (own, target) = (&model.ident, &gate.target);
    if gate.is_tree(model) {
        return quote!(&DESC);
    }
    at(
        quote!(__lp::target::<#target>(__lp::is_circle(<#own as __lp::Gated>::L8))),
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

/// A condition that has been checked.
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
    let (mut out, of) = (TokenStream::new(), &model.gates);
    for gate in &of.all {
        let (field, span, shown) = (&model.fields[gate.field], gate.key.span(), gate.shown());
        let (module, ident, target) = (&model.generated.module, &field.ident, target(model, gate));
        let marker = at(quote!(#module::#ident), &gate.key.to_token_stream());
        let (key, is) = (
            &field.name,
            if field.kind == Kind::Other {
                "another type".to_owned()
            } else {
                check::kind_text(field)
            },
        );
        let text = format!(
            "linchpin: key `{key}` is {is}, `{shown}` has string ids\nhelp: make it a `String`"
        );
        let whole = format!(
            "linchpin: key `{key}` is {is}, `{shown}` has integer ids\nhelp: make it an `i64`"
        );
        out.extend(quote_spanned!(span=> const _: () = __lp::expect_relation::<#marker>(#target, #text, #whole);));
        if !gate.is_tree(model) {
            let (own, other, name) = (&model.ident, &gate.target, &model.name);
            let message = format!(
                "linchpin: gates lead in a circle: `{name}` is seen through `{shown}`, which is seen through `{name}`\nhelp: leave one of \
                 the gates out; records of one entity that are seen through each other are a tree: `gate(parent_id -> {name}, depth = 3)`"
            );
            let check = quote!(const _: () = __lp::expect_no_circle(<#own as __lp::Gated>::L0, __lp::Along::<#other>::L7, #message););
            out.extend(at(check, &other.to_token_stream()));
        }
        if let Some(action) = &gate.action {
            let name = action.value();
            let message = format!(
                "linchpin: `{shown}` declares no action `{name}`\nhelp: on `{shown}`, `action(\"{name}\", ..)`"
            );
            out.extend(quote_spanned!(action.span()=> const _: () = __lp::expect_action(#target, #action, #message);));
        }
    }
    if let Some(gate) = of.all.first() {
        let name = &model.name;
        let message = format!(
            "linchpin: records of `{name}` are seen through more than 8 links\nhelp: a gate onto an entity nearer to the top, or a smaller \
             depth"
        );
        out.extend(
            quote_spanned!(gate.word.span()=> const _: () = __lp::expect_links(&DESC, #message);),
        );
    }
    let visible = of.visible.iter().map(|expr| (expr, "visible"));
    for (expr, what) in visible.chain(of.actions.iter().map(|action| (&action.filter, "action"))) {
        let asserts = resolved(model, expr, what)
            .map(|(_, asserts)| asserts)
            .unwrap_or_default();
        out.extend(asserts);
    }
    out
}
