//! The attribute syntax of `#[field(..)]`: tokens to plain structs, without checks.

use darling::FromMeta;
use darling::ast::NestedMeta;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Attribute, Expr, Ident, LitStr, Meta, Path, Token};

use super::rules::{RuleArgs, RuleKeys};
use crate::diagnostics::Diagnostics;
use crate::expr::{CtxPath, Source};
use crate::list::List;
use crate::options::{self, Opt, OptValue, Rest};

pub(crate) const FIELD_OPTIONS: &[&str] = &[
    "primary",
    "immutable",
    "read_only",
    "write_only",
    "private",
    "filterable",
    "sortable",
    "client_set",
    "sensitive",
    "required",
    "default",
    "computed",
    "on_update",
    "column",
    "rename_from",
    "transform",
    "length",
    "range",
    "pattern",
    "format",
    "items",
    "unique_items",
    "each",
    "one_of",
];
const PLANNED_FIELD_OPTIONS: &[&str] = &["erase"];

/// A boolean option of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    Primary,
    Immutable,
    ReadOnly,
    WriteOnly,
    Private,
    Filterable,
    Sortable,
    ClientSet,
    Sensitive,
    Required,
}

/// `default = ..`.
#[derive(Debug, Clone, std::default::Default)]
pub(crate) enum Default {
    #[default]
    None,
    Uuid(Ident),
    Cuid(Ident),
    Now(Ident),
    /// `ctx(actor.id)`, and its expression.
    Ctx(CtxPath, Expr),
    /// A literal, a variant or the path of a const.
    Value(Expr),
    /// There is a default, but it has an error.
    Poisoned,
}

impl Default {
    /// Whether the server generates the value: `uuid`, `cuid`, `now`, `ctx(..)`.
    pub(crate) fn is_generated(&self) -> bool {
        matches!(
            self,
            Self::Uuid(_) | Self::Cuid(_) | Self::Now(_) | Self::Ctx(..)
        )
    }

    /// Whether there is a default.
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// `computed = path`, `computed(path, from(a, b))`.
#[derive(Debug, Clone)]
pub(crate) struct ComputedArgs {
    /// The word `computed`.
    pub(crate) key: Ident,
    /// The function that computes the value from the record.
    pub(crate) function: Path,
    /// The fields that it reads. Empty means all fields.
    pub(crate) from: Vec<Ident>,
}

/// `#[field(..)]` as written.
#[derive(Debug, Clone, std::default::Default)]
pub(crate) struct FieldArgs {
    flags: Vec<(Flag, Ident)>,
    pub(crate) default: Default,
    pub(crate) computed: Option<ComputedArgs>,
    /// The word `on_update`.
    pub(crate) on_update: Option<Ident>,
    pub(crate) column: Option<LitStr>,
    /// The earlier names, newest first.
    pub(crate) rename_from: Vec<LitStr>,
    /// The word `transform` and the function that a migration runs.
    pub(crate) transform: Option<(Ident, Path)>,
    pub(crate) rules: RuleArgs,
}

/// The keys of `#[field(..)]`; the constraints have their own table.
#[derive(Debug, std::default::Default, FromMeta)]
struct FieldKeys {
    primary: Option<Opt>,
    immutable: Option<Opt>,
    read_only: Option<Opt>,
    write_only: Option<Opt>,
    private: Option<Opt>,
    filterable: Option<Opt>,
    sortable: Option<Opt>,
    client_set: Option<Opt>,
    sensitive: Option<Opt>,
    required: Option<Opt>,
    default: Option<Opt>,
    computed: Option<Opt>,
    on_update: Option<Opt>,
    column: Option<Opt>,
    rename_from: Option<Opt>,
    transform: Option<Opt>,
    #[darling(flatten)]
    rules: RuleKeys,
}

impl FieldArgs {
    /// Removes Linchpin's attributes from a field and reads them.
    pub(crate) fn take(attrs: &mut Vec<Attribute>, d: &mut Diagnostics) -> Self {
        let keys: FieldKeys = options::table(field_options(attrs, d), &[], d);
        for opt in &keys.rules.rest.0 {
            unknown_field_option(opt, &opt.name(), d);
        }
        let flags = [
            (Flag::Primary, keys.primary),
            (Flag::Immutable, keys.immutable),
            (Flag::ReadOnly, keys.read_only),
            (Flag::WriteOnly, keys.write_only),
            (Flag::Private, keys.private),
            (Flag::Filterable, keys.filterable),
            (Flag::Sortable, keys.sortable),
            (Flag::ClientSet, keys.client_set),
            (Flag::Sensitive, keys.sensitive),
            (Flag::Required, keys.required),
        ];
        Self {
            flags: flags
                .into_iter()
                .filter_map(|(flag, opt)| opt.filter(|opt| opt.flag(d)).map(|opt| (flag, opt.key)))
                .collect(),
            default: keys.default.map(|opt| default(&opt, d)).unwrap_or_default(),
            computed: keys.computed.and_then(|opt| computed(&opt, d)),
            on_update: keys.on_update.and_then(|opt| on_update(&opt, d)),
            column: keys
                .column
                .and_then(|opt| opt.text("column = \"created\"", d)),
            rename_from: keys
                .rename_from
                .map(|opt| opt.texts("rename_from = \"old_name\"", d))
                .unwrap_or_default(),
            transform: keys.transform.and_then(|opt| {
                opt.path("transform = names::split", d)
                    .map(|path| (opt.key.clone(), path))
            }),
            rules: RuleArgs::read(keys.rules, d),
        }
    }

