//! `restore`: restores a deleted record. Also the rules for all operations that read deleted
//! records.

use linchpin_vocabulary::kind;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::Ident;

use super::record::Matches;
use super::{Input, Kind, KindModel, Plan, Returns, Shape};
use crate::expr::Scope;
use crate::operation::args::Args;
use crate::operation::path::Method;

pub(super) const KIND: Kind = Kind::new(&kind::RESTORE, &[], &[], model);

struct Restore {
    matches: Matches,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    Box::new(Restore {
        matches: Matches::resolve(input.args, scope),
    })
}

impl KindModel for Restore {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        let (args, name) = (input.args, input.name);
        let at = args.kind.as_ref().map_or_else(
            || Ident::new("kind", proc_macro2::Span::call_site()).to_token_stream(),
            ToTokens::to_token_stream,
        );
        check_deleted_access(args, &format!("restore `{name}`"), &at, scope);
        if let Some(mark) = scope
            .model
            .visibility
            .soft_delete
            .as_ref()
            .filter(|mark| mark.value.is_some())
        {
            let of = scope.at(mark.field);
            if !of.optional && !of.has_default() {
                let text = format!(
                    "restore `{name}` has no value for `{}`: it was overwritten when the record was deleted",
                    of.name
                );
                scope
                    .d
                    .error(&at, text)
                    .help(format!("a default on `{}`", of.name));
            }
        }
        self.matches.check(input, scope);
    }

    fn plan(&self, _: &Scope<'_>) -> Option<Plan> {
        let errors = "`not_found` when the record is not deleted; `conflict` when another record now has a unique value of the record.";
        self.matches
            .is_complete()
            .then(|| Plan::new(Shape::ById, Method::Post, Returns::Record, errors))
    }

    fn expand(&self) -> TokenStream {
        let matches = self.matches.tokens();
        quote!(__lp::Restore::new(#matches))
    }
}

/// Checks an operation that reads deleted records: the entity needs soft delete, and the route must
/// be restricted.
pub(super) fn check_deleted_access(
    args: &Args,
    what: &str,
    at: &TokenStream,
    scope: &mut Scope<'_>,
) {
    if scope.model.visibility.soft_delete.is_none() && !scope.model.has_unread_options {
        let text = format!(
            "{what} needs `soft_delete`: records of `{}` are removed when they are deleted",
            scope.model.ident
        );
        scope
            .d
            .error(at, text)
            .help("`soft_delete(deleted_at)` in `#[entity]`");
    }
    let policies = [&args.route.policy, &scope.model.defaults];
    let limited = policies.iter().any(|policy| policy.chooses_callers());
    if !limited && !args.route.policy.disabled && !scope.model.has_unread_routes {
        let text =
            format!("{what} needs `roles` or a `permission`, because it returns deleted records");
        scope.d.error(at, text).help("`route(roles = [\"admin\"])`");
    }
}
