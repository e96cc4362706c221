//! Shared parts of the kinds that change one record: the search for the record, and the written
//! values.

use proc_macro2::TokenStream;
use syn::Ident;
use syn::ext::IdentExt;

use super::Input;
use crate::entity::{Field, Flag};
use crate::expr::{
    Assign, Assumption, Cond, Filter, Resolved, Role, Scope, Source, Value, assigns, check,
    conditions, equalities, is_always, refuse_always, type_of,
};
use crate::names;
use crate::operation::args::Args;
use crate::options::OptValue;

/// `match(..)`. The default is the record in the path.
pub(super) struct Matches {
    assigns: Vec<Assign>,
    /// Whether all members could be resolved.
    complete: bool,
    /// Whether the option is present.
    written: bool,
}

impl Matches {
    /// Reads and resolves the option.
    pub(super) fn resolve(args: &Args, scope: &mut Scope<'_>) -> Self {
        if args.get("match").is_none() {
            let assigns: Vec<Assign> = by_id(scope).into_iter().collect();
            return Self {
                complete: !assigns.is_empty(),
                assigns,
                written: false,
            };
        }
        let pairs = args.pairs("match", scope.d);
        let assigns = scope.assigns(&pairs, |_| Role::Match);
        Self {
            complete: assigns.len() == pairs.len() && !assigns.is_empty(),
            assigns,
            written: true,
        }
    }

    /// Whether all members could be resolved.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the members, if all of them could be resolved.
    pub(super) fn complete(&self) -> Option<&[Assign]> {
        self.complete.then_some(&self.assigns)
    }

    /// `&[__lp::assign(..), ..]`.
    pub(super) fn tokens(&self) -> TokenStream {
        assigns(&self.assigns)
    }

    /// Checks that the fields can be compared, and that they identify one record.
    pub(super) fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        let Some(opt) = input.args.get("match").filter(|_| self.written) else {
            return;
        };
        for assign in &self.assigns {
            let of = scope.at(assign.field);
            if !of.kind.is_scalar() {
                scope.d.error(
                    &assign.key,
                    format!("field `{}` ({}) cannot be matched", of.name, type_of(of)),
                );
            }
        }
        let fields: Vec<usize> = self.assigns.iter().map(|a| a.field).collect();
        // A member with an error may be the member that identifies the record. So there is no
        // second error.
        if self.complete && !scope.model.identify_one_record(&fields) {
            let primary = scope
                .model
                .primary
                .map_or("id", |p| scope.at(p).name.as_str());
            let text = format!("match of `{}` may hit several records", input.name);
            scope
                .d
                .error(&opt.key, text)
                .help(format!("add `{primary}` or all fields of a unique"));
        }
        let visible: Vec<Assumption> = scope.visible().into_iter().collect();
        check(scope, "`match`", &equalities(&self.assigns), &visible);
    }
}

/// Returns `id = param(id)`, with the name of the key.
fn by_id(scope: &mut Scope<'_>) -> Option<Assign> {
    let primary = scope.model.primary?;
    let id = Ident::new("id", proc_macro2::Span::call_site());
    let key = scope.at(primary).ident.clone();
    let value = scope.value(&Source::Param(id), primary, &key, Role::Match)?;
    Some(Assign {
        key,
        field: primary,
        value,
    })
}

/// The form of a field in the request body.
pub(super) struct BodyForm {
    /// Whether the body must contain it.
    pub(super) required: bool,
    /// Whether it may be null.
    pub(super) nullable: bool,
}

