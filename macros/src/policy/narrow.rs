//! `input(..)` and `output(..)`: the fields in requests and responses of a route.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Ident, Path};

use super::Policy;
use crate::diagnostics::Diagnostics;
use crate::entity::{EntityModel, Field, Flag, Kind, ROUTES, hidden};
use crate::expr::at;
use crate::options::{self, Opt, OptValue};

/// The fields in one of the two options.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    key: Ident,
    names: Vec<Ident>,
    /// `output = PostCard`: the projection that names the fields instead.
    projection: Option<Path>,
}

/// Reads a list of names, or the path of a projection.
pub(super) fn read_output(opt: &Opt, d: &mut Diagnostics) -> Option<Fields> {
    match &opt.value {
        OptValue::Expr(_) => {
            let path = opt.path("output = PostCard", d)?;
            Some(Fields {
                key: opt.key.clone(),
                names: Vec::new(),
                projection: Some(path),
            })
        }
        _ => read(opt, "output(id, title)", d),
    }
}

/// Reads a list of names.
pub(super) fn read(opt: &Opt, example: &str, d: &mut Diagnostics) -> Option<Fields> {
    let list = opt.list(example, d)?;
    if list.is_empty() {
        d.error(&opt.key, format!("`{}` needs at least one field", opt.key))
            .help(format!("`{example}`"));
        return None;
    }
    let mut names: Vec<Ident> = Vec::new();
    for name in options::each::<Ident>(list, d) {
        if names.contains(&name) {
            d.error(&name, format!("field `{name}` repeated in {}", opt.key))
                .help("name each field once");
        } else {
            names.push(name);
        }
    }
    Some(Fields {
        key: opt.key.clone(),
        names,
        projection: None,
    })
}

impl Fields {
    /// Returns the fields that the option names, as written.
    pub(super) fn named_fields(&self) -> &[Ident] {
        &self.names
    }

