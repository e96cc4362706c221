//! Detects filters that never match and filters that always match.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use super::decide::{Clause, NamedVariants, Verdict, possible};
use super::filter::Op;
use super::lower;
use super::scope::{Assign, Cond, Resolved, Scope};

/// A condition that holds in every call, in addition to the filter: the filter is checked under
/// this assumption.
pub(crate) struct Assumption {
    /// The name in messages: `` `fields` ``.
    what: String,
    filter: Resolved,
}

impl Assumption {
    pub(crate) fn new(what: impl Into<String>, filter: Resolved) -> Self {
        Self {
            what: what.into(),
            filter,
        }
    }

    /// Returns the assumption that each field equals its value; `None` if there are no fields.
    pub(crate) fn equal(what: impl Into<String>, assigns: &[Assign]) -> Option<Self> {
        (!assigns.is_empty()).then(|| Self::new(what, equalities(assigns)))
    }
}

/// Returns a filter that requires each field to equal its value.
pub(crate) fn equalities(assigns: &[Assign]) -> Resolved {
    let equal = |Assign { key, field, value }: &Assign| {
        Resolved::Cond(Cond {
            ident: key.clone(),
            field: *field,
            op: Op::Eq,
            values: vec![value.clone()],
            list: false,
        })
    };
    Resolved::All(assigns.iter().map(equal).collect())
}

/// The assumed minimum number of variants of an enum, so that one variant never covers all values.
pub(crate) const MIN_VARIANTS: usize = 2;

/// Reports conditions that no record satisfies, in the whole filter or in a branch of it. The error
/// points at the first condition that contradicts the others.
///
/// `what` is the name in messages: `the filter`.
pub(crate) fn check(
    scope: &mut Scope<'_>,
    what: &str,
    filter: &Resolved,
    assumptions: &[Assumption],
) {
    // If the assumptions already exclude each other, no error is reported at the filter.
    let Some(last) = reported_condition(filter).filter(|_| can_hold(scope, assumptions)) else {
        return;
    };
    let verdict = possible(
        scope,
        &clauses(assumptions, std::slice::from_ref(filter)),
        MIN_VARIANTS,
    );
    match (verdict, filter) {
        (Verdict::Impossible, _) => report(scope, what, filter, assumptions),
        (Verdict::Unless(lists), _) => {
            let at = last.ident.to_token_stream();
            add_variant_assertions(
                scope,
                lists,
                &at,
                &format!("linchpin: {what} can never match: its conditions exclude each other"),
            );
        }
        // A filter that can match may have branches that cannot.
        (Verdict::Possible, Resolved::Any(list)) => {
            for one in list {
                check(scope, what, one, assumptions);
            }
        }
        (Verdict::Possible, Resolved::All(list)) => {
            list.iter()
                .filter(|one| matches!(one, Resolved::Any(_)))
                .for_each(|one| check(scope, what, one, assumptions));
        }
        (Verdict::Possible, Resolved::Cond(_)) => {}
    }
}

/// Reports values of a field that the other conditions exclude. Values that only the rules of the
/// field exclude are allowed: a record that is older than a rule may contain them.
pub(crate) fn check_stored(
    scope: &mut Scope<'_>,
    what: &str,
    values: &Resolved,
    assumptions: &[Assumption],
) {
    if matches!(
        possible(
            scope,
            &clauses(&[], std::slice::from_ref(values)),
            MIN_VARIANTS
        ),
        Verdict::Possible
    ) {
        check(scope, what, values, assumptions);
    }
}

fn clauses<'r>(assumptions: &'r [Assumption], members: &'r [Resolved]) -> Vec<Clause<'r>> {
    let clause = |filter| Clause {
        filter,
        holds: true,
    };
    assumptions
        .iter()
        .map(|assumption| clause(&assumption.filter))
        .chain(members.iter().map(clause))
        .collect()
}

