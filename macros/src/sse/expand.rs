//! The expansion: a static descriptor, its const assertions, and a const that names it.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::parse::{Endpoint, Ends, Event, Source};
use crate::channel::{Word, change_assert, operation_of};
use crate::expr::at;
use crate::gather::Entities;

/// The default bounds of a stream: entries and milliseconds.
const DEFAULT_HISTORY: (u32, u64) = (500, 3_600_000);

/// Returns a const without events, for a declaration with errors, so that code that uses it causes
/// no further errors.
pub(super) fn poisoned(endpoint: &Endpoint) -> TokenStream {
    let descriptor = TokenStream::new();
    item(endpoint, None, &descriptor, &descriptor, &descriptor)
}

/// Returns the const. If the declaration is not `sound`, the endpoint has no events; the assertions
/// are kept.
pub(super) fn expand(endpoint: &Endpoint, entities: &Entities, sound: bool) -> TokenStream {
    let sources = endpoint.sources.iter().filter(|_| sound).map(source);
    let sources = quote!(#(#sources),*);
    let asserts: TokenStream = endpoint.sources.iter().map(asserts).collect();
    let options = if sound {
        options(endpoint, entities)
    } else {
        TokenStream::new()
    };
    let krate = &entities.own.krate;
    item(endpoint, Some(krate), &sources, &options, &asserts)
}

/// Returns the const. `lp` is the path of the runtime crate; `None` if no entity is known.
fn item(
    endpoint: &Endpoint,
    lp: Option<&TokenStream>,
    sources: &TokenStream,
    options: &TokenStream,
    asserts: &TokenStream,
) -> TokenStream {
    let Endpoint {
        attrs,
        vis,
        ends: Ends { first, last },
        ident,
        path,
        krate,
        ..
    } = endpoint;
    let name = ident.unraw().to_string();
    let here = Span::call_site().located_at(ident.span());
    let lp = lp.map(|lp| {
        quote! {
            #[allow(unused_imports)] // unused if the endpoint has errors
            use #lp::__private as __lp;
        }
    });
    quote_spanned! {here=>
        #(#attrs)*
        #vis #first #ident: #krate::channel::Sse = {
            #lp
            use #krate::__private as __rt;
            static DESC: __rt::SseDesc = __rt::SseDesc::new(#name, #path, &[#sources]) #options;
            #asserts
            __rt::Sse::new(&DESC)
        } #last
    }
}

fn options(endpoint: &Endpoint, entities: &Entities) -> TokenStream {
    let doc = endpoint.doc();
    let doc = (!doc.is_empty()).then(|| quote!(.doc(#doc)));
    let policy = (!endpoint.policy.is_inherit()).then(|| {
        let entity = entities.own.ident.to_token_stream();
        let policy = endpoint.policy.tokens(&entity);
        quote!(.policy(#policy))
    });
    let filter = endpoint.filter.as_ref().map(|path| {
        let text = path.to_token_stream().to_string().replace(' ', "");
        // The span is the path of the app, so that rustc reports a type error there.
        quote_spanned!(path.span()=> .filter(#text, #path))
    });
    let heartbeat = endpoint.heartbeat.map(|millis| {
        let millis = Literal::u64_unsuffixed(millis);
        quote!(.heartbeat(#millis))
    });
    let history = endpoint
        .history
        .map(|history| history.tokens(DEFAULT_HISTORY));
    let max = endpoint.max_connections.map(|max| {
        let max = Literal::u32_unsuffixed(max);
        quote!(.max_connections(#max))
    });
    quote!(#doc #policy #filter #heartbeat #history #max)
}

fn source(source: &Source) -> TokenStream {
    let desc = desc(source);
    let events = source.events.iter().map(|event| self::event(event, source));
    quote!(__rt::SseSource::new(#desc, &[#(#events),*]))
}

/// `<Notification as __lp::Entity>::DESC`, with the span of the path.
fn desc(source: &Source) -> TokenStream {
    let path = &source.entity;
    at(
        quote!(<#path as __lp::Entity>::DESC),
        &path.to_token_stream(),
    )
}

fn event(event: &Event, source: &Source) -> TokenStream {
    let change = match &event.path.word {
        Word::Created => quote!(__rt::Change::Created),
        Word::Updated => quote!(__rt::Change::Updated),
        Word::Deleted => quote!(__rt::Change::Deleted),
        Word::Operation(_) => {
            let operation = operation_of(&source.entity, &event.path);
            quote!(__rt::Change::Operation(#operation))
        }
    };
    let name = event.names.first().map(|name| quote!(.name(#name)));
    let alias = event.names.get(1..).filter(|alias| !alias.is_empty());
    let alias = alias.map(|alias| quote!(.alias(&[#(#alias),*])));
    quote!(__rt::SseEvent::new(#change) #name #alias)
}

/// Returns the checks that only rustc can make, each with the span of the token in the app.
fn asserts(source: &Source) -> TokenStream {
    let desc = desc(source);
    let span = source
        .entity
        .segments
        .last()
        .map_or_else(Span::call_site, |last| last.ident.span());
    let mut out =
        quote_spanned!(span=> const _: () = __rt::assert_gates(#desc, #desc, __lp::None););
    for event in &source.events {
        if let Word::Operation(_) = event.path.word {
            out.extend(change_assert(&source.entity, &event.path));
        }
    }
    out
}
