//! `lookup`: finds one record or a page by declared fields.

use linchpin_vocabulary::kind;
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};
use syn::Ident;
use syn::ext::IdentExt;

use super::record::{self, Optional};
use super::{Input, Kind, KindModel, Plan, Returns, Shape};
use crate::entity::{Kind as Type, Member, index_text, member, members, read_page_numbers};
use crate::expr::{
    self, Assign, Assumption, Filter, Op, Param, Resolved, Role, Scope, Source, Value, Via, type_of,
};
use crate::names;
use crate::operation::args::Args;
use crate::operation::path::Method;
use crate::options::{self, Opt, OptValue, as_text};

pub(super) const KIND: Kind = Kind {
    planned: &["direction"],
    ..Kind::new(
        &kind::LOOKUP,
        &[
            "fields",
            "returns",
            "sort",
            "sorts",
            "limit",
            "paginate",
            "filter",
            "strict_params",
            "optional_params",
            "deleted",
        ],
        &["returns"],
        model,
    )
};

struct Lookup {
    fields: Vec<Assign>,
    optional: Optional,
    written: Option<Filter>,
    filter: Option<Resolved>,
    many: bool,
    /// Whether `returns` is missing or could not be read, so that `many` may be wrong.
    unsure: bool,
    paginate: bool,
    /// Whether pages are numbered.
    numbered: bool,
    limit: Option<u32>,
    sort: Option<Sort>,
    sorts: Vec<NamedSort>,
    deleted: bool,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = input.args;
    let strict = args.flag("strict_params", scope.d);
    let optional = record::optional(args, scope);
    let fields = lookup_fields(args, scope, &|name| {
        strict && !optional.names.contains(name)
    });
    let written = args.expr("filter", "filter = (status == Status::Published)", scope.d);
    let written = written.and_then(|expr| Filter::parse(expr, scope.d));
    let assumptions = || Assumption::equal("`fields`", &fields).into_iter().collect();
    let filter = written
        .as_ref()
        .and_then(|filter| scope.filter_with(filter, &optional.names, assumptions()));
    let before = scope.d.len();
    let many = args.choice("returns", &["one", "many"], scope.d) == "many";
    let unsure = scope.d.len() > before || args.get("returns").is_none_or(Opt::is_unreadable);
    let numbered = args
        .get("paginate")
        .is_some_and(|opt| matches!(&opt.value, OptValue::Expr(value) if as_text(value).is_some()));
    let paginate = if numbered {
        args.get("paginate")
            .is_some_and(|opt| read_page_numbers(opt, "paginate = \"page\"", scope.d))
    } else {
        args.flag("paginate", scope.d)
    };
    let limit = limit(args, scope);
    let sort = sort(args, scope, true);
    let sorts = args
        .get("sorts")
        .map(|opt| named_sorts(opt, scope))
        .unwrap_or_default();
    let deleted = args.get("deleted").is_some();
    if deleted {
        args.choice("deleted", &["only"], scope.d);
    }
    Box::new(Lookup {
        fields,
        optional,
        written,
        filter,
        many,
        unsure,
        paginate,
        numbered,
        limit,
        sort,
        sorts,
        deleted,
    })
}

