//! Detects filters that never match and filters that always match.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use super::decide::{Clause, Named, Verdict, possible};
use super::filter::Op;
use super::lower;
use super::scope::{Assign, Cond, Resolved, Scope};

/// A condition that holds in addition to a filter.
pub(crate) struct Beside {
    /// The name in messages: `` `fields` ``.
    what: String,
    filter: Resolved,
}

impl Beside {
    /// A condition.
    pub(crate) fn new(what: impl Into<String>, filter: Resolved) -> Self {
        Self {
            what: what.into(),
            filter,
        }
    }

    /// Fields that equal values.
    pub(crate) fn equal(what: impl Into<String>, assigns: &[Assign]) -> Option<Self> {
        (!assigns.is_empty()).then(|| Self::new(what, equalities(assigns)))
    }
}

/// Fields that equal values, as a filter.
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

/// The assumed minimum number of variants of an enum: a condition on one of them does not cover
/// all.
pub(crate) const TWO: usize = 2;

/// Reports conditions that no record satisfies, in the whole filter or in a branch of it. The error
/// points at the first condition that contradicts the others.
///
/// `what` is the name in messages: `the filter`.
pub(crate) fn check(scope: &mut Scope<'_>, what: &str, filter: &Resolved, beside: &[Beside]) {
    // Errors in the other conditions are reported at their own position.
    let Some(last) = culprit(filter).filter(|_| fits(scope, beside)) else {
        return;
    };
    let verdict = possible(scope, &clauses(beside, std::slice::from_ref(filter)), TWO);
    match (verdict, filter) {
        (Verdict::Impossible, _) => report(scope, what, filter, beside),
        (Verdict::Unless(lists), _) => {
            let at = last.ident.to_token_stream();
            refuse(
                scope,
                lists,
                &at,
                &format!("linchpin: {what} can never match: its conditions exclude each other"),
            );
        }
        // A filter that can match may have branches that cannot.
        (Verdict::Possible, Resolved::Any(list)) => {
            for one in list {
                check(scope, what, one, beside);
            }
        }
        (Verdict::Possible, Resolved::All(list)) => {
            list.iter()
                .filter(|one| matches!(one, Resolved::Any(_)))
                .for_each(|one| check(scope, what, one, beside));
        }
        (Verdict::Possible, Resolved::Cond(_)) => {}
    }
}

/// Reports values of a field that the other conditions exclude. Values that only the rules of the
/// field exclude are no mistake: a record from before a rule may contain them.
pub(crate) fn check_stored(
    scope: &mut Scope<'_>,
    what: &str,
    values: &Resolved,
    beside: &[Beside],
) {
    if matches!(
        possible(scope, &clauses(&[], std::slice::from_ref(values)), TWO),
        Verdict::Possible
    ) {
        check(scope, what, values, beside);
    }
}

fn clauses<'r>(beside: &'r [Beside], members: &'r [Resolved]) -> Vec<Clause<'r>> {
    let clause = |filter| Clause {
        filter,
        holds: true,
    };
    beside
        .iter()
        .map(|beside| clause(&beside.filter))
        .chain(members.iter().map(clause))
        .collect()
}

fn report(scope: &mut Scope<'_>, what: &str, filter: &Resolved, beside: &[Beside]) {
    let members = match filter {
        Resolved::All(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let excluded = |beside: &[Beside], members: &[Resolved]| {
        matches!(
            possible(scope, &clauses(beside, members), TWO),
            Verdict::Impossible
        )
    };
    let enough = (1..=members.len())
        .find(|n| excluded(beside, &members[..*n]))
        .unwrap_or(members.len());
    let (last, earlier) = members[..enough].split_last().unwrap_or((filter, &[]));
    let Some(at) = culprit(last) else { return };
    let name = &scope.at(at.field).name;
    let by = beside
        .iter()
        .find(|_| !excluded(&[], &members[..enough]))
        .map(|first| {
            let alone = beside
                .iter()
                .find(|one| excluded(std::slice::from_ref(one), &members[..enough]));
            &alone.unwrap_or(first).what
        });
    let same_field = earlier
        .iter()
        .any(|one| conditions(one).iter().any(|cond| cond.field == at.field));
    let why = match (by, last) {
        (Some(by), _) => format!("{by} excludes it"),
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
fn culprit(filter: &Resolved) -> Option<&Cond> {
    conditions(filter).pop()
}

/// Whether the other conditions can hold without the filter.
fn fits(scope: &Scope<'_>, beside: &[Beside]) -> bool {
    beside.is_empty()
        || matches!(
            possible(scope, &clauses(beside, &[]), TWO),
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
pub(crate) fn is_always(scope: &Scope<'_>, filter: &Resolved, beside: &[Beside]) -> bool {
    matches!(always(scope, filter, beside, TWO), Verdict::Impossible)
}

fn always(scope: &Scope<'_>, filter: &Resolved, beside: &[Beside], variants: usize) -> Verdict {
    if !fits(scope, beside) {
        return Verdict::Possible;
    }
    let mut clauses = clauses(beside, &[]);
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
    beside: &[Beside],
    variants: usize,
    at: &dyn ToTokens,
    text: &str,
) {
    let help = "a condition that some records do not satisfy";
    match always(scope, filter, beside, variants) {
        Verdict::Possible => {}
        Verdict::Impossible => scope.d.error(at, text).help(help),
        Verdict::Unless(lists) => {
            let at = culprit(filter)
                .map(|cond| cond.ident.to_token_stream())
                .unwrap_or_default();
            refuse(
                scope,
                lists,
                &at,
                &format!("linchpin: {text}\nhelp: {help}"),
            );
        }
    }
}

/// Adds a const assertion that reports the error if enums have no other variants than these.
fn refuse(scope: &mut Scope<'_>, lists: Vec<Vec<Named>>, at: &TokenStream, message: &str) {
    for list in lists {
        let named = list.iter().map(
            |Named {
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
