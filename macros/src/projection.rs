//! `#[projection(Post)]`: a struct that names fields of an entity, for `output = PostCard` in a
//! policy.
//!
//! Two steps, as for operations: the struct stays as it is, and the entity's schema macro calls
//! [`expand`] with the entity's declaration, so that errors in fields point at the struct.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Field, Fields, ItemStruct, Path, Token};

use crate::diagnostics::Diagnostics;
use crate::entity::{EntityModel, hidden};
use crate::expr::position_in;
use crate::fragments::plain;
use crate::repair;
use crate::schema::{self, SchemaInput};

mod word {
    syn::custom_keyword!(projection);
}

/// The input of the second step: the entity, as the struct names it.
pub(crate) struct ProjectionInput(Path);

impl ProjectionInput {
    /// Whether the arguments that an entity's macro passes on belong to a projection.
    pub(crate) fn is(args: &TokenStream) -> bool {
        syn::parse2::<Self>(args.clone()).is_ok()
    }
}

impl Parse for ProjectionInput {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.parse::<Token![@]>()?;
        input.parse::<word::projection>()?;
        input.parse().map(Self)
    }
}

/// The first step.
pub(crate) fn run(args: TokenStream, item: TokenStream) -> TokenStream {
    const SHAPE: &str =
        "\nhelp: `#[projection(Post)] pub struct PostCard { pub id: String, pub title: String }`";
    let (args, item) = (plain(args), plain(item));
    let mut d = Diagnostics::new();
    let parsed = repair::item::<ItemStruct>(&item)
        .map_err(|e| syn::Error::new(e.span(), format!("a projection must be a struct{SHAPE}")));
    let Some(structure) = d.take(parsed) else {
        let errors = d.finish();
        return quote!(#item #errors);
    };
    let entity = if args.is_empty() {
        Err(syn::Error::new(Span::call_site(), ""))
    } else {
        syn::parse2::<Path>(args)
    };
    let entity = match entity {
        Ok(entity) => Some(entity),
        Err(_) => {
            d.error(
                &structure.ident,
                "the projection needs the name of its entity",
            )
            .help("`#[projection(Post)]`");
            None
        }
    };
    if !structure.generics.params.is_empty() {
        d.error(
            &structure.generics,
            format!("projection `{}` cannot be generic", structure.ident),
        )
        .help("leave the parameters out");
    }
    if !matches!(&structure.fields, Fields::Named(fields) if !fields.named.is_empty()) {
        d.error(
            &structure.ident,
            format!("projection `{}` has no fields", structure.ident),
        )
        .help("`pub id: String`");
    }
    let sound = d.is_empty();
    let errors = d.finish();
    let second_step = entity
        .filter(|_| sound)
        .map(|entity| quote!(#entity! { {@ projection #entity} {#structure} }));
    quote! {
        #[allow(dead_code)] // the fields are for responses; an app may never read them
        #structure
        #errors
        #second_step
    }
}

/// The second step.
pub(crate) fn expand(input: SchemaInput) -> TokenStream {
    let mut d = Diagnostics::new();
    let input_args = d.take(syn::parse2::<ProjectionInput>(input.args.clone()));
    let structure = d.take(repair::item::<ItemStruct>(&input.item));
    let (args, item) = input.declaration();
    let (Some(ProjectionInput(entity)), Some(structure)) = (input_args, structure) else {
        return d.finish();
    };
    let Some(model) = schema::model(args, item) else {
        // The macro of the entity has reported the reason.
        d.ignore();
        return TokenStream::new();
    };
    let named: Vec<&Field> = structure
        .fields
        .iter()
        .filter(|field| is_existing_field(field, &model, &mut d))
        .collect();
    let errors = d.finish();
    let expanded = implementation(&entity, &structure, &named, &model);
    quote!(#errors #expanded)
}

/// Checks that a field of a projection exists and can be read. Returns whether it exists.
fn is_existing_field(field: &Field, model: &EntityModel, d: &mut Diagnostics) -> bool {
    let Some(ident) = &field.ident else {
        return false;
    };
    if let Some(cfg) = field
        .attrs
        .iter()
        .find(|attr| attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr"))
    {
        d.error(cfg, "fields of a projection cannot depend on `cfg`")
            .help("declare a separate projection for each build");
    }
    let Some(index) = model.index_of(ident) else {
        let name = ident.unraw().to_string();
        d.error(ident, format!("unknown field `{ident}` on {}", model.ident))
            .suggest(&name, model.field_names());
        return false;
    };
    if let Some(how) = hidden(&model.fields[index]) {
        d.error(
            ident,
            format!("{how} field `{ident}` is not allowed in projection"),
        )
        .help("leave it out");
    }
    true
}

/// Returns the implementation of the projection, without fields that the entity does not have. It
/// is emitted even after errors, so that code that uses the projection causes no further errors.
/// `From` is emitted only if the entity has all fields.
fn implementation(
    entity: &Path,
    structure: &ItemStruct,
    named: &[&Field],
    model: &EntityModel,
) -> TokenStream {
    let (krate, ident) = (&model.krate, &structure.ident);
    let text = ident.unraw().to_string();
    let names = named
        .iter()
        .filter_map(|field| Some(field.ident.as_ref()?.unraw().to_string()));
    let is_complete = named.len() == structure.fields.len();
    let members = named.iter().map(|field| {
        let (name, ty) = (&field.ident, &field.ty);
        let position = field
            .ident
            .as_ref()
            .and_then(|ident| model.index_of(ident))
            .unwrap_or_default();
        // All tokens have the span of the type, so that rustc reports there which type the entity's
        // field has.
        let place = position_in(model, entity, position, &ty.to_token_stream());
        let here = Span::call_site().located_at(ty.span());
        let mut member = name.clone();
        if let Some(ident) = &mut member {
            ident.set_span(here);
        }
        let value = quote_spanned!(here=> __lp::shown::<__lp::F<#place>, #ty>(record.#member));
        quote!(#name: #value)
    });
    let from = is_complete.then(|| {
        quote! {
            #[automatically_derived]
            impl ::core::convert::From<#entity> for #ident {
                fn from(record: #entity) -> Self {
                    use #krate::__private as __lp;
                    Self { #(#members),* }
                }
            }
        }
    });
    quote! {
        #[automatically_derived]
        impl #krate::__private::ProjectionParts for #ident {
            type Entity = #entity;
            const NAME: &'static str = #text;
            const FIELDS: &'static [&'static str] = &[#(#names),*];
        }
        #from
    }
}
