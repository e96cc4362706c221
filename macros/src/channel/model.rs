//! A channel, resolved against the entities that it names.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Expr, Ident, LitStr, Path};

use super::args::ChannelArgs;
use super::incoming;
use super::item::{Declared, Payload, Variant};
use super::marks::{EventPath, Kind, Mark, OnArgs, path_text};
use super::names;
use crate::diagnostics::Diagnostics;
use crate::entity::EntityModel;
use crate::expr::{Filter, Resolved, Scope, check_when_sources};
use crate::gather::Entities;
use crate::policy::rate::RateLimit;

/// A channel.
pub(super) struct Model<'a> {
    pub(super) args: &'a ChannelArgs,
    /// The entity of the rooms.
    pub(super) of: Entity<'a>,
    pub(super) declared: &'a Declared,
    pub(super) variants: Vec<VariantModel<'a>>,
}

/// An entity, and its path as written.
#[derive(Clone, Copy)]
pub(super) struct Entity<'a> {
    pub(super) path: &'a Path,
    pub(super) model: &'a EntityModel,
}

/// A variant.
pub(super) struct VariantModel<'a> {
    pub(super) at: &'a Variant,
    pub(super) mark: MarkModel<'a>,
    /// The event names that are known without the declarations of operations, each with the tokens
    /// to report.
    pub(super) names: Vec<(String, TokenStream)>,
}

/// A mark, resolved.
pub(super) enum MarkModel<'a> {
    On(Vec<On<'a>>),
    Publish {
        ephemeral: bool,
    },
    Relay {
        rate: Option<&'a RateLimit>,
        echo: bool,
    },
    Operation(incoming::Run<'a>),
    Handler(&'a Path),
    /// A mark with an error that has been reported.
    Broken,
}

/// The events of one `on`.
pub(super) struct On<'a> {
    pub(super) mark: &'a Mark,
    pub(super) entity: Entity<'a>,
    pub(super) events: &'a [EventPath],
    pub(super) by: Key<'a>,
    /// The condition, and the checks of it that only rustc can make.
    pub(super) when: Option<(Resolved, Vec<TokenStream>)>,
}

/// Selects the record whose room receives an event, or from whose room an operation is called.
#[derive(Clone, Copy)]
pub(super) enum Key<'a> {
    /// The record of the event, or every record of the collection.
    Own,
    /// The record that a field names.
    By(By<'a>),
    /// `by` has an error, which has been reported. The rest is checked without it.
    Broken,
}

impl<'a> Key<'a> {
    /// Returns the field of `by`, if there is one.
    pub(super) fn field(self) -> Option<By<'a>> {
        match self {
            Self::By(by) => Some(by),
            Self::Own | Self::Broken => None,
        }
    }
}

/// The field with the key of the room's record.
#[derive(Clone, Copy)]
pub(super) struct By<'a> {
    pub(super) field: usize,
    pub(super) at: &'a Ident,
}

impl Entity<'_> {
    /// Whether both are the same entity, even if their paths differ.
    pub(super) fn is(self, other: Self) -> bool {
        self.model.ident == other.model.ident && self.model.storage_name == other.model.storage_name
    }

    /// The path as written, for messages.
    pub(super) fn path_text(self) -> String {
        path_text(self.path)
    }
}

impl<'a> Model<'a> {
    /// Resolves a channel. All problems go to `d`.
    pub(super) fn resolve(
        args: &'a ChannelArgs,
        of: &'a Path,
        declared: &'a Declared,
        entities: &'a Entities,
        d: &mut Diagnostics,
    ) -> Self {
        let own = Entity {
            path: of,
            model: &entities.own,
        };
        let find = |path: &'a Path| {
            let text = path.to_token_stream().to_string();
            let sibling = entities
                .siblings
                .iter()
                .find(|sibling| sibling.path.to_token_stream().to_string() == text);
            Entity {
                path,
                model: sibling.map_or(&entities.own, |sibling| &sibling.model),
            }
        };
        let collection = args.collection.is_some();
        let mut variants = Vec::new();
        for variant in &declared.variants {
            let mark = mark(variant, own, collection, &find, d);
            let names = names_of(variant, &mark, own, d);
            variants.push(VariantModel {
                at: variant,
                mark,
                names,
            });
        }
        Self {
            args,
            of: own,
            declared,
            variants,
        }
    }
}

fn mark<'a>(
    variant: &'a Variant,
    own: Entity<'a>,
    collection: bool,
    find: &dyn Fn(&'a Path) -> Entity<'a>,
    d: &mut Diagnostics,
) -> MarkModel<'a> {
    let Some(first) = variant.marks.first() else {
        return MarkModel::Broken;
    };
    match &first.kind {
        Kind::On(_) => {
            let all = variant.marks.iter().filter_map(|mark| match &mark.kind {
                Kind::On(args) => on(mark, args, own, collection, find, d),
                _ => None,
            });
            MarkModel::On(all.collect())
        }
        Kind::Publish { ephemeral } => MarkModel::Publish {
            ephemeral: *ephemeral,
        },
        Kind::Relay { rate, echo } => MarkModel::Relay {
            rate: rate.as_ref(),
            echo: *echo,
        },
        Kind::Operation { event, by } => {
            let entity = find(&event.entity);
            match incoming::run(event, by.as_ref(), entity, own, collection, d) {
                Some(run) => MarkModel::Operation(run),
                None => MarkModel::Broken,
            }
        }
        Kind::Handler(path) => MarkModel::Handler(path),
        Kind::Unreadable => MarkModel::Broken,
    }
}

