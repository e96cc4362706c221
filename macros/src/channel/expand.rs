//! The expansion: a static descriptor, its const assertions, and the implementation of `Channel`.
//! `__lp` is the private module of the runtime crate, `__rt` that of `linchpin-realtime`.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::LitStr;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::incoming::Run;
use super::item::{Payload, Variant};
use super::marks::{EventPath, Word, path_text};
use super::model::{
    By, Entity, Key, MarkModel, Model, On, VariantModel, is_record_payload, own_name,
};
use crate::entity::{kind_text, member_descriptor};
use crate::expr::{at, in_same_module, index, position_in};

/// The default bounds of a stream: entries and milliseconds.
const DEFAULT_HISTORY: (u32, u64) = (200, 600_000);

/// Returns the implementation. If the declaration is not `sound`, the descriptor has no variants.
/// The assertions are kept, so that rustc reports errors in types together with the errors of the
/// macro.
pub(super) fn expand(model: &Model<'_>, sound: bool) -> TokenStream {
    let (lp, rt) = (&model.of.model.krate, &model.args.krate);
    let (ident, of) = (&model.declared.ident, model.of.path);
    let (descriptor, asserts) = (descriptor(model, sound), asserts(model, sound));
    let encode = encode(model, sound);
    let scope = if model.args.collection.is_some() {
        format_ident!("CollectionChannel")
    } else {
        format_ident!("RecordChannel")
    };
    quote! {
        #[automatically_derived]
        impl #rt::__private::Channel for #ident {
            type Of = #of;
            const DESC: &'static #rt::__private::ChannelDesc = {
                #[allow(unused_imports)] // a channel without options and payloads needs only one
                use #lp::__private as __lp;
                use #rt::__private as __rt;
                static DESC: __rt::ChannelDesc = #descriptor;
                #asserts
                &DESC
            };
            #encode
        }
        #[automatically_derived]
        impl #rt::__private::#scope for #ident {}
    }
}