/// Reads `name(a, b)`: fields whose values come from the body, with their own names.
pub(super) fn from_body(
    args: &Args,
    option: &str,
    scope: &mut Scope<'_>,
    form: impl Fn(&Field) -> BodyForm,
) -> Vec<Assign> {
    let Some(opt) = args.get(option) else {
        return Vec::new();
    };
    let idents = args.names(option, scope.d);
    if idents.is_empty() && opt.is_empty_list() {
        scope
            .d
            .error(&opt.key, format!("`{option}` is empty"))
            .help(format!("`{option}(title)`"));
    }
    let mut assigns: Vec<Assign> = Vec::new();
    for key in idents {
        let Some(field) = scope.field(&key) else {
            continue;
        };
        let of = scope.at(field);
        if assigns.iter().any(|a| a.field == field) {
            scope
                .d
                .error(&key, format!("field `{}` repeated in {option}", of.name));
            continue;
        }
        if option == "match" && of.comes_from_caller() {
            // The value comes from the caller's context, so the body does not contain it.
            assigns.push(Assign {
                key,
                field,
                value: Value::Null,
            });
            continue;
        }
        if of.has(Flag::Private) {
            scope
                .d
                .error(
                    &key,
                    format!("private field `{}`: clients cannot supply it", of.name),
                )
                .help("`now()`, `ctx(..)` or a literal");
            continue;
        }
        if option == "set" && of.has(Flag::Primary) {
            // `check_set` reports that the primary key cannot be written.
            assigns.push(Assign {
                key,
                field,
                value: Value::Null,
            });
            continue;
        }
        let BodyForm { required, nullable } = form(of);
        if let Some(value) = scope.value(
            &Source::Input(key.clone()),
            field,
            &key,
            Role::Body { required, nullable },
        ) {
            assigns.push(Assign { key, field, value });
        }
    }
    assigns
}

/// Reads `filter = (..)`. Parameters in `optional` may be omitted.
pub(super) fn filter(args: &Args, optional: &[String], scope: &mut Scope<'_>) -> Option<Resolved> {
    let expr = args.expr("filter", "filter = (status == Status::Archived)", scope.d)?;
    let filter = Filter::parse(expr, scope.d)?;
    scope.filter(&filter, optional)
}

/// Reports a filter that matches every record; `what` is the operation.
pub(super) fn refuse_every_record(
    input: &Input<'_>,
    what: &str,
    filter: Option<&Resolved>,
    scope: &mut Scope<'_>,
) {
    let Some((filter, opt)) = filter.zip(input.args.get("filter")) else {
        return;
    };
    let OptValue::Expr(expr) = &opt.value else {
        return;
    };
    let assumptions: Vec<Assumption> = scope.visible().into_iter().collect();
    refuse_always(
        scope,
        filter,
        &assumptions,
        1,
        expr,
        &format!("filter of {what} would match every record"),
    );
}

/// Whether an operation may change the field. Otherwise the reason is reported.
pub(super) fn mutable(field: usize, at: &Ident, scope: &mut Scope<'_>) -> bool {
    let of = scope.at(field);
    let (problem, help) = if of.has(Flag::Primary) {
        (
            "is the primary key",
            Some("a key cannot change; use `match(..)` to select the record"),
        )
    } else if let Some(owner) = of.server_only_reason {
        (owner, None)
    } else if of.immutable() {
        ("is immutable", None)
    } else if of.generated {
        ("is the version counter", None)
    } else if of.options.on_update.is_some() {
        ("is set to the current time by every change", None)
    } else {
        return true;
    };
    let problem = scope.d.error(at, format!("`{}` {problem}", of.name));
    if let Some(help) = help {
        problem.help(help);
    }
    false
}

/// Whether the field is not the key of another entity's record. A key is reported; `why` is the
/// reason in the message.
pub(super) fn no_key(field: usize, at: &Ident, why: &str, scope: &mut Scope<'_>) -> bool {
    let Some(word) = scope.model.key_of(field) else {
        return true;
    };
    let text = format!("`{}` is the key of a `{word}`: {why}", scope.at(field).name);
    scope
        .d
        .error(at, text)
        .help("use another field for the number");
    false
}

/// Checks `set(..)`: fields must be mutable and not server-owned. `state` is the position of the
/// field that a transition changes.
///
/// `now()`, `ctx(..)` and literals may be written to a `read_only` field, because clients never
/// supply them.
pub(super) fn check_set(assigns: &[Assign], state: Option<usize>, scope: &mut Scope<'_>) {
    for Assign { key, field, value } in assigns {
        let of = scope.at(*field);
        let name = key.unraw();
        if state == Some(*field) {
            scope
                .d
                .error(key, format!("`{name}` is the state field: `to` sets it"));
        } else if !mutable(*field, key, scope) {
            // `mutable` has reported it.
        } else if of.options.default.is_generated() && of.server_owned() {
            scope
                .d
                .error(
                    key,
                    format!("`{name}` is set by the server when the record is created"),
                )
                .help("`client_set` on the field");
        } else if of.server_owned() && matches!(value, Value::Param(_)) {
            let text = format!("`{name}` is read-only: clients cannot supply it");
            scope
                .d
                .error(key, text)
                .help("`now()`, `ctx(..)` or a literal");
        } else if scope.without_value.contains(key) {
            scope.report_missing_value(key);
        }
    }
}