fn report(scope: &mut Scope<'_>, what: &str, filter: &Resolved, assumptions: &[Assumption]) {
    let members = match filter {
        Resolved::All(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let excluded = |assumptions: &[Assumption], members: &[Resolved]| {
        matches!(
            possible(scope, &clauses(assumptions, members), MIN_VARIANTS),
            Verdict::Impossible
        )
    };
    // The number of members up to the first one that contradicts the others.
    let shortest = (1..=members.len())
        .find(|n| excluded(assumptions, &members[..*n]))
        .unwrap_or(members.len());
    let (last, earlier) = members[..shortest].split_last().unwrap_or((filter, &[]));
    let Some(at) = reported_condition(last) else {
        return;
    };
    let name = &scope.at(at.field).name;
    let excluding = assumptions
        .iter()
        .find(|_| !excluded(&[], &members[..shortest]))
        .map(|first| {
            let sufficient = assumptions
                .iter()
                .find(|one| excluded(std::slice::from_ref(one), &members[..shortest]));
            &sufficient.unwrap_or(first).what
        });
    let same_field = earlier
        .iter()
        .any(|one| conditions(one).iter().any(|cond| cond.field == at.field));
    let why = match (excluding, last) {
        (Some(excluding), _) => format!("{excluding} excludes it"),
        (None, Resolved::Cond(_)) if excluded(&[], std::slice::from_ref(last)) => {
            format!("`{name}` has no such value")
        }
        (None, Resolved::Cond(_)) if same_field => {
            format!("conditions on `{name}` exclude each other")
        }
        _ => "its conditions exclude each other".to_owned(),
    };
    scope
        .d
        .error(&at.ident, format!("{what} can never match: {why}"));
}

/// Returns the condition that an error points at.
fn reported_condition(filter: &Resolved) -> Option<&Cond> {
    conditions(filter).pop()
}

/// Whether the assumptions can hold together, without the filter.
fn can_hold(scope: &Scope<'_>, assumptions: &[Assumption]) -> bool {
    assumptions.is_empty()
        || matches!(
            possible(scope, &clauses(assumptions, &[]), MIN_VARIANTS),
            Verdict::Possible
        )
}

/// Returns all conditions of a filter.
pub(crate) fn conditions(filter: &Resolved) -> Vec<&Cond> {
    match filter {
        Resolved::All(list) | Resolved::Any(list) => list.iter().flat_map(conditions).collect(),
        Resolved::Cond(cond) => vec![cond],
    }
}

/// Whether the filter matches every record that satisfies the other conditions.
pub(crate) fn is_always(scope: &Scope<'_>, filter: &Resolved, assumptions: &[Assumption]) -> bool {
    matches!(
        always(scope, filter, assumptions, MIN_VARIANTS),
        Verdict::Impossible
    )
}

fn always(
    scope: &Scope<'_>,
    filter: &Resolved,
    assumptions: &[Assumption],
    variants: usize,
) -> Verdict {
    if !can_hold(scope, assumptions) {
        return Verdict::Possible;
    }
    let mut clauses = clauses(assumptions, &[]);
    clauses.push(Clause {
        filter,
        holds: false,
    });
    possible(scope, &clauses, variants)
}

/// Reports a filter that matches every record. If it names at least `variants` variants of an enum,
/// they may be all of its variants.
pub(crate) fn refuse_always(
    scope: &mut Scope<'_>,
    filter: &Resolved,
    assumptions: &[Assumption],
    variants: usize,
    at: &dyn ToTokens,
    text: &str,
) {
    let help = "write a condition that some records do not satisfy";
    match always(scope, filter, assumptions, variants) {
        Verdict::Possible => {}
        Verdict::Impossible => scope.d.error(at, text).help(help),
        Verdict::Unless(lists) => {
            let at = reported_condition(filter)
                .map(|cond| cond.ident.to_token_stream())
                .unwrap_or_default();
            add_variant_assertions(
                scope,
                lists,
                &at,
                &format!("linchpin: {text}\nhelp: {help}"),
            );
        }
    }
}

/// Adds const assertions that report the error if the enums have no other variants than these.
fn add_variant_assertions(
    scope: &mut Scope<'_>,
    lists: Vec<Vec<NamedVariants>>,
    at: &TokenStream,
    message: &str,
) {
    for list in lists {
        let named = list.iter().map(
            |NamedVariants {
                 field,
                 variants,
                 all,
             }| {
                let marker = lower::marker(scope, *field, at);
                let check = lower::at(quote!(__lp::named::<#marker>), at);
                quote!(#check(&[#(#variants as usize),*], #all))
            },
        );
        let named: Vec<TokenStream> = named.collect();
        let refuse = lower::at(quote!(__lp::refuse_if), at);
        scope.asserts.push(
            quote::quote_spanned!(span_of(at)=> const _: () = #refuse(&[#(#named),*], #message);),
        );
    }
}

fn span_of(at: &TokenStream) -> proc_macro2::Span {
    at.clone()
        .into_iter()
        .next()
        .map_or_else(proc_macro2::Span::call_site, |token| token.span())
}