fn descriptor(model: &Model<'_>, sound: bool) -> TokenStream {
    let args = model.args;
    let name = args
        .name
        .as_ref()
        .map_or_else(|| quote!(""), ToTokens::to_token_stream);
    let (ident, of) = (model.declared.ident.unraw().to_string(), desc(model.of));
    let doc = doc(&model.declared.doc);
    let collection = args.collection.as_ref().map(|_| quote!(.collection()));
    let history = args.history.map(|history| history.tokens(DEFAULT_HISTORY));
    let presence = args.presence.then(|| quote!(.presence()));
    let policy = (!args.policy.is_inherit()).then(|| {
        let policy = args.policy.tokens(&model.of.tokens());
        quote!(.policy(#policy))
    });
    let endpoint = args.endpoint.as_ref().map(|path| quote!(.endpoint(#path)));
    let variants = model
        .variants
        .iter()
        .filter(|_| sound)
        .filter_map(|variant| self::variant(variant, model));
    quote! {
        __rt::ChannelDesc::new(#ident, #name, #of)
            #doc
            #collection
            #history
            #presence
            #policy
            #endpoint
            .variants(&[#(#variants),*])
    }
}

fn doc(text: &str) -> Option<TokenStream> {
    (!text.is_empty()).then(|| quote!(.doc(#text)))
}

/// `<Thread as __lp::Entity>::DESC`, with the span of the path.
fn desc(entity: Entity<'_>) -> TokenStream {
    let path = entity.path;
    at(quote!(<#path as __lp::Entity>::DESC), &entity.tokens())
}

/// `None` for a variant with an error.
fn variant(variant: &VariantModel<'_>, model: &Model<'_>) -> Option<TokenStream> {
    let ident = variant.at.ident.unraw().to_string();
    let doc = doc(&variant.at.doc);
    let mark = match &variant.mark {
        MarkModel::On(all) => {
            let all = all.iter().map(on);
            quote!(__rt::Mark::On(&[#(#all),*]))
        }
        MarkModel::Publish { ephemeral } => quote!(__rt::Mark::Publish { ephemeral: #ephemeral }),
        MarkModel::Relay { rate, echo } => {
            let rate = match rate {
                Some(rate) => {
                    let rate = rate.value();
                    quote!(__lp::Some(#rate))
                }
                None => quote!(__lp::None),
            };
            quote!(__rt::Mark::Relay { rate: #rate, echo: #echo })
        }
        MarkModel::Operation(run) => {
            let (entity, operation) = (desc(run.entity), operation(run.entity, run.event));
            let by = run.by.field().map(|by| self::by(by, run.entity));
            quote!(__rt::Mark::Operation(__rt::Incoming::new(#entity, #operation) #by))
        }
        MarkModel::Handler(path) => handler(path, &model.declared.ident),
        MarkModel::Broken => return None,
    };
    let names = match &variant.mark {
        MarkModel::On(_) => None,
        _ => {
            let written = variant.at.marks.first();
            let name = written.and_then(|mark| mark.name.as_ref()).map_or_else(
                || own_name(variant.at, model.of.model).to_token_stream(),
                ToTokens::to_token_stream,
            );
            let alias = aliases(written.map_or(&[][..], |mark| &mark.alias[..]));
            Some(quote!(.name(#name) #alias))
        }
    };
    let payload = payload(variant, model).map(|payload| quote!(.payload(#payload)));
    Some(quote!(__rt::VariantDesc::new(#ident, #mark) #doc #names #payload))
}

fn aliases(alias: &[LitStr]) -> Option<TokenStream> {
    (!alias.is_empty()).then(|| quote!(.alias(&[#(#alias),*])))
}

fn on(on: &On<'_>) -> TokenStream {
    let entity = desc(on.entity);
    let changes = on.events.iter().map(|event| match &event.word {
        Word::Created => quote!(__rt::Change::Created),
        Word::Updated => quote!(__rt::Change::Updated),
        Word::Deleted => quote!(__rt::Change::Deleted),
        Word::Operation(_) => {
            let operation = operation(on.entity, event);
            quote!(__rt::Change::Operation(#operation))
        }
    });
    let by = on.by.field().map(|by| self::by(by, on.entity));
    let when = on.when.as_ref().map(|(when, _)| quote!(.when(#when)));
    let name = on.mark.name.as_ref().map(|name| quote!(.name(#name)));
    let alias = aliases(&on.mark.alias);
    quote!(__rt::On::new(#entity, &[#(#changes),*]) #by #when #name #alias)
}

fn by(by: By<'_>, entity: Entity<'_>) -> TokenStream {
    let field = entity.model.number(by.field);
    quote!(.by(#field))
}

/// Returns the declaration of an operation, which is a const in the module of the entity.
pub(crate) fn operation_of(entity: &syn::Path, event: &EventPath) -> TokenStream {
    let name = event.at.unraw().to_string();
    let constant = Ident::new(&name.to_uppercase(), event.at.span());
    let path = in_same_module(entity, &quote!(#constant));
    at(
        quote!(__rt::operation::<#entity, _>(&#path)),
        &event.at.to_token_stream(),
    )
}

fn operation(entity: Entity<'_>, event: &EventPath) -> TokenStream {
    operation_of(entity.path, event)
}

fn handler(path: &syn::Path, channel: &Ident) -> TokenStream {
    let function = path_text(path);
    // The call has the position of the app's path, where rustc reports type errors. Its names are
    // resolved here, so that it can use the arguments of the closure.
    let here = Span::call_site().located_at(path.span());
    let call = quote_spanned! {here=>
        #path(cx, __rt::Room::<#channel>::of(rooms, key), __rt::payload(payload)?)
    };
    quote! {
        __rt::Mark::Handler {
            function: #function,
            handle: |cx, rooms, key, payload| __rt::boxed(async move { __rt::answer(#call.await) }),
        }
    }
}

/// `None` if there is no payload.
fn payload(variant: &VariantModel<'_>, model: &Model<'_>) -> Option<TokenStream> {
    Some(match (&variant.mark, &variant.at.payload) {
        (MarkModel::On(all), payload) => {
            let entity = all.first()?.entity;
            match payload {
                Payload::Type(ty) if !is_record_payload(payload, entity) => {
                    let path = entity.path;
                    let call = at(
                        quote!(__rt::projection_payload::<#path, #ty>()),
                        &ty.to_token_stream(),
                    );
                    quote!(#call)
                }
                _ => quote!(__rt::Payload::Record),
            }
        }
        (MarkModel::Operation(run), payload) => {
            let members = match payload {
                Payload::Members(fields) => fields.as_slice(),
                _ => &[],
            };
            if members.is_empty() && !run.names_record {
                return None;
            }
            let path = run.entity.path;
            let id = run.names_record.then(
                || quote!(__lp::item_field::<<#path as __lp::Entity>::Id>("id", "id", "id"),),
            );
            let members = members.iter().map(|field| member_descriptor(field, false));
            quote!(__rt::Payload::Members(&__rt::body(&[__rt::items(&[#id #(#members),*])])))
        }
        (_, Payload::Members(fields)) => {
            let members = fields.iter().map(|field| member_descriptor(field, false));
            quote!(__rt::Payload::Members(&__rt::body(&[__rt::items(&[#(#members),*])])))
        }
        (_, Payload::Type(ty)) => {
            let body = at(quote!(__rt::Body::<#ty>::DESC), &ty.to_token_stream());
            quote!(__rt::Payload::Members(#body))
        }
        (_, Payload::None | Payload::Unreadable) => return None,
    })
    .filter(|_| !model.variants.is_empty())
}

/// Returns the checks that only rustc can make, each with the span of the token in the app.
fn asserts(model: &Model<'_>, sound: bool) -> TokenStream {
    let mut out = TokenStream::new();
    for (at_variant, variant) in model.variants.iter().enumerate() {
        match &variant.mark {
            MarkModel::On(all) => {
                for (at_on, on) in all.iter().enumerate() {
                    out.extend(on_asserts(on, model));
                    if !sound || on.mark.name.is_some() {
                        continue;
                    }
                    for (at_change, event) in on.events.iter().enumerate() {
                        if let Word::Operation(_) = event.word {
                            let (v, o, c) = (index(at_variant), index(at_on), index(at_change));
                            out.extend(quote_spanned!(event.at.span()=> const _: () = __rt::assert_name(&DESC, #v, #o, #c);));
                        }
                    }
                }
            }
            MarkModel::Operation(run) => out.extend(run_asserts(run, variant.at, model)),
            _ => {}
        }
    }
    out
}

fn on_asserts(on: &On<'_>, model: &Model<'_>) -> TokenStream {
    let mut out = TokenStream::new();
    if let Key::By(by) = on.by {
        out.extend(key_assert(by, on.entity, model.of));
    }
    out.extend(gates_assert(on.entity, on.by, model));
    for event in on.events {
        if let Word::Operation(_) = event.word {
            out.extend(change_assert(on.entity.path, event));
        }
    }
    out.extend(on.when.iter().flat_map(|(_, asserts)| asserts.clone()));
    out
}

/// Asserts that the operation exists, is spelled as its const, and changes records.
pub(crate) fn change_assert(entity: &syn::Path, event: &EventPath) -> TokenStream {
    let operation = operation_of(entity, event);
    let (span, path_text) = (event.at.span(), event.path_text());
    let mut spelled = None;
    let name = event.at.unraw().to_string();
    if name.chars().any(char::is_lowercase) {
        let message = format!(
            "linchpin: unknown event `{path_text}`\nhelp: the const of the operation: `{}`",
            name.to_uppercase()
        );
        spelled = Some(quote_spanned!(span=> const _: () = __rt::refuse(#operation, #message);));
    }
    let check = spelled.is_none().then(
        || quote_spanned!(span=> const _: () = __rt::assert_changes(#operation, #path_text);),
    );
    quote!(#spelled #check)
}

/// Asserts that the `by` field has the type of the ids of the room's entity.
fn key_assert(by: By<'_>, entity: Entity<'_>, of: Entity<'_>) -> TokenStream {
    let field = &entity.model.fields[by.field];
    let (name, found, path_text) = (&field.name, kind_text(field), of.path_text());
    let string_key_message = format!(
        "linchpin: `by` field `{name}` is {found}, but `{path_text}` has string ids\nhelp: name the field with the id of the {path_text}"
    );
    let integer_key_message = format!(
        "linchpin: `by` field `{name}` is {found}, but `{path_text}` has integer ids\nhelp: name the field with the id of the {path_text}"
    );
    let position = position_in(
        entity.model,
        entity.path,
        by.field,
        &by.at.to_token_stream(),
    );
    let of = desc(of);
    quote_spanned!(by.at.span()=> const _: () = __lp::expect_relation::<__lp::F<#position>>(#of, #string_key_message, #integer_key_message);)
}

/// Asserts that the gates of the event's entity lead to the room's record.
fn gates_assert(entity: Entity<'_>, by: Key<'_>, model: &Model<'_>) -> Option<TokenStream> {
    let collection = model.args.collection.is_some();
    let (own, of) = (desc(entity), desc(model.of));
    let by = match by {
        Key::By(by) => {
            let field = entity.model.number(by.field);
            quote!(__lp::Some(#field))
        }
        // The record of the event is the record of the room, which every member may read.
        Key::Own if entity.is(model.of) && !collection => return None,
        Key::Own => quote!(__lp::None),
        Key::Broken => return None,
    };
    let span = entity
        .path
        .segments
        .last()
        .map_or_else(Span::call_site, |last| last.ident.span());
    Some(quote_spanned!(span=> const _: () = __rt::assert_gates(#own, #of, #by);))
}

fn run_asserts(run: &Run<'_>, variant: &Variant, model: &Model<'_>) -> TokenStream {
    let mut out = TokenStream::new();
    if let Key::By(by) = run.by {
        out.extend(key_assert(by, run.entity, model.of));
    }
    let (operation, entity) = (operation(run.entity, run.event), desc(run.entity));
    let (name, span) = (run.operation_name(), run.event.at.span());
    let members = match &variant.payload {
        Payload::Members(fields) => fields.as_slice(),
        _ => &[],
    };
    let wires = members.iter().map(|field| &field.wire);
    out.extend(quote_spanned!(span=> const _: () = __rt::assert_runs(#operation, #entity, #name, &[#(#wires),*]);));
    for field in members {
        let (wire, ty, member) = (&field.wire, &field.ty, field.ident.span());
        out.extend(quote_spanned!(member=> const _: () = __rt::assert_parameter::<#ty>(#operation, #entity, #name, #wire);));
    }
    out
}

/// Returns the function that encodes the payloads of variants with `#[publish]`.
fn encode(model: &Model<'_>, sound: bool) -> TokenStream {
    let (lp, rt) = (&model.of.model.krate, &model.args.krate);
    let published = model
        .variants
        .iter()
        .enumerate()
        .filter(|(_, variant)| sound && matches!(variant.mark, MarkModel::Publish { .. }));
    let arms: Vec<TokenStream> = published
        .map(|(position, variant)| {
            let (ident, at) = (&variant.at.ident, Literal::usize_unsuffixed(position));
            match &variant.at.payload {
                Payload::Members(fields) => {
                    let idents: Vec<_> = fields.iter().map(|field| &field.ident).collect();
                    let wires = fields.iter().map(|field| &field.wire);
                    quote!(Self::#ident { #(#idents),* } => __rt::encode_members(#at, [#((#wires, __rt::member(#idents)?)),*]),)
                }
                Payload::Type(_) => quote!(Self::#ident(payload) => __rt::encode_value(#at, payload),),
                Payload::None | Payload::Unreadable => {
                    quote!(Self::#ident => __rt::encode_value(#at, &()),)
                }
            }
        })
        .collect();
    let all_are_published = arms.len() == model.variants.len() && sound;
    let name = model.declared.ident.unraw().to_string();
    let rest = (!all_are_published).then(|| quote!(_ => __rt::not_published(#name),));
    quote! {
        fn encode(&self) -> #lp::Result<#rt::__private::Encoded> {
            use #rt::__private as __rt;
            match self {
                #(#arms)*
                #rest
            }
        }
    }
}