    /// Returns the descriptor with the declared names. They are resolved when the route is mounted.
    pub(super) fn tokens(&self) -> TokenStream {
        let names = self.names.iter().map(|name| name.unraw().to_string());
        quote!(&[#(#names),*])
    }

    /// Returns the call on the descriptor for `output`.
    pub(super) fn output_call(&self, entity: &TokenStream) -> TokenStream {
        let Some(path) = &self.projection else {
            let names = self.tokens();
            return quote!(.output(#names));
        };
        // All tokens have the span of the path, so that rustc reports a type error there.
        let output_call = at(
            quote!(__lp::projected::<#entity, #path>()),
            &path.to_token_stream(),
        );
        quote!(.show(#output_call))
    }

    /// Returns the fields that exist, and reports the others.
    fn fields<'a>(
        &'a self,
        model: &'a EntityModel,
        d: &mut Diagnostics,
    ) -> Vec<(&'a Ident, &'a Field)> {
        let mut fields = Vec::new();
        for name in &self.names {
            match model.index_of(name) {
                Some(index) => fields.push((name, &model.fields[index])),
                None => {
                    d.error(name, format!("unknown field `{name}` in {}", self.key))
                        .suggest(&name.unraw().to_string(), model.field_names());
                }
            }
        }
        fields
    }

    /// Checks that every named field can be read.
    pub(super) fn check_readable(&self, place: &str, model: &EntityModel, d: &mut Diagnostics) {
        for (name, field) in self.fields(model, d) {
            if let Some(hidden_by) = hidden(field) {
                d.error(
                    name,
                    format!("{hidden_by} field `{name}` is not allowed in {place}"),
                )
                .help("leave it out");
            }
        }
    }

    fn check_output(&self, model: &EntityModel, d: &mut Diagnostics) {
        self.check_readable("output", model, d);
    }

    /// Returns the fields of both lists.
    pub(super) fn with(&self, others: &Self) -> Self {
        Self {
            key: self.key.clone(),
            names: self.names.iter().chain(&others.names).cloned().collect(),
            projection: None,
        }
    }

    /// Reports fields that are in another list as well.
    pub(super) fn refuse_repeated(&self, earlier: &Self, d: &mut Diagnostics) {
        for name in self
            .names
            .iter()
            .filter(|name| earlier.names.contains(name))
        {
            d.error(name, format!("`{name}` is in {} already", earlier.key))
                .help("name each field once");
        }
    }

    /// Checks that the fields in a request can be written.
    fn check_input(&self, model: &EntityModel, d: &mut Diagnostics) {
        for (name, field) in self.fields(model, d) {
            if field.server_owned() {
                d.error(
                    name,
                    format!("field `{name}` is not allowed in input: only the server writes it"),
                )
                .help("leave it out");
            }
        }
    }

    fn contains(&self, field: &Field) -> bool {
        self.names.iter().any(|name| name.unraw() == field.name)
    }
}

/// The positions of an entity's routes.
const CREATE: usize = 0;
const UPDATE: usize = 3;
const DELETE: usize = 4;

/// Checks both options on an entity's own routes, and also `event`, `idempotent`, `max_body`,
/// `audit` and `output_once`.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    for policy in std::iter::once(&model.defaults).chain(&model.routes) {
        if let Some(output) = &policy.output {
            output.check_output(model, d);
        }
        if let Some(input) = &policy.input {
            input.check_input(model, d);
        }
    }
    for (i, (name, policy)) in ROUTES.iter().zip(&model.routes).enumerate() {
        match &policy.input {
            Some(input) if i != CREATE && i != UPDATE => {
                d.error(
                    &input.key,
                    format!("the request of route `{name}` contains no record"),
                )
                .help("`input(..)` belongs to `create` and `update`");
            }
            Some(input) if i == UPDATE => input.check_update(model, d),
            _ => {}
        }
        if let Some(output) = policy.output.as_ref().filter(|_| i == DELETE) {
            d.error(&output.key, "route `delete` returns no record")
                .help("leave `output` out");
        }
    }
    super::event::check(model, d);
    super::idempotent::check(model, d);
    for (name, policy) in ROUTES
        .iter()
        .zip(&model.routes)
        .filter(|(name, _)| matches!(**name, "get" | "list" | "delete"))
    {
        policy.refuse_max_body(&format!("route `{name}`"), d);
    }
    super::audit::check(model, d);
    super::once::check(model, d);
    let create = &model.routes[CREATE];
    if let (false, Some(input)) = (
        create.disabled,
        create.input.as_ref().or(model.defaults.input.as_ref()),
    ) {
        input.check_complete(model, d);
    }
}

impl Fields {
    fn check_update(&self, model: &EntityModel, d: &mut Diagnostics) {
        for name in &self.names {
            let Some(field) = model.index_of(name).map(|i| &model.fields[i]) else {
                continue;
            };
            if field.immutable() && !field.server_owned() {
                d.error(name, format!("`{name}` is immutable: no update changes it"))
                    .help("leave it out");
            }
        }
    }

    /// Reports a create route that can never succeed.
    fn check_complete(&self, model: &EntityModel, d: &mut Diagnostics) {
        // Private fields are set by the app. A field whose type is an alias may be a list, which is
        // empty by default.
        let lacks = |f: &&Field| {
            let has_other_source = f.server_owned()
                || f.optional
                || f.has_default()
                || f.has(Flag::Private)
                || f.kind == Kind::Other;
            !has_other_source && !self.contains(f)
        };
        for field in model
            .fields
            .iter()
            .filter(lacks)
            .filter(|_| !model.has_unread_options)
        {
            d.error(&self.key, format!("create needs `{}`", field.name))
                .help(format!(
                    "add `{}` to input, or give the field a default",
                    field.name
                ));
        }
    }
}

/// Checks both options on the route of an operation. `returns_records` is whether its response
/// contains records.
pub(crate) fn check_operation(
    policy: &Policy,
    returns_records: bool,
    model: &EntityModel,
    d: &mut Diagnostics,
) {
    if let Some(input) = &policy.input {
        d.error(
            &input.key,
            "the body of an operation contains only its parameters",
        )
        .help("leave `input` out");
    }
    match &policy.output {
        Some(output) if returns_records => output.check_output(model, d),
        Some(output) => d
            .error(&output.key, "this operation returns no record")
            .help("leave `output` out"),
        None => {}
    }
}

/// Refuses both options, and `output_once`, on a `#[route]` function.
pub(crate) fn refuse(policy: &Policy, d: &mut Diagnostics) {
    for fields in policy.input.iter().chain(&policy.output) {
        d.error(
            &fields.key,
            format!(
                "`{}` has no effect: the function defines its request and response",
                fields.key
            ),
        )
        .help("leave it out");
    }
    super::once::refuse(policy, d);
}
