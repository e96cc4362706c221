//! `upsert`: creates a record, or changes the record with the same `match` values.

use linchpin_vocabulary::kind;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;

use super::{Input, Kind, KindModel, Plan, Returns, Shape, record};
use crate::diagnostics::list;
use crate::entity::{Flag, Kind as Type};
use crate::expr::{self, Assign, Role, Scope, Value, type_of};
use crate::operation::args::Args;
use crate::operation::path::Method;

pub(super) const KIND: Kind = Kind::new(
    &kind::UPSERT,
    &["match", "set", "on_create", "returns"],
    &["match", "set"],
    model,
);

struct Upsert {
    matches: Vec<Assign>,
    set: Vec<Assign>,
    on_create: Vec<Assign>,
    /// Whether the response has the member `created` in addition to the record.
    wrapped: bool,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = input.args;
    let matches = record::from_body(args, "match", scope, |_| record::BodyForm {
        required: true,
        nullable: false,
    });
    let set = record::from_body(args, "set", scope, |field| record::BodyForm {
        required: !field.optional && !field.has_default(),
        nullable: field.optional,
    });
    let pairs = args.pairs("on_create", scope.d);
    let on_create = scope.assigns(&pairs, |_| Role::Create);
    let wrapped = args.choice("returns", &["entity", "created"], scope.d) == "created";
    Box::new(Upsert {
        matches,
        set,
        on_create,
        wrapped,
    })
}

