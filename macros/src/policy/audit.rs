//! `audit`: the action in the audit log for the changes of a route.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Ident, LitStr};

use super::Policy;
use crate::diagnostics::Diagnostics;
use crate::entity::{EntityModel, ROUTES};
use crate::options::Opt;

/// The action and the keyword.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    key: Ident,
    action: LitStr,
}

/// `audit = "lock"`.
pub(super) fn read(opt: &Opt, d: &mut Diagnostics) -> Option<Audit> {
    let action = opt.text("audit = \"lock\"", d)?;
    if action.value().trim().is_empty() || action.value().chars().any(char::is_control) {
        d.error(
            &action,
            "`audit` needs the name of an action, without control characters",
        )
        .help("`audit = \"lock\"`");
        return None;
    }
    Some(Audit {
        key: opt.key.clone(),
        action,
    })
}

impl Audit {
    /// Returns a call on the descriptor.
    pub(super) fn tokens(&self) -> TokenStream {
        let action = &self.action;
        quote!(.audit(#action))
    }
}

/// Refuses the option on an entity's routes that change no records. They inherit `defaults` without
/// an error.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    for (name, policy) in ROUTES
        .iter()
        .zip(&model.routes)
        .filter(|(name, _)| matches!(**name, "get" | "list"))
    {
        refuse(policy, &format!("route `{name}`"), d);
    }
}

/// Refuses the option on routes that change no records.
pub(crate) fn refuse(policy: &Policy, what: &str, d: &mut Diagnostics) {
    if let Some(audit) = &policy.audit {
        d.error(
            &audit.key,
            format!("{what} changes no records, and `audit` records changes"),
        )
        .help("leave `audit` out");
    }
}
