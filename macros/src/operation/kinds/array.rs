//! `array_push`, `array_pull`, `array_set`: change a list of strings.

use linchpin_vocabulary::kind;
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};
use syn::Ident;

use super::record::{self, Matches};
use super::{Input, Kind, KindModel, Plan, Returns, Shape};
use crate::entity::{Kind as Type, check_written};
use crate::expr::{Role, Scope, Source, Value, type_of};
use crate::operation::args::Args;
use crate::operation::path::Method;

const OPTIONS: &[&str] = &["field", "value", "match", "dedupe"];
const REQUIRED: &[&str] = &["field", "value"];

pub(super) const PUSH: Kind = Kind::new(&kind::ARRAY_PUSH, OPTIONS, REQUIRED, |input, scope| {
    model(Action::Push, input, scope)
});
pub(super) const PULL: Kind = Kind::new(
    &kind::ARRAY_PULL,
    &["field", "value", "match"],
    REQUIRED,
    |input, scope| model(Action::Pull, input, scope),
);
pub(super) const SET: Kind = Kind::new(&kind::ARRAY_SET, OPTIONS, REQUIRED, |input, scope| {
    model(Action::Set, input, scope)
});

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Push,
    Pull,
    Set,
}

struct Array {
    action: Action,
    matches: Matches,
    /// The field as written, and its position.
    field: Option<(Ident, usize)>,
    number: Literal,
    value: Option<Value>,
    /// Whether the caller provides the value.
    given: bool,
    /// Whether equal elements are allowed.
    repeats: bool,
}

fn model(action: Action, input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = input.args;
    let matches = Matches::resolve(args, scope);
    let field = action.field(args, scope);
    let read = field
        .as_ref()
        .and_then(|(ident, field)| action.value(args, ident, *field, scope));
    let repeats = args.get("dedupe").and_then(|opt| opt.boolean(scope.d)) == Some(false);
    let number = scope
        .model
        .number(field.as_ref().map_or(0, |(_, field)| *field));
    let (value, given) = read.map_or((None, false), |(value, given)| (value, given));
    Box::new(Array {
        action,
        matches,
        field,
        number,
        value,
        given,
        repeats,
    })
}

impl KindModel for Array {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        self.matches.check(input, scope);
        let Some((ident, field)) = &self.field else {
            return;
        };
        let of = scope.at(*field);
        record::mutable(*field, ident, scope);
        if self.value.is_some() && self.given && of.server_owned() {
            scope.d.error(
                ident,
                format!("`{}` is read-only: clients cannot supply it", of.name),
            );
        }
        if let (true, Some(opt)) = (self.repeats, input.args.get("dedupe"))
            && of.options.rules.unique_items.is_some()
        {
            let text = format!(
                "`{}` has `unique_items`: its elements never repeat",
                of.name
            );
            scope.d.error(&opt.key, text).help("leave `dedupe` out");
        }
    }

    fn plan(&self, _: &Scope<'_>) -> Option<Plan> {
        let (method, errors) = match self.action {
            Action::Push => (
                Method::Post,
                "`not_found`; `validation_failed` for an element that breaks a rule or a list that is full.",
            ),
            Action::Pull => (
                Method::Delete,
                "`not_found`; `validation_failed` when too few elements would be left.",
            ),
            Action::Set => (
                Method::Put,
                "`not_found`; `validation_failed` for a list that breaks a rule.",
            ),
        };
        self.matches
            .is_complete()
            .then(|| Plan::new(Shape::ById, method, Returns::Record, errors))
    }

    fn expand(&self) -> TokenStream {
        let (field, matches) = (&self.number, self.matches.tokens());
        let value = self
            .value
            .as_ref()
            .map_or_else(|| quote!(__lp::NULL), ToTokens::to_token_stream);
        let repeats = self.repeats.then(|| quote!(.repeats()));
        let make = match self.action {
            Action::Push => quote!(push),
            Action::Pull => quote!(pull),
            Action::Set => quote!(set),
        };
        quote!(__lp::ArrayWrite::#make(#field, #value, #matches) #repeats)
    }
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Push => kind::ARRAY_PUSH.name,
            Self::Pull => kind::ARRAY_PULL.name,
            Self::Set => kind::ARRAY_SET.name,
        }
    }

    /// Returns the field as written, and its position.
    fn field(self, args: &Args, scope: &mut Scope<'_>) -> Option<(Ident, usize)> {
        let ident = args.ident("field", "field = tags", scope.d)?;
        let field = scope.field(&ident)?;
        let of = scope.at(field);
        match of.kind {
            Type::StringArray => {}
            Type::Other => {
                scope.needs(field, &ident, "TEXT_LISTS", self.name());
            }
            _ => {
                let text = format!(
                    "{} needs a list of strings, `{}` is {}",
                    self.name(),
                    of.name,
                    type_of(of)
                );
                scope.d.error(&ident, text);
                return None;
            }
        }
        Some((ident, field))
    }

    /// Returns the value, and whether the caller provides it.
    fn value(
        self,
        args: &Args,
        ident: &Ident,
        field: usize,
        scope: &mut Scope<'_>,
    ) -> Option<(Option<Value>, bool)> {
        let example = if self == Self::Set {
            "value = input(tags)"
        } else {
            "value = input(tag)"
        };
        let expr = args.expr("value", example, scope.d)?;
        let source = Source::parse(expr, scope.d)?;
        let role = match self {
            Self::Push | Self::Pull => Role::Element,
            Self::Set => Role::Body {
                required: true,
                nullable: false,
            },
        };
        if self == Self::Set && !matches!(source, Source::Param(_) | Source::Input(_)) {
            let at: TokenStream = source.tokens();
            scope
                .d
                .error(
                    &at,
                    "the value of array_set must be `input(..)` or `param(..)`",
                )
                .help(format!("`{example}`"));
            return None;
        }
        // Only `array_push` checks the constraints: a list may contain old elements that they no
        // longer allow, and `array_pull` must be able to remove them.
        if let (Self::Push, Source::Literal(expr)) = (self, &source) {
            check_written(scope.at(field), expr, true, scope.d);
        }
        Some((scope.value(&source, field, ident, role), source.is_given()))
    }
}
