//! Expands the visibility options to members of the entity descriptor. The generated code imports
//! the private module of the runtime crate as `__lp`.

use proc_macro2::{Literal, TokenStream};
use quote::quote;
use syn::ext::IdentExt;

use super::model::{Scope, ScopeSource, SoftDelete, Ttl, Visibility};
use crate::entity::EntityModel;
use crate::expr::{index, literal_of};
use crate::names;

/// `soft_delete: .., ttl: .., tenant: .., scope: .., parent_path: ..`, for the declared options.
pub(crate) fn descriptor(model: &EntityModel) -> TokenStream {
    let visibility = &model.visibility;
    let soft_delete = visibility.soft_delete.as_ref().filter(|_| !model.inert).map(|SoftDelete { field, value, .. }| {
        let (of, module) = (&model.fields[*field], &model.generated.module);
        let (ident, field) = (&of.ident, model.number(*field));
        match value {
            None => quote!(soft_delete: __lp::Some(__lp::SoftDelete::At(#field)),),
            Some(value) => {
                let literal = literal_of(of, &quote!(#module::#ident));
                quote!(soft_delete: __lp::Some(__lp::SoftDelete::Is(#field, || #literal(#value))),)
            }
        }
    });
    let ttl = visibility.ttl.as_ref().map(|ttl| match ttl {
        Ttl::After(millis) => {
            let (field, millis) = (index(model.fields.len()), Literal::u64_unsuffixed(*millis));
            quote!(ttl: __lp::Some(__lp::Ttl { field: #field, after: __lp::Some(#millis) }),)
        }
        Ttl::At(field, _) => {
            let field = model.number(*field);
            quote!(ttl: __lp::Some(__lp::Ttl { field: #field, after: __lp::None }),)
        }
    });
    let tenant = visibility.tenant.as_ref().map(|tenant| {
        let (field, optional, anonymous_read) = (model.number(tenant.field), tenant.optional, tenant.anonymous_read.is_some());
        quote!(tenant: __lp::Some(__lp::Tenant { field: #field, optional: #optional, anonymous_read: #anonymous_read }),)
    });
    // If the declaration has errors, the macro has already reported the errors of its routes.
    // Without scopes in the descriptor, `package!` does not check these routes again.
    let scopes = (!visibility.scopes.is_empty() && !model.inert).then(|| {
        let scopes = visibility
            .scopes
            .iter()
            .map(|declared| scope(model, declared));
        quote!(scope: &[#(#scopes),*],)
    });
    let parent = parent_path(visibility).map(|path| quote!(parent_path: __lp::Some(#path),));
    quote!(#soft_delete #ttl #tenant #scopes #parent)
}

/// The field that holds the expiry of `ttl("1h")`, after all other fields.
pub(crate) fn expiry(model: &EntityModel) -> Option<TokenStream> {
    matches!(model.visibility.ttl, Some(Ttl::After(_))).then(|| quote!(__lp::expiry_field()))
}

fn scope(model: &EntityModel, scope: &Scope) -> TokenStream {
    let field = model.number(scope.field);
    let from = match &scope.from {
        ScopeSource::Ctx(path, _) => quote!(__lp::ScopeFrom::Ctx(__lp::CtxPath::#path)),
        ScopeSource::Path(name) => {
            let wire = names::camel(&names::snake(&name.unraw().to_string()));
            quote!(__lp::ScopeFrom::Path(#wire))
        }
    };
    let apply_to = scope.apply_to.as_ref().map(|apply| {
        let routes = apply
            .routes
            .iter()
            .map(|route| names::snake(&route.unraw().to_string()));
        quote!(.apply_to(&[#(#routes),*]))
    });
    let unscoped = scope
        .unscoped
        .as_ref()
        .map(|reason| quote!(.unscoped(#reason)));
    quote!(__lp::Scope::new(#field, #from) #apply_to #unscoped)
}

/// `documents/{docId}`: the parent path with its parameters under their wire names.
pub(crate) fn parent_path(visibility: &Visibility) -> Option<String> {
    use crate::operation::path::Segment;
    let parent = visibility.parent.as_ref()?;
    let segments = parent.segments.iter().map(|segment| match segment {
        Segment::Lit(text) => text.clone(),
        Segment::Param(name) => format!("{{{}}}", names::camel(&names::snake(name))),
    });
    Some(segments.collect::<Vec<_>>().join("/"))
}

/// The checks of field types in the expansion, as (position of the field, span of the error, name
/// of the constant of allowed kinds, message, help).
pub(crate) fn assertions(
    model: &EntityModel,
) -> Vec<(usize, proc_macro2::Span, &'static str, String, &'static str)> {
    let visibility = &model.visibility;
    let name = |field: usize| &model.fields[field].name;
    let mut out = Vec::new();
    if let Some(SoftDelete { field, at, value }) = &visibility.soft_delete {
        out.push(match value {
            None => (
                *field,
                at.span(),
                "DATES",
                format!(
                    "soft_delete needs an optional date, which `{}` is not",
                    name(*field)
                ),
                "an `Option<Timestamp>` field",
            ),
            Some(_) => (
                *field,
                at.span(),
                "ENUMS",
                format!(
                    "soft_delete with a value needs an enum, which `{}` is not",
                    name(*field)
                ),
                "`soft_delete(deleted_at)` with an optional date",
            ),
        });
    }
    if let Some(Ttl::At(field, at)) = &visibility.ttl {
        out.push((
            *field,
            at.span(),
            "DATES",
            format!(
                "ttl needs an optional date, which `{}` is not",
                name(*field)
            ),
            "an `Option<Timestamp>` field",
        ));
    }
    let tenant = visibility
        .tenant
        .iter()
        .map(|tenant| (tenant.field, &tenant.at, "tenant"));
    for (field, at, what) in tenant.chain(
        visibility
            .scopes
            .iter()
            .map(|scope| (scope.field, &scope.at, "scope")),
    ) {
        out.push((
            field,
            at.span(),
            "KEYS",
            format!("{what} field `{}` must be String or i64", name(field)),
            "`String`",
        ));
    }
    out
}