impl KindModel for Lookup {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        let (args, name) = (input.args, input.name);
        let visible: Vec<Assumption> = scope.visible().into_iter().collect();
        expr::check(scope, "`fields`", &expr::equalities(&self.fields), &visible);
        self.optional.check(scope);
        for name in ["paginate", "limit", "sorts"] {
            if let Some(opt) = args.get(name).filter(|_| !self.many && !self.unsure) {
                scope
                    .d
                    .error(&opt.key, format!("`{name}` needs `returns = \"many\"`"));
            }
        }
        if let (Some(_), Some(sort)) = (args.get("sorts"), args.get("sort")) {
            scope
                .d
                .error(&sort.key, "`sort` and `sorts` exclude each other")
                .help("write this sort first in `sorts(..)`: the first sort is the default");
        }
        let pinned = pinned(&self.fields, self.written.as_ref(), scope);
        for sort in &self.sorts {
            sort.check(name, &pinned, scope);
        }
        let page_params: &[&str] = if self.numbered {
            &["page", "pageSize"]
        } else {
            &[]
        };
        let taken = |wire: &str| {
            page_params.contains(&wire) || (wire == "sort" && args.get("sorts").is_some())
        };
        for ident in scope
            .params
            .iter()
            .filter(|p| taken(&p.wire))
            .map(|p| p.ident.clone())
            .collect::<Vec<_>>()
        {
            scope
                .d
                .error(
                    &ident,
                    format!("parameter name `{ident}` is reserved for paging and sorting"),
                )
                .help("another name");
        }
        if let Some(opt) = args.get("deleted") {
            let at = opt.key.to_token_stream();
            super::restore::check_deleted_access(
                args,
                &format!("lookup `{name}` of deleted records"),
                &at,
                scope,
            );
        }
    }

    fn plan(&self, scope: &Scope<'_>) -> Option<Plan> {
        let shape = Shape::Collection {
            segments: segments(&self.fields, scope, &self.optional.names),
        };
        let (returns, errors) = if self.many {
            (
                Returns::Page,
                "`invalid_cursor`; `validation_failed` for a limit of 0.",
            )
        } else {
            (Returns::Optional, "When the store cannot answer.")
        };
        Some(Plan::new(shape, Method::Get, returns, errors))
    }

    fn expand(&self) -> TokenStream {
        let assigns = expr::assigns(&self.fields);
        let filter = self.filter.as_ref().map(|filter| quote!(.filter(#filter)));
        let sort = self.sort.as_ref().map(|sort| quote!(.sort(#sort)));
        let limit = self
            .limit
            .map(Literal::u32_unsuffixed)
            .map(|limit| quote!(.limit(#limit)));
        let page = self.many.then(|| quote!(.many()));
        let paged = match (self.numbered, self.paginate) {
            (true, _) => quote!(.numbered()),
            (false, true) => quote!(.paginate()),
            (false, false) => quote!(),
        };
        let sorts = &self.sorts;
        let sorts = (!sorts.is_empty()).then(|| quote!(.sorts(&[#(#sorts),*])));
        let deleted = self.deleted.then(|| quote!(.deleted()));
        quote!(__lp::Lookup::new(#assigns) #filter #page #paged #sort #sorts #limit #deleted)
    }
}

/// A field that a lookup compares with one value.
struct Pinned {
    field: usize,
    /// Whether every call compares the field, even one that omits optional parameters.
    always: bool,
}

/// Returns the fields that `fields(..)` and the filter compare with one value.
fn pinned(fields: &[Assign], filter: Option<&Filter>, scope: &Scope<'_>) -> Vec<Pinned> {
    let never_omitted = |param: &Param| param.required || param.default.is_some();
    let from_fields = fields.iter().map(|assign| {
        let always =
            !matches!(assign.value, Value::Param(index) if !never_omitted(scope.params.get(index)));
        Pinned {
            field: assign.field,
            always,
        }
    });
    let from_filter = filter
        .into_iter()
        .flat_map(Filter::pinned)
        .filter_map(|(ident, source)| {
            let always = match source {
                Some(Source::Param(name) | Source::Input(name)) => {
                    let name = names::snake(&name.unraw().to_string());
                    scope
                        .params
                        .iter()
                        .any(|param| param.name == name && never_omitted(param))
                }
                _ => true,
            };
            Some(Pinned {
                field: scope.model.index_of(ident)?,
                always,
            })
        });
    from_fields.chain(from_filter).collect()
}

/// Reads `fields(..)` of a lookup. It may be empty or absent if there is another condition.
fn lookup_fields(
    args: &Args,
    scope: &mut Scope<'_>,
    required: &dyn Fn(&String) -> bool,
) -> Vec<Assign> {
    let conditional = ["filter", "deleted"]
        .iter()
        .any(|name| args.get(name).is_some());
    if conditional && args.get("fields").is_none_or(Opt::is_empty_list) {
        return Vec::new();
    }
    if let Some(at) = &args.kind {
        args.require(KIND.facts.name, "fields", KIND.options, at, scope.d);
    }
    fields(args, "fields", scope, required)
}

/// Reads `fields(a = param(a), ..)` of lookup and exists.
pub(super) fn fields(
    args: &Args,
    option: &str,
    scope: &mut Scope<'_>,
    required: &dyn Fn(&String) -> bool,
) -> Vec<Assign> {
    let pairs = args.pairs(option, scope.d);
    let role = |source: &Source| {
        let required = match source {
            Source::Param(name) | Source::Input(name) => required(&names::snake(&name.to_string())),
            _ => true,
        };
        Role::Compare {
            op: Op::Eq,
            required,
        }
    };
    let assigns = scope.assigns(&pairs, role);
    for assign in &assigns {
        let of = scope.at(assign.field);
        if !of.kind.is_scalar() {
            scope.d.error(
                &assign.key,
                format!("field `{}` ({}) cannot be matched", of.name, type_of(of)),
            );
        } else if of.kind == Type::Other {
            scope.needs(assign.field, &assign.key, "SCALARS", "match");
        }
    }
    assigns
}

/// Returns the parameters of `fields` that are segments of the path form, in order, each once.
pub(super) fn segments(fields: &[Assign], scope: &Scope<'_>, optional: &[String]) -> Vec<usize> {
    let mut segments: Vec<usize> = Vec::new();
    for assign in fields {
        if let Value::Param(index) = assign.value {
            let param = scope.params.get(index);
            if param.via == Via::Param
                && !optional.contains(&param.name)
                && !segments.contains(&index)
            {
                segments.push(index);
            }
        }
    }
    segments
}

pub(super) fn limit(args: &Args, scope: &mut Scope<'_>) -> Option<u32> {
    let expr = args.expr("limit", "limit = 50", scope.d)?;
    let limit = options::as_int(expr)
        .and_then(Result::ok)
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| (1..=10_000).contains(n));
    if limit.is_none() {
        scope
            .d
            .error(expr, "`limit` must be a whole number from 1 to 10000");
    }
    limit
}

/// Reads `sort = desc(f)`; `paged` is true if cursors contain its values.
pub(super) fn sort(args: &Args, scope: &mut Scope<'_>, paged: bool) -> Option<Sort> {
    let member = member(
        args.expr("sort", "sort = desc(created_at)", scope.d)?,
        scope.d,
    )?;
    sort_key(&member, scope, paged)
}

/// Reads `sorts(new(desc(pinned), desc(created_at)), top(desc(score)))`.
fn named_sorts(opt: &Opt, scope: &mut Scope<'_>) -> Vec<NamedSort> {
    const EXAMPLE: &str = "sorts(new(desc(pinned), desc(created_at)), top(desc(score)))";
    let Some(list) = opt.list(EXAMPLE, scope.d) else {
        return Vec::new();
    };
    let written = options::parse(list, scope.d);
    if opt.is_empty_list() {
        scope
            .d
            .error(&opt.key, "`sorts` is empty")
            .help(format!("`{EXAMPLE}`"));
    }
    let mut sorts: Vec<NamedSort> = Vec::new();
    for sort in &written {
        let before = scope.d.len();
        let name = names::camel(&sort.name());
        if sorts.iter().any(|other| other.name == name) {
            scope
                .d
                .error(&sort.key, format!("sort `{name}` is given twice"))
                .help("another name");
        }
        let example = format!("{}(desc(created_at))", sort.key);
        let Some(list) = sort.list(&example, scope.d) else {
            continue;
        };
        let members = members(sort, list, scope.d);
        let keys = members
            .iter()
            .filter_map(|member| sort_key(member, scope, true))
            .collect();
        for (i, member) in members.iter().enumerate() {
            if members[..i]
                .iter()
                .any(|earlier| earlier.ident == member.ident)
            {
                scope
                    .d
                    .error(
                        &member.ident,
                        format!("field `{}` repeated in sort `{name}`", member.ident),
                    )
                    .help("name each field once");
            }
        }
        sorts.push(NamedSort {
            name,
            key: sort.key.clone(),
            keys,
            sound: scope.d.len() == before,
        });
    }
    sorts
}

/// A field of the sort.
pub(super) struct Sort {
    field: usize,
    number: Literal,
    desc: bool,
}

/// An order that callers choose by name.
struct NamedSort {
    name: String,
    /// The name as written.
    key: Ident,
    keys: Vec<Sort>,
    /// Whether the whole order could be read.
    sound: bool,
}

impl NamedSort {
    /// Checks that an index supports the order. The index may begin with fields that every call
    /// compares with one value; the keys of the order follow.
    fn check(&self, lookup: &str, pinned: &[Pinned], scope: &mut Scope<'_>) {
        let (model, name) = (scope.model, &self.name);
        let is_scope = |field: usize| model.visibility.pins(field, lookup);
        let keys: Vec<(usize, bool)> = self
            .keys
            .iter()
            .map(|sort| (sort.field, sort.desc))
            .collect();
        let pinned_in_every_call =
            |field: usize| pinned.iter().any(|p| p.always && p.field == field) || is_scope(field);
        if !self.sound || model.has_index_for(&keys, &pinned_in_every_call) {
            return;
        }
        // The index that the error suggests: the pinned fields, then the keys of this order.
        let mut wanted: Vec<(usize, bool)> = Vec::new();
        for one in pinned
            .iter()
            .filter(|one| one.always && keys.iter().all(|(key, _)| *key != one.field))
        {
            if !wanted.contains(&(one.field, false)) {
                wanted.push((one.field, false));
            }
        }
        wanted.extend(&keys);
        let (entity, wanted) = (&model.name, index_text(model, &wanted));
        // If an index supports calls with all parameters, the message says which parameters are
        // optional.
        let pinned_with_all_params =
            |field: usize| pinned.iter().any(|p| p.field == field) || is_scope(field);
        if model.has_index_for(&keys, &pinned_with_all_params) {
            let missing: Vec<String> = pinned
                .iter()
                .filter(|p| !p.always)
                .map(|p| format!("`{}`", model.fields[p.field].name))
                .collect();
            let text = format!(
                "sort `{name}` has no index of `{entity}` for calls without {}",
                missing.join(", ")
            );
            scope.d.error(&self.key, text).help(format!(
                "`strict_params` on the lookup, or `{wanted}` on the entity"
            ));
        } else {
            scope
                .d
                .error(
                    &self.key,
                    format!("sort `{name}` needs an index of `{entity}` on the fields of the sort"),
                )
                .help(format!("`{wanted}` on the entity"));
        }
    }
}

impl ToTokens for Sort {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let field = &self.number;
        tokens.extend(if self.desc {
            quote!(__lp::desc(#field))
        } else {
            quote!(__lp::asc(#field))
        });
    }
}

impl ToTokens for NamedSort {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let (name, keys) = (&self.name, &self.keys);
        tokens.extend(quote!(__lp::NamedSort::new(#name, &[#(#keys),*])));
    }
}

fn sort_key(member: &Member, scope: &mut Scope<'_>, paged: bool) -> Option<Sort> {
    let field = scope.field(&member.ident)?;
    let of = scope.at(field);
    if !of.kind.is_scalar() {
        scope.d.error(
            &member.ident,
            format!("cannot sort by `{}` ({})", of.name, type_of(of)),
        );
    } else if paged && !of.readable() {
        scope.d.error(
            &member.ident,
            format!(
                "cannot sort by `{}`: cursors would reveal what clients may not read",
                of.name
            ),
        );
    } else if of.kind == Type::Other {
        scope.needs(field, &member.ident, "SCALARS", "sort");
    }
    Some(Sort {
        field,
        number: scope.model.number(field),
        desc: member.desc,
    })
}
