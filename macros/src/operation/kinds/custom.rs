//! `custom`: a function of the app for each store.

use linchpin_vocabulary::{kind, store};
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{GenericArgument, Ident, Path, PathArguments, Token, Type};

use super::{Input, Kind, KindModel, Plan, Returns, Shape};
use crate::diagnostics::{Diagnostics, list, nearest};
use crate::entity::{EntityModel, field_number};
use crate::expr::Scope;
use crate::names;
use crate::operation::args::Args;
use crate::operation::path::{Method, RouteArgs, RouteOverride, Segment};
use crate::options;

/// The input of the expansion for a custom operation, in addition to the plan.
#[derive(Clone)]
pub(crate) struct CustomExpansion {
    /// The items before the descriptor.
    pub(crate) statics: TokenStream,
    /// The descriptors of the parameters.
    pub(crate) params: Vec<TokenStream>,
    /// The name, type and value of each argument of the adapter method.
    pub(crate) arguments: Vec<(Ident, TokenStream, TokenStream)>,
    pub(crate) routes: Vec<(Method, Vec<Segment>)>,
    pub(crate) output: Output,
}

/// The result of the operation.
#[derive(Clone)]
pub(crate) enum Output {
    Nothing,
    Value(Box<Type>),
    /// A record, whose key the function returns.
    Record,
    Optional,
    Records,
}

/// `who: String`.
struct Written {
    name: Ident,
    ty: Type,
}

impl Parse for Written {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        input.parse::<Token![:]>()?;
        Ok(Self {
            name,
            ty: input.parse()?,
        })
    }
}

/// A parameter of a function, in order.
struct Parameter {
    name: String,
    wire: String,
    ident: Ident,
    ty: TokenStream,
    /// The part of the request from which the parameter is read.
    place: Place,
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Id,
    Segment,
    Query,
    Body,
    /// The parameter is the body itself.
    Whole,
}

pub(super) const KIND: Kind = Kind::new(
    &kind::CUSTOM,
    &["http", "params", "input", "output", "handler", "sql"],
    &["handler"],
    model,
);

struct Custom {
    http: Option<RouteArgs>,
    method: Method,
    output: Output,
    parameters: Vec<Parameter>,
    segments: Option<Vec<Segment>>,
    /// The store and the path of each function.
    handlers: Vec<(String, Path)>,
    sql: Option<TokenStream>,
    entity: Path,
}

fn model(given: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = given.args;
    let http = http(args, &scope.model.path, scope.d);
    let method = http.as_ref().map_or(Method::Post, |http| {
        http.route_override
            .method
            .as_ref()
            .map_or(Method::Post, |(method, _)| *method)
    });
    let input = type_of(args, "input", scope.d);
    let output = output(args, scope);
    let mut parameters = parameters(args, scope, input.as_ref());
    let segments = segments(http.as_ref(), given.name, &mut parameters, scope);
    for parameter in &mut parameters {
        let in_path = segments
            .iter()
            .flatten()
            .any(|s| *s == Segment::Param(parameter.wire.clone()));
        parameter.place = match parameter.place {
            Place::Body if in_path => Place::Segment,
            Place::Body if input.is_some() || matches!(method, Method::Get | Method::Delete) => {
                Place::Query
            }
            place => place,
        };
    }
    let (handlers, sql) = (written_handlers(args, scope.d), texts(args, scope.d));
    let entity = scope.entity.clone();
    Box::new(Custom {
        http,
        method,
        output,
        parameters,
        segments,
        handlers,
        sql,
        entity,
    })
}