    /// Returns the word of the option, if it is set.
    pub(crate) fn flag(&self, flag: Flag) -> Option<&Ident> {
        self.flags
            .iter()
            .find(|(f, _)| *f == flag)
            .map(|(_, at)| at)
    }
}

/// `computed = path` or `computed(path, from(a, b))`.
fn computed(opt: &Opt, d: &mut Diagnostics) -> Option<ComputedArgs> {
    const EXAMPLE: &str = "computed = slug_key";
    const FROM: &str = "computed(slug_key, from(slug))";
    let OptValue::List(list) = &opt.value else {
        return opt.path(EXAMPLE, d).map(|function| ComputedArgs {
            key: opt.key.clone(),
            function,
            from: Vec::new(),
        });
    };
    let read = |input: ParseStream<'_>| {
        let function = input.parse::<Path>()?;
        input.parse::<Token![,]>()?;
        let from = input.parse::<Ident>()?;
        if from != "from" {
            return Err(syn::Error::new(from.span(), "expected `from(..)`"));
        }
        let names;
        syn::parenthesized!(names in input);
        let names = names.parse_terminated(Ident::parse_any, Token![,])?;
        input.parse::<Option<Token![,]>>()?;
        Ok((function, names.into_iter().collect::<Vec<_>>()))
    };
    match list.read(read) {
        Ok((function, from)) if !from.is_empty() => Some(ComputedArgs {
            key: opt.key.clone(),
            function,
            from,
        }),
        Ok(_) => {
            d.error(&opt.key, "`from` needs at least one field")
                .help(format!("`{FROM}`"));
            None
        }
        Err(error) => {
            d.error_at(
                error.span(),
                format!("`computed` takes a function, and optionally `from(..)` with the fields that it reads: {error}"),
            )
            .help(format!("`{EXAMPLE}` or `{FROM}`"));
            None
        }
    }
}

fn on_update(opt: &Opt, d: &mut Diagnostics) -> Option<Ident> {
    let value = opt.ident("on_update = now", d)?;
    if value == "now" {
        return Some(opt.key.clone());
    }
    d.error(&value, format!("`on_update` does not accept `{value}`"))
        .help("`on_update = now`");
    None
}

