//! `field_update`: writes some fields of one record from the body.

use linchpin_vocabulary::kind;
use proc_macro2::TokenStream;
use quote::quote;

use super::record::{self, Matches};
use super::{Input, Kind, KindModel, Plan, Returns, Shape};
use crate::expr::{self, Assign, Scope};
use crate::operation::path::Method;

pub(super) const KIND: Kind = Kind::new(
    &kind::FIELD_UPDATE,
    &["match", "set", "partial", "nullable"],
    &["set"],
    model,
);

struct FieldUpdate {
    matches: Matches,
    set: Vec<Assign>,
    nullable: bool,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = input.args;
    let matches = Matches::resolve(args, scope);
    let (partial, nullable) = (
        args.flag("partial", scope.d),
        args.flag("nullable", scope.d),
    );
    let set = record::from_body(args, "set", scope, |_| record::BodyForm {
        required: !partial,
        nullable,
    });
    Box::new(FieldUpdate {
        matches,
        set,
        nullable,
    })
}

impl KindModel for FieldUpdate {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        self.matches.check(input, scope);
        record::check_set(&self.set, None, scope);
        for assign in self.set.iter().filter(|_| self.nullable) {
            let of = scope.at(assign.field);
            if !of.optional {
                let text = format!("`{}` is required, `nullable` impossible", of.name);
                scope.d.error(&assign.key, text).help(format!(
                    "`{}: Option<..>`, or leave `nullable` out",
                    of.name
                ));
            }
        }
    }

    fn plan(&self, _: &Scope<'_>) -> Option<Plan> {
        let errors = "`not_found`; `validation_failed`; `conflict` if a unique value is taken.";
        self.matches
            .is_complete()
            .then(|| Plan::new(Shape::ById, Method::Patch, Returns::Record, errors))
    }

    fn expand(&self) -> TokenStream {
        let (matches, set) = (self.matches.tokens(), expr::assigns(&self.set));
        quote!(__lp::FieldUpdate::new(#set, #matches))
    }
}
