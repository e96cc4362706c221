//! The expansion of `#[entity]`: the struct, markers, inputs, adapter and one static descriptor. Infallible.
//!
//! Data and calls into the runtime, no logic: a body longer than a few lines is a missing function of `__private`.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Visibility};

use super::field::{Default, Field, Flag, Kind};
use super::field_tokens;
use super::model::{EntityModel, Place};
use super::{check, docs, gates, relations, search, summaries, visibility};
use crate::expr::{CtxPath, at};
use crate::policy::Policy;

/// Everything but the schema macro.
pub(crate) fn expand(model: &EntityModel) -> TokenStream {
    let item = &model.item;
    let markers = markers(model);
    let create = input(model, Input::Create);
    let patch = input(model, Input::Patch);
    let surface = surface(model);
    let krate = &model.krate;
    let fields = field_impls(model);
    let desc = descriptor(model);
    let entity = entity_impl(model);
    let inputs = [input_impl(model, Input::Create), input_impl(model, Input::Patch)];
    let adapter = crate::SERVER.then(|| adapter_impls(model));
    let assertions = assertions(model);
    let consts = relations::consts(model);
    // A field on its way out is still read and written here.
    let deprecated = item.fields.iter().any(|field| field.attrs.iter().any(|attr| attr.path().is_ident("deprecated")));
    let allow = deprecated.then(|| quote!(#[allow(deprecated)]));
    quote! {
        #[allow(dead_code)] // the store reads its fields; an app need not
        #item
        #markers
        #create
        #patch
        #surface
        #consts
        #allow
        const _: () = {
            use #krate::__private as __lp;
            #fields
            #desc
            #entity
            #(#inputs)*
            #adapter
            #assertions
        };
    }
}

fn markers(model: &EntityModel) -> TokenStream {
    let (vis, module) = (&model.vis, &model.generated.module);
    let doc = docs::module(&model.name);
    let inner = from_inside(vis);
    let structs = model.fields.iter().map(|field| {
        let (ident, doc) = (&field.ident, docs::marker(&model.name, &field.name, &field.doc));
        quote! {
            #[doc = #doc]
            #inner struct #ident;
        }
    });
    quote! {
        #[doc = #doc]
        #[allow(non_camel_case_types, dead_code, clippy::module_inception)] // named as the fields are; operations use some
        #vis mod #module { #(#structs)* }
    }
}

/// The same visibility, seen from a module inside.
fn from_inside(vis: &Visibility) -> TokenStream {
    match vis {
        Visibility::Inherited => quote!(pub(super)),
        Visibility::Restricted(restricted) => {
            let path = &restricted.path;
            match path.segments.first().map(|s| s.ident.to_string()).as_deref() {
                Some("self") => quote!(pub(super)),
                Some("super") => quote!(pub(in super::#path)),
                _ => vis.to_token_stream(),
            }
        }
        Visibility::Public(_) => vis.to_token_stream(),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Input {
    Create,
    Patch,
}

impl Input {
    /// The fields it holds. Private ones are among them: code sets them, HTTP does not know them.
    fn fields(self, model: &EntityModel) -> impl Iterator<Item = &Field> {
        model.fields.iter().filter(move |f| !f.server_owned() && (self == Self::Create || !f.immutable()))
    }

    /// Whether a member is `Option` of the field's type: absent selects the default, or leaves the field unchanged.
    fn may_be_absent(self, field: &Field) -> bool {
        self == Self::Patch || field.has_default()
    }
}

fn input(model: &EntityModel, input: Input) -> TokenStream {
    let vis = &model.vis;
    let (ident, doc, derive) = match input {
        Input::Create => (&model.generated.create, docs::create(&model.name), None),
        Input::Patch => (&model.generated.patch, docs::patch(&model.name), Some(quote!(#[derive(Default)]))),
    };
    let mut nested = false;
    let members: Vec<TokenStream> = input
        .fields(model)
        .map(|field| {
            let (name, vis, ty, doc) = (&field.ident, &field.vis, &field.ty, docs::member(&field.name, &field.doc));
            let absent = input.may_be_absent(field);
            nested |= absent && field.optional;
            let ty = if absent { quote!(::core::option::Option<#ty>) } else { quote!(#ty) };
            quote!(#[doc = #doc] #vis #name: #ty,)
        })
        .collect();
    // Requests fill them; an app need not. The outer option is presence, the inner one null: JSON merge has both.
    let allow = if nested { quote!(#[allow(dead_code, clippy::option_option)]) } else { quote!(#[allow(dead_code)]) };
    quote! {
        #[doc = #doc]
        #derive
        #allow
        #vis struct #ident { #(#members)* }
    }
}

fn surface(model: &EntityModel) -> TokenStream {
    let (vis, ident, krate) = (&model.vis, &model.ident, &model.krate);
    let (adapter, query) = (&model.generated.adapter, &model.generated.list_query);
    let (query_doc, adapter_doc) = (docs::list_query(&model.name), docs::adapter(&model.name));
    let adapter_struct = crate::SERVER.then(|| {
        quote! {
            #[doc = #adapter_doc]
            #[derive(Clone, Debug)]
            #[allow(dead_code)] // an app may leave its records to the routes
            #vis struct #adapter(#krate::Adapter<#ident>);
        }
    });
    quote! {
        #[doc = #query_doc]
        #[allow(dead_code)] // as the adapter
        #vis type #query = #krate::entity::ListQuery<#ident>;
        #adapter_struct
    }
}

fn field_impls(model: &EntityModel) -> TokenStream {
    let (ident, module) = (&model.ident, &model.generated.module);
    let fields = model.fields.iter().enumerate().map(|(i, field)| {
        let (name, ty, index) = (&field.ident, &field.ty, Literal::usize_unsuffixed(i));
        quote! {
            impl __lp::Field for #module::#name {
                type Entity = #ident;
                type Ty = #ty;
                const INDEX: usize = #index;
            }
        }
    });
    quote!(#(#fields)*)
}

fn descriptor(model: &EntityModel) -> TokenStream {
    let (name, path, storage) = (&model.name, &model.path, &model.storage_name);
    let fields = (0..model.fields.len()).map(|i| field_desc(model, i)).chain(visibility::expiry(model));
    let primary = Literal::usize_unsuffixed(model.primary.unwrap_or(0));
    let doc = (!model.doc.is_empty()).then(|| {
        let doc = &model.doc;
        quote!(doc: #doc,)
    });
    let namespace = model.namespace.as_ref().map(|ns| quote!(namespace: __lp::Some(#ns),));
    let indexes = (!model.indexes.is_empty()).then(|| {
        let indexes = model.indexes.iter().filter(|i| !i.places.is_empty()).map(|index| {
            let fields = index.places.iter().map(sort_desc);
            quote!(__lp::index(&[#(#fields),*]))
        });
        quote!(indexes: &[#(#indexes),*],)
    });
    let uniques = (!model.uniques.is_empty()).then(|| {
        let uniques = model.uniques.iter().filter(|u| !u.places.is_empty()).map(|unique| {
            let fields = unique.places.iter().map(|place| Literal::usize_unsuffixed(place.field));
            let global = unique.global;
            quote!(__lp::unique(&[#(#fields),*], #global))
        });
        quote!(uniques: &[#(#uniques),*],)
    });
    let sort = (!model.sort.is_empty()).then(|| {
        let keys = model.sort.iter().map(sort_desc);
        quote!(sort: &[#(#keys),*],)
    });
    let pagination = pagination(model).map(|limits| quote!(pagination: #limits,));
    let paging = model.numbered.then(|| quote!(paging: __lp::Paging::NUMBER,));
    let version = model.version.as_ref().map(|version| {
        let (field, required) = (Literal::usize_unsuffixed(version.field), version.required_on_write);
        quote!(version: __lp::Some(__lp::VersionDesc { field: #field, required_on_write: #required }),)
    });
    let ident = &model.ident;
    let check = model.check.as_ref().map(|check| {
        let call = quote_spanned!(check.span()=> __lp::check::<#ident>(row, #check));
        quote!(check: __lp::Some(|row| #call),)
    });
    let defaults = (!model.defaults.is_inherit()).then(|| {
        let defaults = model.defaults.tokens();
        quote!(defaults: #defaults,)
    });
    let routes = model.routes.iter().any(|r| !r.is_inherit()).then(|| {
        let routes = model.routes.iter().map(Policy::tokens);
        quote!(routes: [#(#routes),*],)
    });
    let stores = (!model.stores.is_empty()).then(|| {
        let stores = model.stores.iter().map(ToString::to_string);
        quote!(stores: &[#(#stores),*],)
    });
    let visibility = visibility::descriptor(model);
    let gates = gates::descriptor(model);
    let relations = relations::descriptor(model);
    let summaries = summaries::descriptor(model);
    let search = search::descriptor(model);
    let rename = model.rename_from.as_ref().map(|old| quote!(rename_from: __lp::Some(#old),));
    quote! {
        static DESC: __lp::EntityDesc = __lp::EntityDesc {
            #doc #namespace #indexes #uniques #sort #pagination #paging #version #visibility #gates #relations #summaries #search
            #check #defaults #routes #stores #rename
            ..__lp::entity(#name, #path, #storage, &[#(#fields),*], #primary, __lp::at(file!(), line!()))
        };
    }
}

fn sort_desc(place: &Place) -> TokenStream {
    let field = Literal::usize_unsuffixed(place.field);
    if place.desc { quote!(__lp::desc(#field)) } else { quote!(__lp::asc(#field)) }
}

fn field_desc(model: &EntityModel, i: usize) -> TokenStream {
    let field = &model.fields[i];
    let (module, ident) = (&model.generated.module, &field.ident);
    let (name, wire, column) = (&field.name, &field.wire, &field.column);
    if field.generated {
        return quote!(__lp::version_field(#name, #wire, #column));
    }
    let mut flags = field_tokens::flags(field);
    match (model.filterable(i), model.sortable(i)) {
        (true, true) => flags.push(quote!(LISTED)),
        (true, false) => flags.push(quote!(FILTERABLE)),
        (false, true) => flags.push(quote!(SORTABLE)),
        (false, false) => {}
    }
    let options = field_tokens::options(field, &flags, &quote!(__lp::literal::<#module::#ident>));
    let computed = computed(model, field);
    quote!(__lp::field::<#module::#ident>(#name, #wire, #column) #options #computed)
}

/// The function of a computed field, and the positions of what it follows from.
fn computed(model: &EntityModel, field: &Field) -> Option<TokenStream> {
    let computed = field.options.computed.as_ref().filter(|_| !model.inert)?;
    let (module, ident, function) = (&model.generated.module, &field.ident, &computed.function);
    let from = computed.from.iter().filter_map(|name| model.index_of(name)).map(Literal::usize_unsuffixed);
    let call = quote_spanned!(function.span()=> __lp::compute::<#module::#ident>(row, #function));
    Some(quote!(.computed(__lp::follows::<#module::#ident>(|row| #call, &[#(#from),*]))))
}

fn pagination(model: &EntityModel) -> Option<TokenStream> {
    let args = &model.pagination;
    let default = args.default.as_ref().map(|limit| quote!(default_limit: #limit,));
    let max = args.max.as_ref().map(|limit| quote!(max_limit: #limit,));
    let unbounded = args.unbounded_lookup.map(|unbounded| quote!(unbounded_lookup: #unbounded,));
    if default.is_none() && max.is_none() && unbounded.is_none() {
        return None;
    }
    // Beside all of them, the rest would be none, which clippy tells the user.
    let all = default.is_some() && max.is_some() && unbounded.is_some();
    let rest = (!all).then(|| quote!(..__lp::Pagination::DEFAULT));
    Some(quote!(__lp::Pagination { #default #max #unbounded #rest }))
}

fn entity_impl(model: &EntityModel) -> TokenStream {
    let (ident, module, generated) = (&model.ident, &model.generated.module, &model.generated);
    let (adapter, create, patch) = (&generated.adapter, &generated.create, &generated.patch);
    // Without a key the declaration is wrong already; any type will do then.
    let id = model.primary.map_or_else(|| quote!(::std::string::String), |i| model.fields[i].inner.to_token_stream());
    let members = model.fields.iter().map(|field| {
        let name = &field.ident;
        quote!(#name: __lp::read::<#module::#name>(row)?)
    });
    let row = if model.fields.is_empty() { quote!(_) } else { quote!(row) };
    let adapter = crate::SERVER.then(|| quote!(type Adapter = #adapter;));
    // What is no entity is told so, without a list of all that are.
    quote! {
        #[diagnostic::do_not_recommend]
        impl __lp::Entity for #ident {
            const DESC: &'static __lp::EntityDesc = &DESC;
            #adapter
            type Id = #id;
            type Create = #create;
            type Patch = #patch;
            fn read(#row: &dyn __lp::Row) -> ::core::result::Result<Self, __lp::DecodeError> {
                ::core::result::Result::Ok(Self { #(#members),* })
            }
        }
    }
}

fn input_impl(model: &EntityModel, input: Input) -> TokenStream {
    let module = &model.generated.module;
    let ident = if input == Input::Create { &model.generated.create } else { &model.generated.patch };
    let puts: Vec<TokenStream> = input
        .fields(model)
        .map(|field| {
            let name = &field.ident;
            let value = if input.may_be_absent(field) { quote!(self.#name) } else { quote!(__lp::Some(self.#name)) };
            quote!(__lp::put::<#module::#name>(#value, set);)
        })
        .collect();
    let set = if puts.is_empty() { quote!(_) } else { quote!(set) };
    quote! {
        impl __lp::Input for #ident {
            fn write(self, #set: &mut dyn FnMut(usize, __lp::Value)) { #(#puts)* }
        }
    }
}

fn adapter_impls(model: &EntityModel) -> TokenStream {
    let (ident, adapter) = (&model.ident, &model.generated.adapter);
    quote! {
        impl ::core::convert::From<__lp::Adapter<#ident>> for #adapter {
            fn from(adapter: __lp::Adapter<#ident>) -> Self { Self(adapter) }
        }
        impl ::core::ops::Deref for #adapter {
            type Target = __lp::Adapter<#ident>;
            fn deref(&self) -> &Self::Target { &self.0 }
        }
        impl<S: ::core::marker::Sync> __lp::FromRequestParts<S> for #adapter {
            type Rejection = __lp::Error;
            fn from_request_parts(parts: &mut __lp::Parts, _: &S) -> impl ::core::future::Future<Output = __lp::Result<Self>> {
                ::core::future::ready(__lp::adapter_of::<#ident>(parts))
            }
        }
    }
}

/// Values of the context have the types of the fields they are for.
fn provided(model: &EntityModel) -> TokenStream {
    let module = &model.generated.module;
    let defaults = model.fields.iter().filter_map(|field| match &field.options.default {
        Default::Ctx(CtxPath::Value(path), _) => Some((field, path)),
        _ => None,
    });
    let scopes = model.visibility.scopes.iter().filter_map(|scope| match &scope.from {
        visibility::From::Ctx(CtxPath::Value(path), _) => Some((&model.fields[scope.field], path)),
        _ => None,
    });
    let check = |(field, path): (&Field, &syn::Path)| {
        let (ident, name) = (&field.ident, &field.name);
        at(quote!(const _: () = __lp::expect_context::<#module::#ident, #path>(#name);), &path.to_token_stream())
    };
    defaults.chain(scopes).map(check).collect()
}

/// What only types and consts decide: fields behind a name of the user's, limits behind a path.
fn assertions(model: &EntityModel) -> TokenStream {
    if model.inert {
        return TokenStream::new();
    }
    let module = &model.generated.module;
    let mut out = TokenStream::new();
    let mut expect = |field: &Field, at: Span, kinds: &str, message: String, help: &str| {
        if field.kind == Kind::Other {
            // All tokens take one span, or rustc underlines from the first to the last.
            let at_span = |ident: &Ident| {
                let mut ident = ident.clone();
                ident.set_span(at);
                ident
            };
            let (module, ident, kinds) = (at_span(module), at_span(&field.ident), Ident::new(kinds, at));
            let message = format!("linchpin: {message}\nhelp: {help}");
            out.extend(quote_spanned!(at=> const _: () = __lp::expect::<#module::#ident>(__lp::#kinds, #message);));
        }
    };
    for field in &model.fields {
        let (name, text) = (&field.name, check::kind_text(field));
        if field.has(Flag::Primary) {
            expect(field, field.ty.span(), "KEYS", format!("primary key `{name}` must be String or i64, found {text}"), "`String`");
        }
        match &field.options.default {
            Default::Uuid(word) | Default::Cuid(word) => {
                let message = format!("default `{word}` needs a string field, `{name}` is {text}");
                expect(field, word.span(), "TEXTS", message, "make it a `String`");
            }
            Default::Now(word) => {
                let message = format!("default `now` needs a date field, `{name}` is {text}");
                expect(field, word.span(), "DATES", message, "make it a `Timestamp`");
            }
            Default::Ctx(CtxPath::Claim(_) | CtxPath::Value(_), _) => {}
            Default::Ctx(_, value) => {
                let message = format!("this is a string, which `{name}` is not");
                expect(field, value.span(), "NAMES", message, "make it a `String`");
            }
            _ => {}
        }
        if let Some(at) = &field.options.on_update {
            let message = format!("`on_update = now` needs a date field, `{name}` is {text}");
            expect(field, at.span(), "DATES", message, "make it a `Timestamp`");
        }
        for (key, kinds) in field.options.rules.keys() {
            let of = match kinds {
                "TEXTS" => "string",
                "TEXT_LISTS" => "string_array",
                "LISTS" => "list",
                "DATES" => "date",
                "INTEGERS" => "integer",
                _ => "number",
            };
            let message = format!("`{key}` on field `{name}` of type {text}");
            expect(field, key.span(), kinds, message, &format!("as written, `{key}` is for {of} fields"));
        }
        for flag in [Flag::Filterable, Flag::Sortable] {
            if let Some(at) = field.options.flag(flag) {
                expect(field, at.span(), "SCALARS", format!("`{at}` on field `{name}` of type {text}"), "leave the option out");
            }
        }
    }
    for (field, at, kinds, message, help) in visibility::assertions(model) {
        expect(&model.fields[field], at, kinds, message, help);
    }
    for (field, at, message) in search::assertions(model) {
        expect(&model.fields[field], at, "TEXTS", message, "leave it out");
    }
    let lists = model.indexes.iter().flat_map(|i| &i.places).chain(model.uniques.iter().flat_map(|u| &u.places)).chain(&model.sort);
    for place in lists {
        let field = &model.fields[place.field];
        let message = format!("`{}` of type {} cannot be indexed, unique or sorted by", field.name, check::kind_text(field));
        expect(field, place.ident.span(), "SCALARS", message, "name a field whose values compare");
    }
    out.extend(provided(model));
    out.extend(relations::assertions(model));
    out.extend(gates::assertions(model));
    out.extend(summaries::assertions(model));
    // Literals have been checked; a const is known only now.
    let mut consts = [&model.pagination.default, &model.pagination.max].into_iter().flatten();
    if let Some(path) = consts.find(|limit| matches!(limit, syn::Expr::Path(_)))
        && let Some(limits) = pagination(model)
    {
        out.extend(quote_spanned!(path.span()=> const _: () = __lp::check_pagination(&#limits);));
    }
    out
}
