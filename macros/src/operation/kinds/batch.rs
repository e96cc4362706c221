//! `batch`: changes or removes every record that matches. With `returns = "records"` it changes the
//! first matching records, up to a limit, and returns them. Only code can call such a batch.

use linchpin_vocabulary::kind;
use proc_macro2::{Literal, TokenStream};
use quote::quote;
use syn::Path;

use super::lookup::{self, Sort};
use super::record::{self, Optional};
use super::{Input, Kind, KindModel, Plan, Returns, Shape};
use crate::expr::{self, Assign, Resolved, Role, Scope};
use crate::operation::path::Method;
use crate::options::{OptValue, as_text};

pub(super) const KIND: Kind = Kind::new(
    &kind::BATCH,
    &[
        "action",
        "filter",
        "set",
        "atomic",
        "returns",
        "limit",
        "sort",
        "optional_params",
    ],
    &["action", "filter"],
    model,
);

struct Batch {
    /// Whether it removes the matching records instead of changing them.
    delete: bool,
    filter: Option<Resolved>,
    set: Vec<Assign>,
    optional: Optional,
    atomic: bool,
    /// `count`, `void` or `records`.
    returns: &'static str,
    /// The limit of a batch that returns its records.
    limit: Option<u32>,
    sort: Option<Sort>,
    entity: Path,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = input.args;
    let optional = record::optional(args, scope);
    if args
        .get("returns")
        .is_some_and(|opt| matches!(&opt.value, OptValue::Expr(value) if as_text(value).is_some_and(|text| text.value() == "records")))
    {
        // A batch that returns records has no route.
        scope.for_callers = false;
    }
    let filter = record::filter(args, &optional.names, scope);
    let delete = args.choice("action", &["update", "delete"], scope.d) == "delete";
    let pairs = args.pairs("set", scope.d);
    Box::new(Batch {
        delete,
        filter,
        set: scope.assigns(&pairs, |_| Role::Write),
        optional,
        returns: args.choice("returns", &["count", "void", "records"], scope.d),
        limit: lookup::limit(args, scope),
        sort: lookup::sort(args, scope, false),
        atomic: args.flag("atomic", scope.d),
        entity: scope.entity.clone(),
    })
}

impl KindModel for Batch {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        let (args, name) = (input.args, input.name);
        record::refuse_every_record(
            input,
            &format!("batch `{name}`"),
            self.filter.as_ref(),
            scope,
        );
        record::check_set(&self.set, None, scope);
        self.optional.check(scope);
        if let (Some(filter), Some(opt), true) = (
            &self.filter,
            args.get("filter"),
            args.get("optional_params").is_some(),
        ) {
            self.optional
                .check_remaining_condition(name, filter, &opt.key, scope);
        }
        match (self.delete, args.get("set"), args.get("action")) {
            (true, Some(opt), _) => {
                scope
                    .d
                    .error(&opt.key, "`set` has no meaning with `action = \"delete\"`")
                    .help("leave it out");
            }
            (false, None, Some(action)) => {
                scope
                    .d
                    .error(&action.key, format!("batch `{name}` updates nothing"))
                    .help("`set(status = Status::Archived)`");
            }
            _ => {}
        }
        self.check_claim(input, scope);
    }

    fn plan(&self, _: &Scope<'_>) -> Option<Plan> {
        self.filter.as_ref()?;
        let (shape, returns) = match self.returns {
            "records" => (Shape::Adapter, Returns::Records(self.entity.clone())),
            "void" => (Shape::COLLECTION, Returns::Nothing),
            _ => (Shape::COLLECTION, Returns::Count),
        };
        let errors = "`validation_failed`; `conflict` if a unique value is taken, and then no record has changed.";
        Some(Plan::new(shape, Method::Post, returns, errors))
    }

    fn expand(&self) -> TokenStream {
        let (filter, set) = (&self.filter, expr::assigns(&self.set));
        let make = if self.delete {
            quote!(delete(#filter))
        } else {
            quote!(update(#filter, #set))
        };
        let nothing = (self.returns == "void").then(|| quote!(.void()));
        let atomic = self.atomic.then(|| quote!(.atomic()));
        let claim = self
            .limit
            .filter(|_| self.returns == "records")
            .map(|limit| {
                let (limit, sort) = (
                    Literal::u32_unsuffixed(limit),
                    self.sort.as_ref().map(|sort| quote!(.sort(#sort))),
                );
                quote!(.claim(#limit) #sort)
            });
        quote!(__lp::Batch::#make #nothing #atomic #claim)
    }
}

impl Batch {
    /// `limit` and `sort` need a batch that returns its records, which only code can call.
    fn check_claim(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        let (args, name) = (input.args, input.name);
        if self.returns != "records" {
            for option in ["limit", "sort"] {
                if let Some(opt) = args.get(option) {
                    scope.d.error(
                        &opt.key,
                        format!("`{option}` needs `returns = \"records\"`"),
                    );
                }
            }
            return;
        }
        if let (true, Some(returns)) = (self.delete, args.get("returns")) {
            scope
                .d
                .error(
                    &returns.key,
                    "`returns = \"records\"` needs `action = \"update\"`",
                )
                .help("to delete a record and return it, use `kind = \"consume\"`");
        }
        if let (None, Some(returns)) = (args.get("limit"), args.get("returns")) {
            scope
                .d
                .error(
                    &returns.key,
                    format!("batch `{name}` returns its records and needs `limit`"),
                )
                .help("`limit = 100`");
        }
        args.refuse_route(
            &format!("batch `{name}` returns its records, so it cannot have a route"),
            scope.d,
        );
    }
}
