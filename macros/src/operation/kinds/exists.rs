//! `exists`: returns whether a visible record has the given values.

use linchpin_vocabulary::kind;
use proc_macro2::TokenStream;
use quote::quote;

use super::lookup::{fields, segments};
use super::{Input, Kind, KindModel, Plan, Returns, Shape};
use crate::expr::{self, Assign, Assumption, Scope};
use crate::operation::path::Method;

pub(super) const KIND: Kind = Kind::new(&kind::EXISTS, &["fields", "check"], &["fields"], model);

struct Exists {
    fields: Vec<Assign>,
    check: Vec<Assign>,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let compared = fields(input.args, "fields", scope, &|_| true);
    Box::new(Exists {
        fields: compared,
        check: fields(input.args, "check", scope, &|_| true),
    })
}

impl KindModel for Exists {
    fn check(&self, _: &Input<'_>, scope: &mut Scope<'_>) {
        let visible: Vec<Assumption> = scope.visible().into_iter().collect();
        expr::check(scope, "`fields`", &expr::equalities(&self.fields), &visible);
        let assumptions: Vec<Assumption> = Assumption::equal("`fields`", &self.fields)
            .into_iter()
            .chain(visible)
            .collect();
        expr::check(
            scope,
            "`check`",
            &expr::equalities(&self.check),
            &assumptions,
        );
    }

    fn plan(&self, scope: &Scope<'_>) -> Option<Plan> {
        let shape = Shape::Collection {
            segments: segments(&self.fields, scope, &[]),
        };
        Some(Plan::new(
            shape,
            Method::Get,
            Returns::Boolean,
            "`validation_failed` when a value is missing.",
        ))
    }

    fn expand(&self) -> TokenStream {
        let (fields, check) = (
            expr::assigns(&self.fields),
            expr::unless_empty("check", &self.check),
        );
        quote!(__lp::Exists::new(#fields) #check)
    }
}
