//! The kinds of operations. A new kind needs a file with its [`Kind`] and its [`KindModel`], a line
//! in [`KINDS`], and its `KindFacts` in `linchpin-vocabulary`.

mod aggregate;
mod array;
mod batch;
mod collection;
mod computed_aggregate;
mod consume;
pub(crate) mod custom;
mod derive;
mod exists;
mod field_update;
mod increment;
mod lookup;
mod record;
mod restore;
mod search;
mod transition;
mod upsert;

use linchpin_vocabulary::kind::KindFacts;
use proc_macro2::TokenStream;
use syn::LitStr;

use super::args::Args;
use super::item::Declared;
use super::path::{Method, RouteOverride};
use crate::diagnostics::{Diagnostics, nearest};
use crate::expr::Scope;

/// All kinds.
const KINDS: &[&Kind] = &[
    &lookup::KIND,
    &exists::KIND,
    &transition::KIND,
    &restore::KIND,
    &increment::KIND,
    &field_update::KIND,
    &array::PUSH,
    &array::PULL,
    &array::SET,
    &batch::KIND,
    &upsert::KIND,
    &consume::KIND,
    &collection::KIND,
    &search::KIND,
    &aggregate::KIND,
    &computed_aggregate::KIND,
    &derive::KIND,
    &custom::KIND,
];

/// A kind of operations: its properties, its options, and the function that resolves a declaration.
pub(crate) struct Kind {
    /// The properties that the runtime reads too.
    pub(crate) facts: &'static KindFacts,
    /// The options in addition to the common ones.
    pub(crate) options: &'static [&'static str],
    /// The required options.
    pub(crate) required: &'static [&'static str],
    /// The options that are planned for a later version.
    pub(crate) planned: &'static [&'static str],
    /// The options that may be written several times.
    pub(crate) repeated: &'static [&'static str],
    /// Returns the other entities that a declaration names.
    entities: fn(&Args, &mut Diagnostics) -> Vec<syn::Path>,
    /// Reads the options and resolves them against the entity. Errors are reported.
    pub(crate) model: fn(&Input<'_>, &mut Scope<'_>) -> Box<dyn KindModel>,
}

impl Kind {
    const fn new(
        facts: &'static KindFacts,
        options: &'static [&'static str],
        required: &'static [&'static str],
        model: fn(&Input<'_>, &mut Scope<'_>) -> Box<dyn KindModel>,
    ) -> Self {
        Self {
            facts,
            options,
            required,
            planned: &[],
            repeated: &[],
            entities: |_, _| Vec::new(),
            model,
        }
    }
}

/// A declaration as written.
pub(crate) struct Input<'a> {
    pub(crate) args: &'a Args,
    /// The name of the operation: `by_slug`.
    pub(crate) name: &'a str,
    /// The name of the const.
    pub(crate) ident: &'a syn::Ident,
}

/// A declaration of a kind, resolved.
pub(crate) trait KindModel {
    /// Checks the rules of the kind, and reports errors.
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>);

    /// Returns the route and the response of the operation. `None` if a part is missing, which has
    /// been reported.
    fn plan(&self, scope: &Scope<'_>) -> Option<Plan>;

    /// Returns the descriptor: `__lp::Transition::new(..)`. The expansion has `__lp` in scope.
    fn expand(&self) -> TokenStream;
}

/// The route of an operation and its response.
pub(crate) struct Plan {
    pub(crate) shape: Shape,
    pub(crate) method: Method,
    pub(crate) returns: Returns,
    /// The sentences about errors in the adapter method's docs.
    pub(crate) errors: &'static str,
    /// The position of the list field, for the kind `collection`.
    pub(crate) list: usize,
    /// The methods of a collection, each with its own route; empty for all other kinds.
    pub(crate) parts: Vec<Part>,
}

/// One method of a collection.
pub(crate) struct Part {
    /// `add`.
    pub(crate) name: &'static str,
    pub(crate) descriptor: TokenStream,
    pub(crate) method: Method,
    /// Whether the path contains the key of an item.
    pub(crate) has_item_key: bool,
    /// The form of the body: `Item`, `Patch`, `Items`; `None` for a method without a body.
    pub(crate) body_form: Option<&'static str>,
    pub(crate) policy: Option<crate::policy::Policy>,
    /// The method and path that replace the default ones.
    pub(crate) route_override: RouteOverride,
}

impl Part {
    /// Whether the method changes no records.
    pub(crate) fn reads(&self) -> bool {
        self.method == Method::Get
    }
}