impl KindModel for Custom {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        let (args, name) = (input.args, input.name);
        if args.get("handler").is_some() {
            self.check_stores(input, scope.model, scope.d);
        }
        if self.http.is_none() {
            args.refuse_route(
                &format!("`{name}` has no `http`, so it has no route and only code can call it"),
                scope.d,
            );
        }
        let RouteOverride { method, path } = &args.route.route_override;
        for (key, at) in [
            ("method", method.as_ref().map(|(_, at)| at)),
            ("path", path.as_ref().map(|(_, at)| at)),
        ] {
            if let Some(at) = at {
                scope
                    .d
                    .error(
                        at,
                        format!("the `{key}` of a custom operation belongs in `http(..)`"),
                    )
                    .help("move it there");
            }
        }
        if let (Some(opt), true) = (args.get("input"), self.reads()) {
            scope
                .d
                .error(
                    &opt.key,
                    "`input` reads a body, and a GET route has no body",
                )
                .help("`params(..)`, or another method");
        }
    }

    fn plan(&self, scope: &Scope<'_>) -> Option<Plan> {
        let (fields, params) = descriptors(&self.parameters, scope);
        let kind = self.constant();
        let expansion = CustomExpansion {
            // The descriptor needs a static of its own: rustc does not promote a value with
            // function pointers to a static.
            statics: quote!(#fields static KIND: __lp::Custom = #kind;),
            params,
            arguments: arguments(&self.parameters, scope),
            routes: self
                .segments
                .clone()
                .map(|segments| vec![(self.method, segments)])
                .unwrap_or_default(),
            output: self.output.clone(),
        };
        let shape = if self.http.is_some() {
            Shape::COLLECTION
        } else {
            Shape::Adapter
        };
        let errors = "`validation_failed`; the errors of the store's function.";
        Some(Plan::new(
            shape,
            self.method,
            Returns::Custom(Box::new(expansion)),
            errors,
        ))
    }

    fn expand(&self) -> TokenStream {
        quote!(KIND)
    }
}

impl Custom {
    /// Whether the operation has a GET route, and so changes no records.
    fn reads(&self) -> bool {
        self.http.is_some() && self.method == Method::Get
    }

    /// Checks that each store that the entity names has a function.
    fn check_stores(&self, input: &Input<'_>, entity: &EntityModel, d: &mut Diagnostics) {
        let (at, name) = (input.ident, input.name);
        let lacking = entity
            .stores
            .iter()
            .map(ToString::to_string)
            .filter(|store| !self.handlers.iter().any(|(named, _)| named == store));
        for store in lacking {
            let problem = d.error(at, format!("`{name}` has no function for {store}"));
            if store::named(&store).is_none_or(|facts| facts.available) {
                problem.help(format!("`handler({store} = {name}_{store})`"));
            } else {
                problem.help(format!(
                    "take `{store}` out of `stores(..)`: it has no custom operations yet"
                ));
            }
        }
    }

