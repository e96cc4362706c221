//! The kinds. To add one: a file with an `impl Kind`, a line in [`KINDS`].

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

use proc_macro2::TokenStream;
use syn::LitStr;

use super::args::Args;
use super::item::Declared;
use super::path::{Method, Moved};
use crate::diagnostics::{Diagnostics, nearest};
use crate::expr::Scope;

/// Every kind there is.
const KINDS: &[&dyn Kind] = &[
    &lookup::Lookup,
    &exists::Exists,
    &transition::Transition,
    &restore::Restore,
    &increment::Increment,
    &field_update::FieldUpdate,
    &array::Array::Push,
    &array::Array::Pull,
    &array::Array::Set,
    &batch::Batch,
    &upsert::Upsert,
    &consume::Consume,
    &collection::Collection,
    &search::Search,
    &aggregate::Aggregate,
    &computed_aggregate::ComputedAggregate,
    &derive::Derive,
    &custom::Custom,
];

/// One kind: its options, its rules, its descriptor.
pub(crate) trait Kind {
    /// `transition`.
    fn name(&self) -> &'static str;
    /// What the store must be able to do.
    fn capability(&self, args: &Args) -> &'static str;
    /// Every option beside the common ones.
    fn options(&self) -> &'static [&'static str];
    /// Those that must be there.
    fn required(&self) -> &'static [&'static str];
    /// Those that come later.
    fn later(&self) -> &'static [&'static str] {
        &[]
    }
    /// Reads its options, checks its rules and writes its descriptor.
    ///
    /// Everything wrong goes to the scope's diagnostics; `None` when no adapter method could be written.
    fn resolve(&self, args: &Args, name: &str, scope: &mut Scope<'_>) -> Option<Plan>;
}

/// What a kind made of its declaration.
pub(crate) struct Plan {
    /// `__lp::Transition { .. }`.
    pub(crate) descriptor: TokenStream,
    pub(crate) shape: Shape,
    pub(crate) method: Method,
    pub(crate) returns: Returns,
    /// Sentences for the adapter method's docs.
    pub(crate) errors: &'static str,
    /// The list of a collection.
    pub(crate) list: usize,
    /// The methods of a collection, each with a route of its own; empty for all other kinds.
    pub(crate) parts: Vec<Part>,
}

/// One method of a collection.
pub(crate) struct Part {
    /// `add`.
    pub(crate) name: &'static str,
    pub(crate) descriptor: TokenStream,
    pub(crate) method: Method,
    /// Whether the path names an item.
    pub(crate) item: bool,
    /// What the whole body is: `Item`, `Patch`, `Items`.
    pub(crate) whole: Option<&'static str>,
    pub(crate) policy: Option<crate::policy::Policy>,
    /// What replaces its method and path.
    pub(crate) moved: Moved,
}

impl Part {
    /// Whether it changes nothing.
    pub(crate) fn reads(&self) -> bool {
        self.method == Method::Get
    }
}

/// Where an operation is mounted.
pub(crate) enum Shape {
    /// `/{id}/{op}`.
    ById,
    /// `/{op}`, and `/{op}/{a}/{b}` with a segment for each of these parameters.
    Collection { segments: Vec<usize> },
    /// Nowhere: for code alone.
    Adapter,
}

/// What an adapter method answers.
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
    /// What the functions of a custom operation answer.
    Custom(Box<custom::Made>),
    /// A record of another entity.
    Other(syn::Path),
    /// Records of an entity, perhaps another one.
    Records(syn::Path),
    /// Values of a type.
    Values(TokenStream),
}

/// The struct of what an aggregate computes.
pub(crate) struct Numbers {
    /// `StatsRow`.
    pub(crate) name: syn::Ident,
    /// Whether there is one per group.
    pub(crate) grouped: bool,
    /// Name, type and doc; the key first.
    pub(crate) members: Vec<(syn::Ident, TokenStream, String)>,
}

impl Returns {
    /// Whether it holds records of the entity.
    pub(crate) fn is_record(&self) -> bool {
        match self {
            Self::Custom(made) => made.output.is_record(),
            _ => matches!(self, Self::Record | Self::Optional | Self::Page | Self::List | Self::Upserted),
        }
    }
}

impl Returns {
    /// Whether it is one record of the entity, whatever happens.
    pub(crate) fn is_one_record(&self) -> bool {
        match self {
            Self::Custom(made) => matches!(made.output, custom::Output::Record),
            _ => matches!(self, Self::Record | Self::Upserted),
        }
    }
}

impl Plan {
    /// Whether the caller says how many records at most.
    pub(crate) fn pages(&self) -> bool {
        matches!(self.returns, Returns::Page | Returns::List)
    }

    /// Whether it changes nothing.
    pub(crate) fn reads(&self) -> bool {
        self.method == Method::Get
    }

    /// For messages.
    pub(crate) fn effect(&self) -> &'static str {
        if self.reads() { "only reads" } else { "changes a record" }
    }
}

/// Other entities that a declaration names; what cannot be read is reported later.
pub(crate) fn entities(args: &Args, d: &mut Diagnostics) -> Vec<syn::Path> {
    let kind = args.kind.as_ref().map(|kind| crate::names::snake(&kind.value()));
    match kind.as_deref() {
        Some("computed_aggregate") => computed_aggregate::entities(args, d),
        Some("derive") => derive::entities(args, d),
        _ => Vec::new(),
    }
}

/// The names of all kinds.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name())
}

/// The options of each kind beside the common ones.
pub(crate) fn options() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    KINDS.iter().map(|kind| (kind.name(), kind.options()))
}

/// What only the name of a custom operation can be underlined for.
pub(crate) fn check_name(
    kind: &dyn Kind,
    args: &Args,
    at: &syn::Ident,
    name: &str,
    entity: &crate::entity::EntityModel,
    d: &mut Diagnostics,
) {
    if kind.name() == "custom" && args.get("handler").is_some() {
        custom::check_stores(args, at, name, entity, d);
    }
}

/// The declared kind, in snake_case or in the specification's spelling, and where it is written.
pub(crate) fn find(args: &Args, declared: &Declared, d: &mut Diagnostics) -> Option<(&'static dyn Kind, LitStr)> {
    let Some(text) = &args.kind else {
        // One that is there and unreadable has been reported.
        if !args.has_kind {
            d.error(&declared.ident, "the operation has no kind").help("`kind = \"transition\"`");
        }
        return None;
    };
    let name = crate::names::snake(&text.value());
    let of = |name: &str| KINDS.iter().find(|kind| kind.name() == name).map(|kind| (*kind, text.clone()));
    of(&name).or_else(|| {
        d.error(text, format!("unknown operation kind `{}`", text.value())).suggest(&name, names());
        // What else is wrong is judged by the kind that is meant.
        of(nearest(&name, names())?)
    })
}