fn unknown_field_option(opt: &Opt, name: &str, d: &mut Diagnostics) {
    // Option names of other frameworks, with the Linchpin form.
    let instead = match name {
        "optional" => "make the type `Option<..>`",
        "min_length" | "max_length" => "`length = 1..=200`",
        "min" | "max" => "`range = 0..=100`",
        "min_items" | "max_items" => "`items = 1..=10`",
        "unique" => "`unique(..)` of #[entity]",
        "index" => "`index(..)` of #[entity]",
        "reverse" => "`#[transform(reverse = path)]` on the function",
        _ => return options::unknown(opt, "field", FIELD_OPTIONS, PLANNED_FIELD_OPTIONS, d),
    };
    d.error(&opt.key, format!("unknown field option `{name}`"))
        .help(instead);
}

fn default(opt: &Opt, d: &mut Diagnostics) -> Default {
    // An unreadable default counts as a default, so that no error reports a missing one.
    let Some(value) = opt.expr("default = uuid", d) else {
        return if opt.is_unreadable() {
            Default::Poisoned
        } else {
            Default::None
        };
    };
    if let Some(ident) = options::as_ident(value) {
        match ident.to_string().as_str() {
            "uuid" => return Default::Uuid(ident.clone()),
            "cuid" => return Default::Cuid(ident.clone()),
            "now" => return Default::Now(ident.clone()),
            _ => {}
        }
    }
    if let Expr::Call(call) = value
        && let Some(function) = options::as_ident(&call.func)
    {
        match function.to_string().as_str() {
            name @ ("now" | "uuid" | "cuid") => {
                d.error(value, format!("write `{name}` without parentheses"))
                    .help(format!("`default = {name}`"));
            }
            "ctx" => {
                if let Some(Source::Ctx(path, _)) = Source::parse(value, d) {
                    return Default::Ctx(path, value.clone());
                }
            }
            name => {
                d.error(value, format!("default `{name}(..)` is not known"))
                    .help("`uuid`, `cuid`, `now`, `ctx(actor.id)`, a literal, or a const");
            }
        }
        return Default::None;
    }
    Default::Value(value.clone())
}

/// The options of a type with a derive.
#[derive(Debug, std::default::Default, FromMeta)]
struct TypeKeys {
    #[darling(rename = "crate")]
    krate: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

/// Returns the path of the runtime crate: `::linchpin` unless `crate = path` in the attribute
/// `name` on the type sets another. `name` is `field` or `role`, for example.
pub(crate) fn krate(attrs: &[Attribute], name: &str, d: &mut Diagnostics) -> TokenStream {
    let example = format!("`#[{name}(crate = ::framework::linchpin)]`");
    let keys: TypeKeys = options::table(
        attribute_options(&mut attrs.to_vec(), name, &example, d),
        &[],
        d,
    );
    keys.rest.refuse("type", &["crate"], &[], d);
    let path = keys
        .krate
        .and_then(|opt| opt.path("crate = ::framework::linchpin", d));
    path.map_or_else(|| quote!(::linchpin), |path| path.to_token_stream())
}

/// Removes all `#[field(..)]` attributes and returns their options.
pub(crate) fn field_options(attrs: &mut Vec<Attribute>, d: &mut Diagnostics) -> Vec<NestedMeta> {
    attribute_options(attrs, "field", "`#[field(primary)]`", d)
}

/// Removes all attributes of a name from the list and returns their options.
pub(crate) fn attribute_options(
    attrs: &mut Vec<Attribute>,
    name: &str,
    example: &str,
    d: &mut Diagnostics,
) -> Vec<NestedMeta> {
    let mut found = Vec::new();
    attrs.retain(|attr| {
        if !attr.path().is_ident(name) {
            return true;
        }
        match &attr.meta {
            Meta::List(list) => found.extend(options::read(List::of(list), d)),
            _ => d
                .error(attr, format!("`#[{name}]` needs options"))
                .help(example),
        }
        false
    });
    found
}

/// Checks that the table of keys and the list for suggestions contain the same options.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_contain_exactly_the_keys_of_the_table() {
        let mut known = FIELD_OPTIONS.to_vec();
        known.sort_unstable();
        assert_eq!(options::keys_of::<FieldKeys>(), known);
    }
}
