//! `computed_aggregate`: computes a number from the records of one entity and writes it to a record
//! of another.

use linchpin_vocabulary::kind;
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Ident, Path};

use super::aggregate::{self, Measure, Written};
use super::{Input, Kind, KindModel, Plan, Returns, Shape, record};
use crate::diagnostics::Diagnostics;
use crate::entity::Kind as Type;
use crate::expr::{self, Assign, Filter, Resolved, Role, Scope, type_of};
use crate::names;
use crate::operation::args::Args;
use crate::operation::path::Method;
use crate::options;

pub(super) const KIND: Kind = Kind {
    entities,
    ..Kind::new(
        &kind::COMPUTED_AGGREGATE,
        &[
            "source",
            "target",
            "source_filter",
            "compute",
            "target_match",
            "materialize_to",
            "atomic",
        ],
        &[
            "source",
            "source_filter",
            "compute",
            "target_match",
            "materialize_to",
        ],
        model,
    )
};

/// Returns the entities that a declaration names.
fn entities(args: &Args, d: &mut Diagnostics) -> Vec<Path> {
    ["source", "target"]
        .into_iter()
        .filter_map(|name| path(args, name, d))
        .collect()
}

fn path(args: &Args, name: &str, d: &mut Diagnostics) -> Option<Path> {
    args.get(name)
        .and_then(|opt| opt.path(&format!("{name} = Comment"), d))
}

struct ComputedAggregate {
    /// The source entity. `None` if the option could not be read; then the other options are
    /// ignored.
    source: Option<Path>,
    target: Option<Path>,
    /// The position in the scope's siblings; `None` for the operation's own entity.
    source_sibling: Option<usize>,
    target_sibling: Option<usize>,
    filter: Option<Resolved>,
    /// Whether the result is an object of named members, and these members.
    measures: (bool, Vec<(String, Measure)>),
    matches: Vec<Assign>,
    /// The number of members in `target_match`.
    written: usize,
    /// The field of the target, and its name as written.
    field: Option<(usize, Ident)>,
    number: Literal,
    atomic: bool,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = input.args;
    let source = path(args, "source", scope.d);
    let target = path(args, "target", scope.d).filter(|_| source.is_some());
    let source_sibling = source
        .as_ref()
        .and_then(|source| scope.sibling_named(source));
    let target_sibling = target
        .as_ref()
        .and_then(|target| scope.sibling_named(target));
    let mut resolved = ComputedAggregate {
        source,
        target,
        source_sibling,
        target_sibling,
        filter: None,
        measures: (false, Vec::new()),
        matches: Vec::new(),
        written: 0,
        field: None,
        number: scope.model.number(0),
        atomic: args.flag("atomic", scope.d),
    };
    if resolved.source.is_none() {
        return Box::new(resolved);
    }
    scope.within(source_sibling, |scope| {
        resolved.filter = args
            .expr(
                "source_filter",
                "source_filter = (post_id == param(post_id))",
                scope.d,
            )
            .and_then(|expr| {
                let filter = Filter::parse(expr, scope.d)?;
                scope.filter(&filter, &[])
            });
        resolved.measures = measures(args, scope);
    });
    scope.within(target_sibling, |scope| {
        let pairs = args.pairs("target_match", scope.d);
        resolved.matches = scope.assigns(&pairs, |_| Role::Match);
        resolved.written = pairs.len();
        let at = args.ident("materialize_to", "materialize_to = comment_count", scope.d);
        resolved.field = at.and_then(|at| Some((scope.field(&at)?, at)));
        resolved.number = scope
            .model
            .number(resolved.field.as_ref().map_or(0, |(field, _)| *field));
    });
    Box::new(resolved)
}