fn on<'a>(
    mark: &'a Mark,
    args: &'a OnArgs,
    own: Entity<'a>,
    collection: bool,
    find: &dyn Fn(&'a Path) -> Entity<'a>,
    d: &mut Diagnostics,
) -> Option<On<'a>> {
    let first = args.events.first()?;
    let entity = find(&first.entity);
    let mut mixed = false;
    for event in &args.events[1..] {
        if !find(&event.entity).is(entity) {
            mixed = true;
            d.error(
                &event.entity,
                format!(
                    "`{}` is not an event of {}",
                    event.path_text(),
                    entity.path_text()
                ),
            )
            .help("write a separate `#[on(..)]` for each entity");
        }
    }
    if mixed {
        return None;
    }
    Some(On {
        mark,
        entity,
        events: &args.events,
        by: key(args.by.as_ref(), &mark.word, entity, own, collection, d),
        when: args.when.as_ref().and_then(|expr| when(entity, expr, d)),
    })
}

/// Resolves `by`. Without it, the record of the event is the room's record.
pub(super) fn key<'a>(
    by: Option<&'a Ident>,
    word: &Ident,
    entity: Entity<'a>,
    own: Entity<'a>,
    collection: bool,
    d: &mut Diagnostics,
) -> Key<'a> {
    if collection {
        if let Some(by) = by {
            d.error(
                by,
                "`by` is not allowed with `scope = collection`: the room belongs to no record",
            )
            .help("leave it out");
            return Key::Broken;
        }
        if !entity.is(own) {
            d.error(
                entity.path,
                format!(
                    "with `scope = collection`, a room has only events of {}",
                    own.path_text()
                ),
            )
            .help(format!(
                "declare a channel of {}, or leave `scope` out: then the rooms belong to records",
                entity.path_text()
            ));
            return Key::Broken;
        }
        return Key::Own;
    }
    let Some(at) = by else {
        if !entity.is(own) {
            d.error(
                entity.path,
                format!(
                    "`{word}` with an entity other than {} needs `by`",
                    own.path_text()
                ),
            )
            .help(format!(
                "the field of {} with the id of its {}: `by = {}_id`",
                entity.path_text(),
                own.path_text(),
                crate::names::snake(&own.model.ident.unraw().to_string())
            ));
            return Key::Broken;
        }
        return Key::Own;
    };
    let Some(field) = entity.model.index_of(at) else {
        let name = at.unraw().to_string();
        d.error(
            at,
            format!("unknown field `{name}` on {}", entity.path_text()),
        )
        .suggest(&name, entity.model.field_names());
        return Key::Broken;
    };
    Key::By(By { field, at })
}

/// Resolves the condition `when`. Returns it with the checks that only rustc can make.
fn when(
    entity: Entity<'_>,
    expr: &Expr,
    d: &mut Diagnostics,
) -> Option<(Resolved, Vec<TokenStream>)> {
    let filter = Filter::parse(expr, d)?;
    let before = d.len();
    check_when_sources(&filter, d);
    if d.len() > before {
        return None;
    }
    let mut scope = Scope::new(entity.model, entity.path, &[], d);
    scope.for_callers = false;
    let resolved = scope.filter(&filter, &[])?;
    let asserts = std::mem::take(&mut scope.asserts);
    Some((resolved, asserts))
}

/// Returns the event names that are known here. The event name of an operation is in its own
/// declaration.
fn names_of(
    variant: &Variant,
    mark: &MarkModel<'_>,
    own: Entity<'_>,
    d: &mut Diagnostics,
) -> Vec<(String, TokenStream)> {
    let mut all: Vec<(String, TokenStream)> = Vec::new();
    for written in &variant.marks {
        let texts = written.name.iter().chain(&written.alias);
        all.extend(texts.map(|text: &LitStr| (text.value(), text.to_token_stream())));
    }
    if let MarkModel::On(on) = mark {
        for on in on.iter().filter(|on| on.mark.name.is_none()) {
            all.extend(on.events.iter().filter_map(|event| {
                let name = names::of_event(on.entity.model, &event.word)?;
                Some((name, event.at.to_token_stream()))
            }));
        }
    } else if variant
        .marks
        .first()
        .is_some_and(|mark| mark.name.is_none())
    {
        let (name, at) = (
            own_name(variant, own.model),
            variant.ident.to_token_stream(),
        );
        if let Some((message, help)) = names::flaw(&name) {
            d.error(&at, message).help(help);
        }
        all.push((name, at));
    }
    all
}

/// The default event name of a variant without `on`: `tasks.thread_pinned`.
pub(super) fn own_name(variant: &Variant, model: &EntityModel) -> String {
    match &model.namespace {
        Some(namespace) => format!("{}.{}", namespace.value(), variant.snake()),
        None => variant.snake(),
    }
}

/// Whether the payload is the entity itself.
pub(super) fn is_record_payload(payload: &Payload, entity: Entity<'_>) -> bool {
    match payload {
        Payload::Type(ty) => {
            let path = entity.path;
            // The same path, or the entity's bare name.
            let text = ty.to_token_stream().to_string();
            text == path.to_token_stream().to_string()
                || path.segments.last().is_some_and(|last| last.ident == text)
        }
        _ => false,
    }
}
