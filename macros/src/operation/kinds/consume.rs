//! `consume`: removes one matching record. Returns the record, or only a boolean that says whether
//! a record was removed. If several calls run at the same time, only one of them gets the record.

use linchpin_vocabulary::kind;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::{Input, Kind, KindModel, Plan, Returns, Shape, record};
use crate::entity::Kind as Type;
use crate::expr::{Resolved, Scope, type_of};
use crate::operation::args::Args;
use crate::operation::path::Method;

pub(super) const KIND: Kind = Kind::new(
    &kind::CONSUME,
    &["filter", "returns", "expiry"],
    &["filter", "returns"],
    model,
);

struct Consume {
    filter: Option<Resolved>,
    /// Whether a call returns a boolean instead of the record.
    boolean: bool,
    expiry: Option<Literal>,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = input.args;
    Box::new(Consume {
        filter: record::filter(args, &[], scope),
        boolean: args.choice("returns", &["entity", "boolean"], scope.d) == "boolean",
        expiry: expiry(args, scope).map(|field| scope.model.number(field)),
    })
}

impl KindModel for Consume {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        record::refuse_every_record(
            input,
            &format!("consume `{}`", input.name),
            self.filter.as_ref(),
            scope,
        );
    }

    fn plan(&self, _: &Scope<'_>) -> Option<Plan> {
        self.filter.as_ref()?;
        let returns = if self.boolean {
            Returns::Boolean
        } else {
            Returns::Optional
        };
        Some(Plan::new(
            Shape::COLLECTION,
            Method::Post,
            returns,
            "`validation_failed` when a value is missing.",
        ))
    }

    fn expand(&self) -> TokenStream {
        let filter = &self.filter;
        let expiry = self.expiry.as_ref().map(|field| quote!(.expiry(#field)));
        let flag = self.boolean.then(|| quote!(.boolean()));
        quote!(__lp::Consume::new(#filter) #expiry #flag)
    }
}

fn expiry(args: &Args, scope: &mut Scope<'_>) -> Option<usize> {
    let ident = args.ident("expiry", "expiry = expires_at", scope.d)?;
    let field = scope.field(&ident)?;
    let of = scope.at(field);
    match of.kind {
        Type::Date => {}
        Type::Other => scope.needs(field, &ident, "DATES", "expiry"),
        _ => {
            scope.d.error(
                &ident,
                format!(
                    "expiry needs a date field, `{}` is {}",
                    of.name,
                    type_of(of)
                ),
            );
            return None;
        }
    }
    Some(field)
}
