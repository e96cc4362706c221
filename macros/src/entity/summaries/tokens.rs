//! Counters as a member of the descriptor, and the checks that need types. The generated code
//! imports the private module of the runtime crate as `__lp`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;

use super::{Summary, counting_condition};
use crate::diagnostics::Diagnostics;
use crate::entity::model::EntityModel;
use crate::entity::{Kind, check};
use crate::expr::{Resolved, at};

/// `summaries: &[..],`; `None` if there are none.
pub(crate) fn descriptor(model: &EntityModel) -> Option<TokenStream> {
    if model.summaries.is_empty() || model.inert {
        return None;
    }
    let summaries = model.summaries.iter().map(|summary| {
        let (entity, field, by) = (
            entity(summary),
            summary.field.unraw().to_string(),
            model.number(summary.by),
        );
        let when = resolved(model, summary).map(|(when, _)| quote!(.when(#when)));
        let least = summary.min.as_ref().map(|min| {
            let code = summary
                .code
                .as_ref()
                .map_or_else(|| quote!("conflict"), ToTokens::to_token_stream);
            quote!(.least(#min, #code))
        });
        quote!(__lp::Summary::count(|| #entity, #field, #by) #when #least)
    });
    Some(quote!(summaries: &[#(#summaries),*],))
}

fn entity(summary: &Summary) -> TokenStream {
    let target = &summary.target;
    at(
        quote!(<#target as __lp::Entity>::DESC),
        &target.to_token_stream(),
    )
}

/// Resolves the condition, whose errors have been reported.
fn resolved(model: &EntityModel, summary: &Summary) -> Option<(Resolved, Vec<TokenStream>)> {
    let mut d = Diagnostics::new();
    let when = summary
        .when
        .as_ref()
        .and_then(|when| counting_condition(model, when, &mut d));
    d.ignore();
    when
}

/// Asserts that the other entity has a suitable field for the counter, and that the key has the
/// type of the other entity's ids.
pub(crate) fn assertions(model: &EntityModel) -> TokenStream {
    let mut out = TokenStream::new();
    for summary in &model.summaries {
        let field = &model.fields[summary.by];
        let (module, ident, key) = (
            &model.generated.module,
            &field.ident,
            summary.key.unraw().to_string(),
        );
        let target = &summary.target;
        let target_name = check::type_text(&syn::parse_quote!(#target));
        let marker = at(quote!(#module::#ident), &summary.key.to_token_stream());
        let found = match field.kind {
            Kind::Other => "another type".to_owned(),
            _ => check::kind_text(field),
        };
        let string_key_message = format!(
            "linchpin: key `{key}` is {found}, `{target_name}` has string ids\n\
             help: make it a `String`"
        );
        let integer_key_message = format!(
            "linchpin: key `{key}` is {found}, `{target_name}` has integer ids\n\
             help: make it an `i64`"
        );
        // The same tokens as in the descriptor, so that a wrong entity causes one error, not two.
        let desc = entity(summary);
        out.extend(quote_spanned!(summary.key.span()=> const _: () = __lp::expect_relation::<#marker>(#desc, #string_key_message, #integer_key_message);));
        let (name, own) = (summary.field.unraw().to_string(), &model.ident);
        let own = at(
            quote!(<#own as __lp::Entity>::DESC),
            &summary.field.to_token_stream(),
        );
        // Whether the key can only hold the id of a record that the caller sees.
        let restricted = model.gates.restricts_to_visible(summary.by)
            || model
                .relations
                .iter()
                .any(|relation| relation.restricts_to_visible(summary.by));
        out.extend(quote_spanned!(summary.field.span()=> const _: () = __lp::expect_kept(#desc, #name, #own, #key, #restricted);));
        out.extend(
            resolved(model, summary)
                .into_iter()
                .flat_map(|(_, asserts)| asserts),
        );
    }
    out
}
