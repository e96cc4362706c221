//! `array_push`, `array_pull`, `array_set`: change a list of strings.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};

use super::{Kind, Plan, Returns, Shape, record};
use crate::entity::{Kind as Type, check_written};
use crate::expr::{self, Role, Scope, Source, Value, type_of};
use crate::operation::args::Args;
use crate::operation::path::Method;

/// The three of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Array {
    Push,
    Pull,
    Set,
}

impl Kind for Array {
    fn name(&self) -> &'static str {
        match self {
            Self::Push => "array_push",
            Self::Pull => "array_pull",
            Self::Set => "array_set",
        }
    }

    fn capability(&self, _: &Args) -> &'static str {
        "atomic.array"
    }

    fn options(&self) -> &'static [&'static str] {
        if *self == Self::Pull { &["field", "value", "match"] } else { &["field", "value", "match", "dedupe"] }
    }

    fn required(&self) -> &'static [&'static str] {
        &["field", "value"]
    }

    fn resolve(&self, args: &Args, name: &str, scope: &mut Scope<'_>) -> Option<Plan> {
        let matches = record::matches(args, name, scope);
        let field = self.field(args, scope);
        let value = field.and_then(|field| self.value(args, field, scope));
        let repeats = args.get("dedupe").and_then(|opt| opt.boolean(scope.d)) == Some(false);
        if let (true, Some(field), Some(opt)) = (repeats, field, args.get("dedupe"))
            && scope.at(field).options.rules.unique_items.is_some()
        {
            let text = format!("`{}` has `unique_items`: its elements never repeat", scope.at(field).name);
            scope.d.error(&opt.key, text).help("leave `dedupe` out");
        }
        let matches = expr::assigns(&matches?);
        let (index, value) = (scope.model.number(field.unwrap_or(0)), value.map_or_else(|| quote!(__lp::NULL), |v| v.to_token_stream()));
        let repeats = repeats.then(|| quote!(.repeats()));
        let make = format_ident!("{}", &self.name()["array_".len()..]);
        let (method, errors) = match self {
            Self::Push => (Method::Post, "`not_found`; `validation_failed` for an element that breaks a rule or a list that is full."),
            Self::Pull => (Method::Delete, "`not_found`; `validation_failed` when too few elements would be left."),
            Self::Set => (Method::Put, "`not_found`; `validation_failed` for a list that breaks a rule."),
        };
        Some(Plan {
            descriptor: quote!(__lp::ArrayWrite::#make(#index, #value, #matches) #repeats),
            shape: Shape::ById,
            method,
            returns: Returns::Record,
            errors,
            parts: Vec::new(),
            list: 0,
        })
    }
}

impl Array {
    fn field(self, args: &Args, scope: &mut Scope<'_>) -> Option<usize> {
        let ident = args.ident("field", "field = tags", scope.d)?;
        let field = scope.field(&ident)?;
        let of = scope.at(field);
        match of.kind {
            Type::StringArray => {}
            Type::Other => {
                scope.needs(field, &ident, "TEXT_LISTS", self.name());
            }
            _ => {
                let text = format!("{} needs a list of strings, `{}` is {}", self.name(), of.name, type_of(of));
                scope.d.error(&ident, text);
                return None;
            }
        }
        record::mutable(field, &ident, scope);
        Some(field)
    }

    fn value(self, args: &Args, field: usize, scope: &mut Scope<'_>) -> Option<Value> {
        let ident = args.ident("field", "field = tags", scope.d)?;
        let example = if self == Self::Set { "value = input(tags)" } else { "value = input(tag)" };
        let expr = args.expr("value", example, scope.d)?;
        let source = Source::parse(expr, scope.d)?;
        let role = match self {
            Self::Push | Self::Pull => Role::Element,
            Self::Set => Role::Body { required: true, nullable: false },
        };
        if self == Self::Set && !matches!(source, Source::Param(_) | Source::Input(_)) {
            let at: TokenStream = source.tokens();
            scope.d.error(&at, "array_set takes a list from the call").help(format!("`{example}`"));
            return None;
        }
        let of = scope.at(field);
        // What is to go may be anything that has ever been there.
        if let (Self::Push, Source::Literal(expr)) = (self, &source) {
            check_written(of, expr, true, scope.d);
        }
        if let (Some(value), true) = (scope.value(&source, field, &ident, role), source.is_given()) {
            if of.server_owned() {
                scope.d.error(&ident, format!("`{}` is read-only: no client may supply it", of.name));
            }
            return Some(value);
        }
        scope.value(&source, field, &ident, role)
    }
}