impl KindModel for ComputedAggregate {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        if self.source.is_none() {
            return;
        }
        check_same_store(input.args, self.source_sibling, self.target_sibling, scope);
        let kind = |scope: &mut Scope<'_>, measure: &Measure| {
            (measure.function, scope.at(measure.field).kind)
        };
        let kinds: Vec<_> = scope.within(self.source_sibling, |scope| {
            self.measures
                .1
                .iter()
                .map(|(_, measure)| kind(scope, measure))
                .collect()
        });
        scope.within(self.target_sibling, |scope| {
            self.check_match(input, scope);
            if let Some((field, at)) = &self.field
                && record::mutable(*field, at, scope)
            {
                check_materialized_field(*field, at, self.measures.0, &kinds, scope);
            }
        });
    }

    fn plan(&self, _: &Scope<'_>) -> Option<Plan> {
        if self.filter.is_none() || self.field.is_none() {
            return None;
        }
        let returns = self
            .target_sibling
            .and(self.target.clone())
            .map_or(Returns::Record, Returns::Other);
        let errors = "`not_found`; `validation_failed` for a value that the field cannot hold.";
        Some(Plan::new(Shape::COLLECTION, Method::Post, returns, errors))
    }

    fn expand(&self) -> TokenStream {
        let (source, filter, field) = (&self.source, &self.filter, &self.number);
        let (object, outputs) = &self.measures;
        let outputs = outputs
            .iter()
            .map(|(name, measure)| aggregate::tokens(measure, &names::camel(name)));
        let matches = expr::assigns(&self.matches);
        let object = object.then(|| quote!(.object()));
        let target = self.target_sibling.and(self.target.as_ref());
        let other_target = target.map(|target| quote!(.target(<#target as __lp::Entity>::DESC)));
        let atomic = self.atomic.then(|| quote!(.atomic()));
        quote! {
            __lp::ComputedAggregate::new(<#source as __lp::Entity>::DESC, #filter, &[#(#outputs),*])
                .into(#field, #matches) #other_target #object #atomic
        }
    }
}

impl ComputedAggregate {
    /// Checks that `target_match(..)` identifies one record.
    fn check_match(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        let Some(opt) = input.args.get("target_match") else {
            return;
        };
        let fields: Vec<usize> = self.matches.iter().map(|a| a.field).collect();
        if self.matches.len() == self.written
            && !fields.is_empty()
            && !scope.model.identify_one_record(&fields)
        {
            let primary = scope
                .model
                .primary
                .map_or("id", |p| scope.at(p).name.as_str());
            scope
                .d
                .error(&opt.key, "target_match may hit several records")
                .help(format!("add `{primary}` or all fields of a unique"));
        }
    }
}

/// Reads `compute`. Returns whether the result is an object of named members, and these members.
fn measures(args: &Args, scope: &mut Scope<'_>) -> (bool, Vec<(String, Measure)>) {
    let Some(opt) = args.get("compute") else {
        return (false, Vec::new());
    };
    const EXAMPLE: &str = "compute = count()";
    if opt.is_list() {
        let written: Vec<Written> = opt
            .list("compute(total = count())", scope.d)
            .map(|list| options::each(list, scope.d))
            .unwrap_or_default();
        if written.is_empty() && opt.is_empty_list() {
            scope
                .d
                .error(&opt.key, "`compute` is empty")
                .help(format!("`{EXAMPLE}`"));
        }
        let mut all: Vec<(String, Measure)> = Vec::new();
        for Written { name, function } in written {
            let text = name.unraw().to_string();
            if all
                .iter()
                .any(|(other, _)| names::camel(other) == names::camel(&text))
            {
                scope
                    .d
                    .error(&name, format!("output `{text}` repeated in compute"));
            } else if let Some(measure) = single(aggregate::measure(function, &[], scope), scope) {
                all.push((text, measure));
            }
        }
        return (true, all);
    }
    let call = opt.expr(EXAMPLE, scope.d).map(ToTokens::to_token_stream);
    let call = call.and_then(|tokens| scope.d.take(syn::parse2::<aggregate::Call>(tokens)));
    let measure = call.and_then(|call| aggregate::measure(call, &[], scope));
    (
        false,
        single(measure, scope)
            .map(|measure| (String::new(), measure))
            .into_iter()
            .collect(),
    )
}

/// Reports `count_by`, because it returns several values, not one.
fn single(measure: Option<Measure>, scope: &mut Scope<'_>) -> Option<Measure> {
    let measure = measure?;
    if measure.function == "count_by" {
        scope
            .d
            .error(
                &measure.at,
                "`count_by` returns many values, but the field needs one value",
            )
            .help("`count()`, `sum`, `avg`, `min` or `max`");
        return None;
    }
    Some(measure)
}

/// Checks that the field can hold the computed value.
fn check_materialized_field(
    field: usize,
    at: &Ident,
    object: bool,
    measures: &[(&str, Type)],
    scope: &mut Scope<'_>,
) {
    let of = scope.at(field);
    let (name, kind) = (of.name.clone(), of.kind);
    if object {
        if !matches!(kind, Type::Json | Type::Other) {
            scope
                .d
                .error(
                    at,
                    format!(
                        "`compute(..)` returns an object, but `{name}` is {}",
                        type_of(of)
                    ),
                )
                .help("`compute = count()`");
        }
        return;
    }
    let Some((function, source_type)) = measures.first() else {
        return;
    };
    let result_type = match *function {
        "count" => Type::Integer,
        "avg" => Type::Number,
        _ => *source_type,
    };
    // The minimum or maximum of keys is a key. The write checks that a record with this key exists.
    let picks_a_value = matches!(*function, "min" | "max");
    if !picks_a_value
        && !record::no_key(
            field,
            at,
            &format!("the result of {function} is not the key of a record"),
            scope,
        )
    {
        return;
    }
    if kind == Type::Other || result_type == Type::Other {
        if *function == "count" {
            scope.require(
                field,
                at,
                "INTEGERS",
                &format!("count returns an integer, but `{name}` is not an integer"),
            );
        } else {
            let text = format!(
                "{function} returns the type of its field, but the macro cannot compare this type with the type of `{name}`: one of them is an alias"
            );
            scope
                .d
                .error(at, text)
                .help("write the types without an alias: `i64`, `f64`, `String`, `Timestamp`");
        }
    } else if result_type.name() != kind.name() {
        scope.d.error(
            at,
            format!(
                "{function} returns {}, but `{name}` is {}",
                result_type.name().unwrap_or("another type"),
                type_of(of)
            ),
        );
    } else if !of.optional && (picks_a_value || *function == "avg") {
        scope
            .d
            .error(
                at,
                format!("{function} of no records is null, but `{name}` is required"),
            )
            .help("an `Option`");
    }
}

/// Checks that both entities use one store.
fn check_same_store(
    args: &Args,
    source: Option<usize>,
    target: Option<usize>,
    scope: &mut Scope<'_>,
) {
    let model_of = |sibling: Option<usize>| {
        sibling
            .and_then(|at| scope.siblings.get(at))
            .map_or(scope.model, |sibling| &sibling.model)
    };
    let (source, target) = (model_of(source), model_of(target));
    let no_common_store = !source.stores.is_empty()
        && !target.stores.is_empty()
        && !source
            .stores
            .iter()
            .any(|store| target.stores.contains(store));
    if let (true, Some(opt)) = (no_common_store, args.get("source")) {
        let text = format!(
            "`{}` and `{}` live in different stores",
            source.name, target.name
        );
        scope
            .d
            .error(&opt.key, text)
            .help("name one store in `stores(..)` of both entities");
    }
}
