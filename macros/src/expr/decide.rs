//! Decides whether conditions can hold together. All checks for filters that match every record or
//! no record use this procedure.
//!
//! A filter is a tree of conditions. The values of each field are divided into cells: null, each
//! value that a condition names, and the ranges between those. Within one cell, each condition is
//! either true or false. So a field has few combinations of true and false, and the tree is
//! evaluated for each of them. Unknown values (parameters, context values, consts) can have any
//! value, so in doubt the answer is "can hold".

use std::collections::HashMap;

use syn::Expr;

use super::cells;
use super::scope::{Cond, Resolved, Scope};

/// A filter and its required result: true if `holds`, else false.
#[derive(Clone, Copy)]
pub(super) struct Clause<'r> {
    pub(super) filter: &'r Resolved,
    pub(super) holds: bool,
}

/// Whether clauses can hold together.
pub(super) enum Verdict {
    /// They can hold, as far as is known.
    Possible,
    Impossible,
    /// They cannot hold if all entries of one of these lists are true of their enums. The expansion
    /// checks the lists in a const.
    Unless(Vec<Vec<NamedVariants>>),
}

/// The variants of an enum in conditions, with a statement about them.
pub(super) struct NamedVariants {
    pub(super) field: usize,
    pub(super) variants: Vec<Expr>,
    /// If true, the statement is that the enum has no other variants. If false, it is only that
    /// these variants differ from each other.
    pub(super) all: bool,
}

/// The conditions of a clause, by number.
enum Tree {
    All(Vec<Tree>),
    Any(Vec<Tree>),
    Not(Box<Tree>),
    Cond(usize),
}

/// The conditions on one field, and the combinations that can be true together.
struct FieldConditions {
    conds: Vec<usize>,
    combinations: Vec<Vec<bool>>,
}

/// The maximum number of steps of a search. A typical filter needs a few dozen.
const MAX_STEPS: u32 = 50_000;
/// The maximum number of enum fields whose named variants are assumed to be all variants.
const MAX_ENUMS: usize = 4;

/// Decides whether clauses can hold together. If the conditions name at least `exhausted` variants
/// of an enum, the case that the enum has no other variants is tried too.
pub(super) fn possible(scope: &Scope<'_>, clauses: &[Clause<'_>], exhausted: usize) -> Verdict {
    let mut conds = Vec::new();
    let tree = Tree::All(
        clauses
            .iter()
            .map(|clause| tree(clause, &mut conds))
            .collect(),
    );
    let mut numbers_by_field: HashMap<usize, Vec<usize>> = HashMap::new();
    for (i, cond) in conds.iter().enumerate() {
        numbers_by_field.entry(cond.field).or_default().push(i);
    }
    let mut fields: Vec<(usize, Vec<usize>)> = numbers_by_field.into_iter().collect();
    fields.sort_unstable();
    let named: Vec<cells::Variants> = fields
        .iter()
        .map(|(field, own)| cells::variants(scope.at(*field), own.iter().map(|i| conds[*i])))
        .collect();
    let can_hold = |closed: &[bool]| {
        let by_field: Option<Vec<FieldConditions>> = fields
            .iter()
            .zip(closed)
            .map(|((field, own), closed)| {
                let own_conds: Vec<&Cond> = own.iter().map(|i| conds[*i]).collect();
                let combinations = cells::combinations(scope, *field, &own_conds, *closed)?;
                Some(FieldConditions {
                    conds: own.clone(),
                    combinations,
                })
            })
            .collect();
        let (mut known, mut steps) = (vec![None; conds.len()], MAX_STEPS);
        by_field.is_none_or(|by_field| search(&tree, &by_field, &mut known, &mut steps))
    };
    // The verdict is right only if variants that may be consts have different values.
    let required_claims = |closed: &[bool]| -> Vec<NamedVariants> {
        let each = fields.iter().zip(&named).zip(closed);
        each.filter(|((_, variants), closed)| **closed || variants.doubtful)
            .map(|(((field, _), variants), closed)| NamedVariants {
                field: *field,
                variants: variants.exprs.clone(),
                all: *closed,
            })
            .collect()
    };
    let open = vec![false; fields.len()];
    if !can_hold(&open) {
        let required_claims = required_claims(&open);
        return if required_claims.is_empty() {
            Verdict::Impossible
        } else {
            Verdict::Unless(vec![required_claims])
        };
    }
    let enums: Vec<usize> = (0..fields.len())
        .filter(|i| named[*i].exprs.len() >= exhausted.max(1))
        .take(MAX_ENUMS)
        .collect();
    // Each bit of a set stands for one of `enums` that is assumed to have no other variants.
    let mut sets: Vec<u32> = (1..1 << enums.len()).collect();
    sets.sort_by_key(|set| set.count_ones());
    let mut minimal_sets: Vec<u32> = Vec::new();
    let mut unless = Vec::new();
    for set in sets {
        let closed: Vec<bool> = (0..fields.len())
            .map(|i| {
                enums
                    .iter()
                    .position(|e| *e == i)
                    .is_some_and(|bit| set & (1 << bit) != 0)
            })
            .collect();
        if !minimal_sets.iter().any(|smaller| set & smaller == *smaller) && !can_hold(&closed) {
            minimal_sets.push(set);
            unless.push(required_claims(&closed));
        }
    }
    if unless.is_empty() {
        Verdict::Possible
    } else {
        Verdict::Unless(unless)
    }
}

fn tree<'r>(clause: &Clause<'r>, conds: &mut Vec<&'r Cond>) -> Tree {
    let tree = numbered(clause.filter, conds);
    if clause.holds {
        tree
    } else {
        Tree::Not(Box::new(tree))
    }
}

fn numbered<'r>(filter: &'r Resolved, conds: &mut Vec<&'r Cond>) -> Tree {
    match filter {
        Resolved::All(list) => Tree::All(list.iter().map(|one| numbered(one, conds)).collect()),
        Resolved::Any(list) => Tree::Any(list.iter().map(|one| numbered(one, conds)).collect()),
        Resolved::Cond(cond) => {
            conds.push(cond);
            Tree::Cond(conds.len() - 1)
        }
    }
}

/// Whether a choice of combinations makes the tree true. A search that takes too long returns true.
fn search(
    tree: &Tree,
    by_field: &[FieldConditions],
    known: &mut [Option<bool>],
    steps: &mut u32,
) -> bool {
    if let Some(value) = value(tree, known) {
        return value;
    }
    let Some((first, rest)) = by_field.split_first() else {
        return true;
    };
    if *steps == 0 {
        return true;
    }
    *steps -= 1;
    let mut found = false;
    for combination in &first.combinations {
        for (cond, truth) in first.conds.iter().zip(combination) {
            known[*cond] = Some(*truth);
        }
        found = search(tree, rest, known, steps);
        if found {
            break;
        }
    }
    for cond in &first.conds {
        known[*cond] = None;
    }
    found
}

/// Returns the value of the tree, if the known conditions decide it.
fn value(tree: &Tree, known: &[Option<bool>]) -> Option<bool> {
    let joined = |list: &[Tree], decides: bool| {
        let mut open = false;
        for one in list {
            match value(one, known) {
                Some(value) if value == decides => return Some(decides),
                Some(_) => {}
                None => open = true,
            }
        }
        (!open).then_some(!decides)
    };
    match tree {
        Tree::All(list) => joined(list, false),
        Tree::Any(list) => joined(list, true),
        Tree::Not(inner) => value(inner, known).map(|value| !value),
        Tree::Cond(cond) => known[*cond],
    }
}
