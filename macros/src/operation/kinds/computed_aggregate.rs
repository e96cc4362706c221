//! `computed_aggregate`: writes a number over the records of one entity into a record of another.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Ident, Path};

use super::aggregate::{self, Measure, Written};
use super::{Kind, Plan, Returns, Shape, record};
use crate::diagnostics::Diagnostics;
use crate::entity::Kind as Type;
use crate::expr::{self, Assign, Filter, Role, Scope, type_of};
use crate::names;
use crate::operation::args::Args;
use crate::operation::path::Method;
use crate::options;

pub(super) struct ComputedAggregate;

/// The entities that a declaration names.
pub(super) fn entities(args: &Args, d: &mut Diagnostics) -> Vec<Path> {
    ["source", "target"].into_iter().filter_map(|name| path(args, name, d)).collect()
}

fn path(args: &Args, name: &str, d: &mut Diagnostics) -> Option<Path> {
    args.get(name).and_then(|opt| opt.path(&format!("{name} = Comment"), d))
}

impl Kind for ComputedAggregate {
    fn name(&self) -> &'static str {
        "computed_aggregate"
    }

    fn capability(&self, _: &Args) -> &'static str {
        "computed.write"
    }

    fn options(&self) -> &'static [&'static str] {
        &["source", "target", "source_filter", "compute", "target_match", "materialize_to", "atomic"]
    }

    fn required(&self) -> &'static [&'static str] {
        &["source", "source_filter", "compute", "target_match", "materialize_to"]
    }

    fn resolve(&self, args: &Args, _: &str, scope: &mut Scope<'_>) -> Option<Plan> {
        let source = path(args, "source", scope.d)?;
        let target = path(args, "target", scope.d);
        let of_source = scope.named(&source);
        let of_target = target.as_ref().and_then(|target| scope.named(target));
        let atomic = args.flag("atomic", scope.d).then(|| quote!(.atomic()));
        stores(args, of_source, of_target, scope);
        let (filter, measures) = scope.within(of_source, |scope| {
            let filter = args.expr("source_filter", "source_filter = (post_id == param(post_id))", scope.d).and_then(|expr| {
                let filter = Filter::parse(expr, scope.d)?;
                scope.filter(&filter, &[])
            });
            (filter, measures(args, scope))
        });
        let kinds: Vec<_> = scope
            .within(of_source, |scope| measures.1.iter().map(|(_, measure)| (measure.function, scope.at(measure.field).kind)).collect());
        let (matches, field) = scope.within(of_target, |scope| {
            let matches = matches(args, scope);
            let at = args.ident("materialize_to", "materialize_to = comment_count", scope.d);
            let field = at.and_then(|at| {
                let field = scope.field(&at)?;
                record::mutable(field, &at, scope).then_some(())?;
                fits(field, &at, measures.0, &kinds, scope);
                Some(field)
            });
            (matches, field)
        });
        let (filter, field) = (filter?, field?);
        let outputs = measures.1.iter().map(|(name, measure)| measure.tokens(&names::camel(name)));
        let field = scope.within(of_target, |scope| scope.model.number(field));
        let matches = expr::assigns(&matches);
        let object = measures.0.then(|| quote!(.object()));
        let elsewhere = of_target.and(target.as_ref()).map(|target| quote!(.target(<#target as __lp::Entity>::DESC)));
        Some(Plan {
            descriptor: quote! {
                __lp::ComputedAggregate::new(<#source as __lp::Entity>::DESC, #filter, &[#(#outputs),*])
                    .into(#field, #matches) #elsewhere #object #atomic
            },
            shape: Shape::Collection { segments: Vec::new() },
            method: Method::Post,
            returns: of_target.and(target).map_or(Returns::Record, Returns::Other),
            errors: "`not_found`; `validation_failed` for a value that the field cannot hold.",
            parts: Vec::new(),
            list: 0,
        })
    }
}

/// What is computed: whether it is an object of named members, and the members.
fn measures(args: &Args, scope: &mut Scope<'_>) -> (bool, Vec<(String, Measure)>) {
    let Some(opt) = args.get("compute") else { return (false, Vec::new()) };
    const EXAMPLE: &str = "compute = count()";
    if opt.is_list() {
        let written: Vec<Written> =
            opt.list("compute(total = count())", scope.d).map(|list| options::each(list, scope.d)).unwrap_or_default();
        if written.is_empty() && opt.is_empty_list() {
            scope.d.error(&opt.key, "`compute` is empty").help(format!("`{EXAMPLE}`"));
        }
        let mut all: Vec<(String, Measure)> = Vec::new();
        for Written { name, function } in written {
            let text = name.unraw().to_string();
            if all.iter().any(|(other, _)| names::camel(other) == names::camel(&text)) {
                scope.d.error(&name, format!("output `{text}` repeated in compute"));
            } else if let Some(measure) = single(aggregate::measure(function, &[], scope), scope) {
                all.push((text, measure));
            }
        }
        return (true, all);
    }
    let call = opt.expr(EXAMPLE, scope.d).map(ToTokens::to_token_stream);
    let call = call.and_then(|tokens| scope.d.take(syn::parse2::<aggregate::Call>(tokens)));
    let measure = call.and_then(|call| aggregate::measure(call, &[], scope));
    (false, single(measure, scope).map(|measure| (String::new(), measure)).into_iter().collect())
}

/// Numbers by value are many values.
fn single(measure: Option<Measure>, scope: &mut Scope<'_>) -> Option<Measure> {
    let measure = measure?;
    if measure.function == "count_by" {
        scope.d.error(&measure.at, "`count_by` gives many values").help("`count()`, `sum`, `avg`, `min` or `max`");
        return None;
    }
    Some(measure)
}

/// `target_match(..)`: pins one record.
fn matches(args: &Args, scope: &mut Scope<'_>) -> Vec<Assign> {
    let Some(opt) = args.get("target_match") else { return Vec::new() };
    let pairs = args.pairs("target_match", scope.d);
    let assigns = scope.assigns(&pairs, |_| Role::Match);
    let fields: Vec<usize> = assigns.iter().map(|a| a.field).collect();
    if assigns.len() == pairs.len() && !assigns.is_empty() && !scope.model.pins_one(&fields) {
        let primary = scope.model.primary.map_or("id", |p| scope.at(p).name.as_str());
        scope.d.error(&opt.key, "target_match may hit several records").help(format!("add `{primary}` or all fields of a unique"));
    }
    assigns
}

/// Rule 33: the field can hold what is computed.
fn fits(field: usize, at: &Ident, object: bool, measures: &[(&str, Type)], scope: &mut Scope<'_>) {
    let of = scope.at(field);
    let (name, kind) = (of.name.clone(), of.kind);
    if object {
        if !matches!(kind, Type::Json | Type::Other) {
            scope.d.error(at, format!("`compute(..)` gives an object, `{name}` is {}", type_of(of))).help("`compute = count()`");
        }
        return;
    }
    let Some((function, of_source)) = measures.first() else { return };
    let gives = match *function {
        "count" => Type::Integer,
        "avg" => Type::Number,
        _ => *of_source,
    };
    // The least or the greatest of keys is a key, and that it names a record is seen to when it is written.
    let chosen = matches!(*function, "min" | "max");
    if !chosen && !record::no_key(field, at, &format!("what {function} gives names no record"), scope) {
        return;
    }
    if kind == Type::Other || gives == Type::Other {
        if *function == "count" {
            scope.require(field, at, "INTEGERS", &format!("count gives integer, which `{name}` is not"));
        } else {
            let text =
                format!("{function} gives what its field holds: whether `{name}` holds that cannot be seen through a type of one's own");
            scope.d.error(at, text).help("name the types themselves: `i64`, `f64`, `String`, `Timestamp`");
        }
    } else if gives.name() != kind.name() {
        scope.d.error(at, format!("{function} gives {}, `{name}` is {}", gives.name().unwrap_or("another type"), type_of(of)));
    } else if !of.optional && (chosen || *function == "avg") {
        scope.d.error(at, format!("{function} over nothing is null, `{name}` is required")).help("an `Option`");
    }
}

/// Rule 34: both live in one store.
fn stores(args: &Args, source: Option<usize>, target: Option<usize>, scope: &mut Scope<'_>) {
    let of = |sibling: Option<usize>| sibling.and_then(|at| scope.siblings.get(at)).map_or(scope.model, |sibling| &sibling.model);
    let (source, target) = (of(source), of(target));
    let apart = !source.stores.is_empty() && !target.stores.is_empty() && !source.stores.iter().any(|store| target.stores.contains(store));
    if let (true, Some(opt)) = (apart, args.get("source")) {
        let text = format!("`{}` and `{}` live in different stores", source.name, target.name);
        scope.d.error(&opt.key, text).help("`stores(..)` of both name one that they have in common");
    }
}

impl Measure {
    /// Its descriptor under a name.
    pub(super) fn tokens(&self, wire: &str) -> TokenStream {
        aggregate::tokens(self, wire)
    }
}