/// `optional_params(x, y)`: parameters whose conditions are dropped if a call omits them.
pub(super) struct Optional {
    idents: Vec<Ident>,
    /// The names in snake_case.
    pub(super) names: Vec<String>,
}

/// Reads `optional_params`. Call [`Optional::check`] after all parameters are known.
pub(super) fn optional(args: &Args, scope: &mut Scope<'_>) -> Optional {
    let idents = args.names("optional_params", scope.d);
    let names = idents
        .iter()
        .map(|ident| names::snake(&ident.to_string()))
        .collect();
    Optional { idents, names }
}

impl Optional {
    /// Reports names without a parameter.
    pub(super) fn check(&self, scope: &mut Scope<'_>) {
        for ident in &self.idents {
            if scope.params.by_name(&ident.to_string()).is_none() {
                let known: Vec<String> = scope.params.iter().map(|p| p.name.clone()).collect();
                let problem = scope.d.error(
                    ident,
                    format!("unknown parameter `{ident}` in optional_params"),
                );
                problem.suggest(&ident.to_string(), known.iter().map(String::as_str));
                continue;
            }
            if scope
                .params
                .by_name(&ident.to_string())
                .is_some_and(|i| scope.params.get(i).default.is_some())
            {
                scope.d.error(
                    ident,
                    format!("parameter `{ident}` has a default, so it is never left out"),
                );
            }
        }
    }

    /// Checks that a condition remains if a call omits all optional parameters.
    pub(super) fn check_remaining_condition(
        &self,
        name: &str,
        filter: &Resolved,
        at: &Ident,
        scope: &mut Scope<'_>,
    ) {
        let members = match filter {
            Resolved::All(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        for member in members
            .iter()
            .filter(|member| matches!(member, Resolved::Any(_)))
        {
            let dropped: Vec<&Cond> = conditions(member)
                .into_iter()
                .filter(|cond| self.is_dropped(cond, scope))
                .collect();
            for cond in dropped {
                scope
                    .d
                    .error(&cond.ident, "a parameter inside `||` cannot be optional")
                    .help("move this condition out of `||`, and join it with `&&`");
            }
        }
        let visible: Vec<Assumption> = scope.visible().into_iter().collect();
        // `refuse_every_record` has checked the whole filter. A member that always holds does not
        // count as a remaining condition.
        let always = |member: &Resolved| members.len() > 1 && is_always(scope, member, &visible);
        let remains = |member: &Resolved| {
            conditions(member)
                .iter()
                .all(|cond| !self.is_dropped(cond, scope))
                && !always(member)
        };
        if !members.iter().any(remains) {
            let text = format!(
                "filter of batch `{name}` would match every record if all optional parameters are omitted"
            );
            scope
                .d
                .error(at, text)
                .help("a condition without parameters of `optional_params`");
        }
        for ident in &self.idents {
            let is_required = scope
                .params
                .by_name(&ident.to_string())
                .map(|i| scope.params.get(i))
                .is_some_and(|p| p.required);
            if is_required {
                scope.d.error(
                    ident,
                    format!("parameter `{ident}` is needed elsewhere, so it cannot be left out"),
                );
            }
        }
    }

    /// Whether a condition is dropped if a call omits one of these parameters.
    fn is_dropped(&self, cond: &Cond, scope: &Scope<'_>) -> bool {
        let mut params = cond.values.iter().filter_map(|value| {
            if let Value::Param(i) = *value {
                Some(scope.params.get(i))
            } else {
                None
            }
        });
        params.any(|param| param.default.is_none() && self.names.contains(&param.name))
    }
}