impl KindModel for Upsert {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        let (args, name) = (input.args, input.name);
        let Self {
            matches,
            set,
            on_create,
            ..
        } = self;
        record::check_set(set, None, scope);
        check_match(args, name, matches, scope);
        check_on_create(on_create, scope);
        for (option, assigns) in [("match", matches), ("set", set)] {
            // The fields of `match` are compared with those of both other options. The fields of
            // `set` are compared with those of `on_create`.
            let other_assigns = if option == "match" {
                set.iter().chain(on_create)
            } else {
                on_create.iter().chain(&[])
            };
            for duplicate in
                other_assigns.filter(|a| assigns.iter().any(|first| first.field == a.field))
            {
                let other = if set.iter().any(|a| a.key == duplicate.key) {
                    "set"
                } else {
                    "on_create"
                };
                let key = duplicate.key.unraw();
                scope
                    .d
                    .error(
                        &duplicate.key,
                        format!("`{key}` is in both `{option}` and `{other}`"),
                    )
                    .help("keep one of them");
            }
        }
        check_required(args, name, [matches, set, on_create], scope);
        check_permission_fields(args, name, [matches, set, on_create], scope);
    }

    fn plan(&self, _: &Scope<'_>) -> Option<Plan> {
        let returns = if self.wrapped {
            Returns::Upserted
        } else {
            Returns::Record
        };
        let errors = "`validation_failed`; `conflict` if a value of another unique is taken, or the matching record belongs to another caller.";
        Some(Plan::new(Shape::COLLECTION, Method::Post, returns, errors))
    }

    fn expand(&self) -> TokenStream {
        let (matches, set) = (
            expr::assigns(&self.matches),
            expr::unless_empty("set", &self.set),
        );
        let on_create = expr::unless_empty("on_create", &self.on_create);
        let flag = self.wrapped.then(|| quote!(.wrapped()));
        quote!(__lp::Upsert::new(#matches) #set #on_create #flag)
    }
}

/// Checks that the matched fields are the primary key, or exactly the fields of one `unique(..)`,
/// and that clients may supply them.
fn check_match(args: &Args, name: &str, matches: &[Assign], scope: &mut Scope<'_>) {
    let Some(opt) = args.get("match") else { return };
    for Assign { key, field, .. } in matches {
        let of = scope.at(*field);
        if !of.kind.is_scalar() {
            scope.d.error(
                key,
                format!("field `{}` ({}) cannot be matched", of.name, type_of(of)),
            );
        } else if of.server_owned() && !of.comes_from_caller() {
            scope
                .d
                .error(
                    key,
                    format!(
                        "`{}` is set by the server: clients cannot supply it",
                        of.name
                    ),
                )
                .help("match the fields of a `unique(..)`");
        }
    }
    let fields: Vec<usize> = matches.iter().map(|a| a.field).collect();
    let is_key = scope
        .model
        .primary
        .is_some_and(|primary| fields == [primary]);
    let is_unique = scope.model.uniques.iter().any(|unique| {
        let members = &unique.fields;
        members.len() == fields.len() && members.iter().all(|member| fields.contains(&member.field))
    });
    if !fields.is_empty() && !is_key && !is_unique && !scope.model.has_unread_options {
        let names: Vec<&str> = fields.iter().map(|f| scope.at(*f).name.as_str()).collect();
        let names = names.join(", ");
        let text = format!("upsert `{name}` needs a unique on ({names})");
        scope.d.error(&opt.key, text).help(format!(
            "write `unique({names})` on {}, or match the fields of an existing `unique(..)`",
            scope.model.name
        ));
    }
}

/// Refuses the version counter and computed fields in `on_create`, and values from clients for
/// fields that clients cannot write.
fn check_on_create(on_create: &[Assign], scope: &mut Scope<'_>) {
    for Assign { key, field, value } in on_create {
        let of = scope.at(*field);
        if of.generated {
            scope
                .d
                .error(key, format!("`{}` is the version counter", of.name));
        } else if of.options.computed.is_some() {
            scope
                .d
                .error(key, format!("`{}` is computed", of.name))
                .help("set the fields that it is computed from");
        } else if of.server_owned() && matches!(value, Value::Param(_)) {
            scope
                .d
                .error(
                    key,
                    format!("`{}` is read-only: clients cannot supply it", of.name),
                )
                .help("`now()`, `ctx(..)` or a literal");
        }
    }
}

/// Checks that the fields of a permission have a value when the record is created. Without a
/// value for the owner field, only a permission evaluator could allow the call, and the new record
/// would have no owner.
fn check_permission_fields(
    args: &Args,
    name: &str,
    lists: [&Vec<Assign>; 3],
    scope: &mut Scope<'_>,
) {
    let Some(opt) = args.get("set") else { return };
    let model = scope.model;
    if model.has_unread_options || model.has_unread_routes {
        return;
    }
    let Some(permission) = args
        .route
        .policy
        .permission
        .as_ref()
        .or(model.defaults.permission.as_ref())
    else {
        return;
    };
    for index in permission
        .record_fields()
        .filter_map(|name| model.index_of(name))
    {
        let field = &model.fields[index];
        let given = lists
            .iter()
            .any(|list| list.iter().any(|a| a.field == index));
        if field.optional && !given && !field.has_default() && field.server_only_reason.is_none() {
            let text = format!(
                "upsert `{name}` creates records without `{}`, which its permission needs",
                field.name
            );
            scope
                .d
                .error(&opt.key, text)
                .help(format!("`set({0})`, or `on_create({0} = ..)`", field.name));
        }
    }
}

/// Checks that every required field has a value when the record is created.
fn check_required(args: &Args, name: &str, lists: [&Vec<Assign>; 3], scope: &mut Scope<'_>) {
    let Some(opt) = args.get("set").filter(|_| !scope.model.has_unread_options) else {
        return;
    };
    let given = |index: usize| {
        lists
            .iter()
            .any(|list| list.iter().any(|a| a.field == index))
    };
    let lacking = |(index, field): &(usize, &crate::entity::Field)| {
        let filled = field.optional
            || field.has_default()
            || field.generated
            || field.server_only_reason.is_some()
            || field.options.on_update.is_some();
        // For an integer key without a default, the store chooses a number.
        let numbered = field.has(Flag::Primary) && field.kind == Type::Integer;
        !filled && !numbered && !given(*index)
    };
    let missing: Vec<(usize, &crate::entity::Field)> = scope
        .model
        .fields
        .iter()
        .enumerate()
        .filter(lacking)
        .collect();
    // A field whose type is an alias may be a list, which is empty by default. Only the compiler
    // knows the type, so `require` adds a compile-time check that it is a list.
    let (unknown, missing): (Vec<_>, Vec<_>) = missing
        .into_iter()
        .partition(|(_, field)| field.kind == Type::Other);
    for (index, field) in unknown {
        scope.require(
            index,
            &opt.key,
            "LISTS",
            &format!("upsert `{name}` creates records without `{}`", field.name),
        );
    }
    let missing: Vec<&str> = missing
        .into_iter()
        .map(|(_, field)| field.name.as_str())
        .collect();
    if !missing.is_empty() {
        let text = format!("upsert `{name}` creates records without {}", list(&missing));
        let field = missing[0];
        let is_key = scope
            .model
            .fields
            .iter()
            .any(|f| f.name == field && f.has(Flag::Primary));
        let help = if is_key {
            format!("`on_create({field} = uuid())`")
        } else {
            format!("`set({field})`, or a default on the field")
        };
        scope.d.error(&opt.key, text).help(help);
    }
}