    /// `__lp::Custom::new(..)`.
    fn constant(&self) -> TokenStream {
        let shape = match &self.output {
            Output::Nothing => quote!(__lp::Shape::Nothing),
            Output::Record => quote!(__lp::Shape::Record),
            Output::Optional => quote!(__lp::Shape::RecordOrNull),
            Output::Records => quote!(__lp::Shape::Records),
            Output::Value(ty) => quote_spanned!(ty.span()=> <#ty as __lp::CustomOutput>::SHAPE),
        };
        let by_id = self
            .parameters
            .first()
            .is_some_and(|p| p.place == Place::Id)
            .then(|| quote!(.by_id()));
        let reads = self.reads().then(|| quote!(.reads()));
        let (sql, handlers) = (&self.sql, self.functions());
        quote!(__lp::Custom::new(#shape) #reads #by_id #sql #handlers)
    }

    /// Checks that the function for a store accepts a call on this store. The macro knows the types
    /// of the stores in the shared table, so their functions need no check.
    fn store_check(&self, store: &str, path: &Path) -> Option<TokenStream> {
        if store::named(store).is_some() {
            return None;
        }
        let entity = &self.entity;
        let arguments = self
            .parameters
            .iter()
            .map(|Parameter { ty, .. }| quote_spanned!(path.span()=> __lp::no_argument::<#ty>()));
        let call = quote_spanned!(path.span()=> call);
        let check = quote_spanned! {path.span()=>
            __lp::assert_on_store(#store, |#call: __lp::CustomCall<#entity, _>| #path(#call #(, #arguments)*))
        };
        Some(quote!(.checked(#check)))
    }

    /// Returns the functions in the form that the runtime calls.
    fn functions(&self) -> TokenStream {
        let Self {
            entity,
            parameters,
            output,
            ..
        } = self;
        let mutable = (!parameters.is_empty()).then(|| quote!(mut));
        let functions = self.handlers.iter().map(|(store, path)| {
            // The span is that of the function, so that rustc reports type errors there and not at
            // the entity.
            let wrapper = match output {
                Output::Nothing => quote!(made_nothing),
                // The same span, so that rustc reports a type that cannot be a result at the
                // function.
                Output::Value(ty) => quote_spanned!(path.span()=> made_value::<#ty, _>),
                Output::Record => respanned(&quote!(made_record::<#entity, _>), path.span()),
                Output::Optional => respanned(&quote!(made_optional::<#entity, _>), path.span()),
                Output::Records => respanned(&quote!(made_records::<#entity, _>), path.span()),
            };
            let first = typed(entity, store, path);
            // Each argument gets its declared type before it is passed on, so that rustc reports
            // the parameter of the function that does not fit. The names are hygienic
            // (`mixed_site`), so they cannot conflict with names of the app, such as a const with
            // the name of a field.
            let own = proc_macro2::Span::mixed_site().located_at(path.span());
            let names: Vec<Ident> = parameters
                .iter()
                .map(|parameter| Ident::new(&format!("{}_arg", parameter.name), own))
                .collect();
            let takes = parameters
                .iter()
                .zip(&names)
                .map(|(Parameter { ty, place, .. }, name)| match place {
                    Place::Whole => quote_spanned!(path.span()=> let #name = call.input::<#ty>()?;),
                    _ => quote_spanned!(path.span()=> let #name = call.take::<#ty>()?;),
                });
            // The span is the path of the app, so that rustc reports a type error there.
            let answer =
                quote_spanned!(path.span()=> __lp::#wrapper(#path(#first #(, #names)*).await));
            let answer = if parameters.is_empty() {
                answer
            } else {
                quote!({ #(#takes)* #answer })
            };
            let call = quote_spanned!(path.span()=> call);
            let store_check = self.store_check(store, path);
            quote!(#store_check .on(__lp::on_store!(#store, #mutable #call, #answer)))
        });
        let functions: Vec<TokenStream> = functions.collect();
        if crate::SERVER {
            quote!(#(#functions)*)
        } else {
            TokenStream::new()
        }
    }
}

/// Returns `call.typed::<Post, __lp::OnSqlite>()`. For a store that is not in the shared table, the
/// type follows from the function's argument.
fn typed(entity: &Path, store: &str, path: &Path) -> TokenStream {
    let store_type = match store::named(store) {
        Some(_) => {
            let marker = format_ident!("{}", names::pascal(&format!("on_{store}")));
            quote!(__lp::#marker)
        }
        None => quote!(_),
    };
    quote_spanned!(path.span()=> call.typed::<#entity, #store_type>())
}

/// Reads `sql(HEAVY, OWN)`: the SQL texts of the operation's statements.
fn texts(args: &Args, d: &mut Diagnostics) -> Option<TokenStream> {
    let list = args
        .get("sql")?
        .list("sql(HEAVIEST, OWN), the names of texts", d)?;
    let texts: Vec<syn::Expr> = options::each(list, d);
    // With a typed const, rustc reports an expression that is not a text at its position.
    Some(quote!(.sql({ const TEXTS: &[&str] = &[#(#texts),*]; TEXTS })))
}

/// Reads `http(method = "GET", path = "ping/{who}")`.
fn http(args: &Args, base: &str, d: &mut Diagnostics) -> Option<RouteArgs> {
    let opt = args.get("http")?;
    let list = opt.list("http(method = \"GET\", path = \"ping/{who}\")", d)?;
    let http = RouteArgs::parse_http(list, d);
    http.route_override.refuse_entity_path(base, d);
    Some(http)
}

/// Reads a type after `=`.
fn type_of(args: &Args, name: &str, d: &mut Diagnostics) -> Option<Type> {
    let opt = args.get(name)?;
    let tokens = if opt.is_list() {
        opt.list("", d)?.to_token_stream()
    } else {
        opt.expr(&format!("{name} = Preview"), d)?.to_token_stream()
    };
    let span = tokens.span();
    let parsed = syn::parse2::<Type>(tokens)
        .map_err(|_| syn::Error::new(span, format!("`{name}` needs a type")));
    d.take(parsed)
}

fn output(args: &Args, scope: &mut Scope<'_>) -> Output {
    let Some(ty) = type_of(args, "output", scope.d) else {
        return Output::Nothing;
    };
    let own = scope.entity.to_token_stream().to_string();
    let is_own = |ty: &Type| ty.to_token_stream().to_string() == own;
    match &ty {
        Type::Tuple(tuple) if tuple.elems.is_empty() => Output::Nothing,
        ty if is_own(ty) => Output::Record,
        ty => match inside(ty) {
            Some((wrapper, one)) if wrapper == "Option" && is_own(one) => Output::Optional,
            Some((wrapper, one)) if wrapper == "Vec" && is_own(one) => Output::Records,
            _ => Output::Value(Box::new(ty.clone())),
        },
    }
}

/// Splits a generic type: for `Option<Post>`, returns `Option` and `Post`.
fn inside(ty: &Type) -> Option<(&Ident, &Type)> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.iter().collect::<Vec<_>>()[..] {
        [GenericArgument::Type(one)] => Some((&last.ident, one)),
        _ => None,
    }
}

/// Returns the declared parameters, then the body.
fn parameters(args: &Args, scope: &mut Scope<'_>, input: Option<&Type>) -> Vec<Parameter> {
    let written = args
        .get("params")
        .and_then(|opt| opt.list("params(who: String)", scope.d));
    let written: Vec<Written> = written
        .map(|list| options::each(list, scope.d))
        .unwrap_or_default();
    let parents: Vec<String> = scope.model.visibility.path_parameters().collect();
    let mut parameters: Vec<Parameter> = Vec::new();
    for Written { name: ident, ty } in written {
        let name = names::snake(&ident.unraw().to_string());
        let wire = names::camel(&name);
        if parameters.iter().any(|p| p.wire == wire) {
            scope
                .d
                .error(&ident, format!("parameter `{name}` repeated in params"))
                .help("name each once");
        } else if parents.contains(&wire) {
            scope
                .d
                .error(
                    &ident,
                    format!("`{ident}` is a parameter of the entity's parent_path"),
                )
                .help("another name");
        } else if name == "input" && input.is_some() {
            scope
                .d
                .error(&ident, "parameter name `input` is reserved for the body")
                .help("another name");
        } else {
            parameters.push(Parameter {
                name,
                wire,
                ident,
                ty: ty.to_token_stream(),
                place: Place::Body,
            });
        }
    }
    if let Some(ty) = input {
        let ident = Ident::new("input", ty.span());
        parameters.push(Parameter {
            name: "input".to_owned(),
            wire: String::new(),
            ident,
            ty: ty.to_token_stream(),
            place: Place::Whole,
        });
    }
    parameters
}

/// Returns the segments of the path, with the wire names of parameters. `{id}` is the key of the
/// record.
fn segments(
    http: Option<&RouteArgs>,
    name: &str,
    parameters: &mut Vec<Parameter>,
    scope: &mut Scope<'_>,
) -> Option<Vec<Segment>> {
    let Some((written, at)) = http?.route_override.path.as_ref() else {
        return Some(vec![Segment::Lit(names::kebab(name))]);
    };
    let mut segments = Vec::new();
    for segment in written {
        let Segment::Param(param) = segment else {
            segments.push(segment.clone());
            continue;
        };
        let wire = names::camel(&names::snake(param));
        match parameters.iter().find(|p| p.wire == wire) {
            Some(declared) if wire == "id" => {
                let problem = scope
                    .d
                    .error(&declared.ident, "`id` of the path is the record's key");
                problem.help("leave it out of `params(..)`: the function gets it first");
            }
            Some(_) => segments.push(Segment::Param(wire)),
            None if wire == "id" => {
                let (entity, ident) = (scope.entity, Ident::new("id", at.span()));
                let ty = quote!(<#entity as __lp::Entity>::Id);
                parameters.insert(
                    0,
                    Parameter {
                        name: "id".to_owned(),
                        wire: wire.clone(),
                        ident,
                        ty,
                        place: Place::Id,
                    },
                );
                segments.push(Segment::Param(wire));
            }
            None => {
                let known = list(
                    parameters
                        .iter()
                        .filter(|p| p.place != Place::Whole)
                        .map(|p| &p.name),
                );
                let problem = scope.d.error(
                    at,
                    format!("`{{{param}}}` of the path is not a parameter of the operation"),
                );
                problem.help(if known.is_empty() {
                    format!("`params({param}: String)`")
                } else {
                    format!("known: {known}")
                });
            }
        }
    }
    Some(segments)
}

/// Returns the store and the path of each function; unreadable ones are reported.
fn written_handlers(args: &Args, d: &mut Diagnostics) -> Vec<(String, Path)> {
    const EXAMPLE: &str = "handler(sqlite = preview_sqlite)";
    let Some(opt) = args.get("handler") else {
        return Vec::new();
    };
    let Some(list) = opt.list(EXAMPLE, d) else {
        return Vec::new();
    };
    if list.is_empty() {
        d.error(&opt.key, "`handler` needs at least one store")
            .help(format!("`{EXAMPLE}`"));
    }
    // Returns the stores that support custom operations. If `available` is false, returns the
    // stores that do not support them yet.
    let store_names = |available: bool| {
        store::STORES
            .iter()
            .filter(move |store| store.available == available)
            .map(|store| store.name)
    };
    // A name that is not similar to a known store is taken as a store of another crate.
    let misspelt = |name: &str| {
        store_names(false).any(|later| later == name)
            || (store::named(name).is_none() && nearest(name, store_names(true)).is_some())
    };
    let options = options::parse(list, d);
    options::repeated(&options, &[], d);
    let mut handlers = Vec::new();
    for opt in &options {
        if misspelt(&opt.name()) {
            options::unknown(
                opt,
                "handler",
                &store_names(true).collect::<Vec<_>>(),
                &store_names(false).collect::<Vec<_>>(),
                d,
            );
        } else if let Some(path) = opt.path(&format!("{} = preview", opt.name()), d) {
            handlers.push((opt.name(), path));
        }
    }
    handlers
}

/// Returns the same tokens with another span.
fn respanned(tokens: &TokenStream, at: proc_macro2::Span) -> TokenStream {
    let respan = |mut token: proc_macro2::TokenTree| {
        token.set_span(at);
        token
    };
    tokens.clone().into_iter().map(respan).collect()
}

/// Returns the fields that determine the types of parameters, and the parameters.
fn descriptors(parameters: &[Parameter], scope: &Scope<'_>) -> (TokenStream, Vec<TokenStream>) {
    let (mut fields, mut params) = (Vec::new(), Vec::new());
    for Parameter {
        wire,
        name,
        ty,
        place,
        ident,
    } in parameters
    {
        let at = field_number(fields.len(), name);
        let place = match place {
            Place::Id => {
                let primary = scope.model.number(scope.model.primary.unwrap_or(0));
                params.push(quote!(__lp::in_id("id", #primary)));
                continue;
            }
            Place::Whole => {
                fields.push(quote_spanned!(ident.span()=> __lp::custom_input::<#ty>()));
                params.push(quote!(__lp::whole(#at, __lp::Whole::Item).of(&PARAMS)));
                continue;
            }
            Place::Segment => quote!(Segment),
            Place::Query => quote!(Query),
            Place::Body => quote!(Body),
        };
        fields.push(quote_spanned!(ident.span()=> __lp::item_field::<#ty>(#name, #wire, #wire)));
        params.push(quote_spanned!(ident.span()=> __lp::custom_param::<#ty>(&PARAMS, #wire, #at, __lp::Place::#place)));
    }
    let statics = (!fields.is_empty())
        .then(|| quote!(static PARAMS: __lp::EntityDesc = __lp::custom_params(&[#(#fields),*]);));
    (statics.unwrap_or_default(), params)
}

/// Returns the arguments of the adapter method.
fn arguments(
    parameters: &[Parameter],
    scope: &Scope<'_>,
) -> Vec<(Ident, TokenStream, TokenStream)> {
    let (krate, entity) = (&scope.model.krate, scope.entity);
    let one = |Parameter {
                   name,
                   ty,
                   place,
                   ident,
                   ..
               }: &Parameter| {
        let name = crate::operation::argument_ident(name, ident.span());
        match place {
            Place::Whole => (name.clone(), ty.clone(), quote!(__lp::item_arg(&#name))),
            Place::Id => {
                let ty = quote!(<#entity as #krate::Entity>::Id);
                (
                    name.clone(),
                    quote!(impl ::core::convert::Into<#ty>),
                    quote!(__lp::custom_arg::<#ty>(#name)),
                )
            }
            _ => (
                name.clone(),
                quote!(impl ::core::convert::Into<#ty>),
                quote!(__lp::custom_arg::<#ty>(#name)),
            ),
        }
    };
    parameters.iter().map(one).collect()
}

impl Output {
    /// Whether the result contains records of the entity.
    pub(super) fn contains_records(&self) -> bool {
        matches!(self, Self::Record | Self::Optional | Self::Records)
    }
}