/// The form of an operation's path.
pub(crate) enum Shape {
    /// `/{id}/{op}`.
    ById,
    /// `/{op}`, and `/{op}/{a}/{b}` with a segment for each of these parameters.
    Collection { segments: Vec<usize> },
    /// No route: only code can call it.
    Adapter,
}

impl Shape {
    /// `/{op}` alone.
    const COLLECTION: Self = Self::Collection {
        segments: Vec::new(),
    };
}

/// The return type of an adapter method.
#[derive(Clone)]
pub(crate) enum Returns {
    Record,
    Optional,
    Page,
    List,
    Boolean,
    Count,
    Nothing,
    Upserted,
    Numbers(Numbers),
    /// The return type of the functions of a custom operation.
    Custom(Box<custom::CustomExpansion>),
    /// A record of another entity.
    Other(syn::Path),
    /// Records of this or another entity.
    Records(syn::Path),
    /// Values of a type.
    Values(TokenStream),
}

/// The struct for the numbers of an aggregate.
#[derive(Clone)]
pub(crate) struct Numbers {
    /// `StatsRow`.
    pub(crate) name: syn::Ident,
    /// Whether there is one row per group.
    pub(crate) grouped: bool,
    /// The name, type and doc of each member; the key is first.
    pub(crate) members: Vec<(syn::Ident, TokenStream, String)>,
}

impl Returns {
    /// Whether the result contains records of the entity.
    pub(crate) fn contains_records(&self) -> bool {
        match self {
            Self::Custom(expansion) => expansion.output.contains_records(),
            _ => matches!(
                self,
                Self::Record | Self::Optional | Self::Page | Self::List | Self::Upserted
            ),
        }
    }

    /// Whether the result is always one record of the entity.
    pub(crate) fn is_one_record(&self) -> bool {
        match self {
            Self::Custom(expansion) => matches!(expansion.output, custom::Output::Record),
            _ => matches!(self, Self::Record | Self::Upserted),
        }
    }
}

impl Plan {
    /// Returns the plan of an operation without methods.
    const fn new(shape: Shape, method: Method, returns: Returns, errors: &'static str) -> Self {
        Self {
            shape,
            method,
            returns,
            errors,
            list: 0,
            parts: Vec::new(),
        }
    }

    /// Whether the caller sets the maximum number of records.
    pub(crate) fn pages(&self) -> bool {
        matches!(self.returns, Returns::Page | Returns::List)
    }

    /// Whether it changes no records.
    pub(crate) fn reads(&self) -> bool {
        self.method == Method::Get
    }

    /// Whether no method of the operation changes records.
    pub(crate) fn only_reads(&self) -> bool {
        if self.parts.is_empty() {
            self.reads()
        } else {
            self.parts.iter().all(Part::reads)
        }
    }

    /// Returns the effect as text, for messages.
    pub(crate) fn effect(&self) -> &'static str {
        if self.reads() {
            "only reads"
        } else {
            "changes a record"
        }
    }
}

/// Returns the kind with this name.
pub(crate) fn named(name: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.facts.name == name)
}

/// Returns the other entities that a declaration names. Errors are reported later.
pub(crate) fn entities(args: &Args, d: &mut Diagnostics) -> Vec<syn::Path> {
    let kind = args
        .kind
        .as_ref()
        .and_then(|kind| named(&crate::names::snake(&kind.value())));
    kind.map(|kind| (kind.entities)(args, d))
        .unwrap_or_default()
}

/// Returns the names of all kinds.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.facts.name)
}

/// Returns the options of each kind, without the common ones.
pub(crate) fn options() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    KINDS.iter().map(|kind| (kind.facts.name, kind.options))
}

/// Returns the declared kind, in snake_case or in camelCase, and its position.
pub(crate) fn find(
    args: &Args,
    declared: &Declared,
    d: &mut Diagnostics,
) -> Option<(&'static Kind, LitStr)> {
    let Some(text) = &args.kind else {
        // If `kind` is present but unreadable, the error has been reported.
        if !args.has_kind {
            d.error(&declared.ident, "the operation has no kind")
                .help("`kind = \"transition\"`");
        }
        return None;
    };
    let name = crate::names::snake(&text.value());
    let with_position = |name: &str| named(name).map(|kind| (kind, text.clone()));
    with_position(&name).or_else(|| {
        d.error(text, format!("unknown operation kind `{}`", text.value()))
            .suggest(&name, names());
        // The other options are checked as those of the most similar kind.
        with_position(nearest(&name, names())?)
    })
}
