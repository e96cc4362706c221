//! `output_once(secret: String)`: members that the response of a call contains, but no later
//! response.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, Token, Type};

use super::Policy;
use crate::diagnostics::Diagnostics;
use crate::entity::{EntityModel, Flag, ROUTES};
use crate::names;
use crate::options::{self, Opt};

const EXAMPLE: &str = "output_once(secret: String)";

/// The declared members.
#[derive(Debug, Clone)]
pub(crate) struct OutputOnce {
    key: Ident,
    members: Vec<Member>,
}

#[derive(Debug, Clone)]
struct Member {
    name: Ident,
    ty: Type,
}

impl Parse for Member {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        if !input.peek(Token![:]) {
            return Err(syn::Error::new(
                name.span(),
                format!("`{name}` needs a type\nhelp: `{EXAMPLE}`"),
            ));
        }
        input.parse::<Token![:]>()?;
        Ok(Self {
            name,
            ty: input.parse()?,
        })
    }
}

/// Reads the list.
pub(super) fn read(opt: &Opt, d: &mut Diagnostics) -> Option<OutputOnce> {
    let list = opt.list(EXAMPLE, d)?;
    if list.is_empty() {
        d.error(&opt.key, "`output_once` names no member")
            .help(format!("`{EXAMPLE}`"));
        return None;
    }
    let mut members: Vec<Member> = Vec::new();
    for member in options::each::<Member>(list, d) {
        if members.iter().any(|other| other.wire() == member.wire()) {
            d.error(
                &member.name,
                format!("member `{}` repeated in output_once", member.name),
            )
            .help("name each member once");
        } else {
            members.push(member);
        }
    }
    Some(OutputOnce {
        key: opt.key.clone(),
        members,
    })
}

impl Member {
    fn name(&self) -> String {
        names::snake(&self.name.unraw().to_string())
    }

    fn wire(&self) -> String {
        names::camel(&self.name())
    }
}

impl OutputOnce {
    /// Returns the tokens of the method call `.once(..)`, which is appended to a policy descriptor.
    pub(super) fn tokens(&self) -> TokenStream {
        let members = self.members.iter().map(|member| {
            let (ty, name, wire) = (&member.ty, member.name(), member.wire());
            quote!(__lp::once::<#ty>(#name, #wire))
        });
        quote!(.once(&[#(#members),*]))
    }

    /// Checks that no member has the name of a record's member, because later responses contain the
    /// record. The name of a `write_only` field is allowed: responses never contain it.
    fn check(&self, taken: &[&str], model: &EntityModel, d: &mut Diagnostics) {
        for member in &self.members {
            let wire = member.wire();
            if model
                .fields
                .iter()
                .any(|field| !field.has(Flag::WriteOnly) && names::camel(&field.name) == wire)
            {
                d.error(
                    &member.name,
                    format!("`{}` is already a field of {}", member.name, model.name),
                )
                .help("another name");
            } else if taken.contains(&wire.as_str()) {
                d.error(
                    &member.name,
                    format!("`{}` is already a member of the response", member.name),
                )
                .help("another name");
            }
        }
    }
}

/// Checks the option on the generated routes of an entity: only `create` may have it.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    if let Some(once) = &model.defaults.output_once {
        d.error(&once.key, "`output_once` belongs to one route, not to all")
            .help(format!("`create({EXAMPLE})`"));
    }
    for (name, policy) in ROUTES.iter().zip(&model.routes) {
        match &policy.output_once {
            Some(once) if *name == "create" => once.check(&[], model, d),
            Some(once) => {
                let help =
                    "use it on `create`, or on an operation that changes and returns one record";
                d.error(
                    &once.key,
                    format!("`output_once` is not possible on route `{name}`"),
                )
                .help(help);
            }
            None => {}
        }
    }
}

/// Checks the option on the route of an operation. `changes_one_record` is whether the operation
/// changes a record and returns one record; `taken` contains the members of its response in
/// addition to those of the record.
pub(crate) fn check_operation(
    policy: &Policy,
    changes_one_record: bool,
    taken: &[&str],
    model: &EntityModel,
    d: &mut Diagnostics,
) {
    match &policy.output_once {
        Some(once) if changes_one_record => once.check(taken, model, d),
        Some(once) => {
            d.error(
                &once.key,
                "`output_once` needs an operation that changes and returns one record",
            )
            .help("remove it, or use it on a route that changes and returns one record");
        }
        None => {}
    }
}

/// Refuses the option on a `#[route]` function.
pub(super) fn refuse(policy: &Policy, d: &mut Diagnostics) {
    if let Some(once) = &policy.output_once {
        d.error(
            &once.key,
            "`output_once` is not possible on a `#[route]` function",
        )
        .help("leave it out");
    }
}
