//! Decides whether conditions can hold together. All checks that a filter never or always matches
//! use this procedure.
//!
//! A filter is a tree of conditions. The values of each field are divided into cells: null, each
//! value that a condition names, and the ranges between those. In one cell each condition is true
//! or false, so a field has few combinations of true and false, and the tree is evaluated for them.
//! Unknown values (parameters, context values, consts) may be anything, so in doubt the answer is
//! "can hold".

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
    /// They cannot hold if, in one of these lists, the statement of each entry about its enum is
    /// true. The expansion checks it in a const.
    Unless(Vec<Vec<Named>>),
}

/// The variants of an enum that conditions name.
pub(super) struct Named {
    pub(super) field: usize,
    pub(super) variants: Vec<Expr>,
    /// If true, the entry states that the enum has no other variants. If false, it states only that
    /// the named ones differ from each other.
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
struct Line {
    conds: Vec<usize>,
    worlds: Vec<Vec<bool>>,
}

/// The maximum number of steps of a search. A typical filter needs a few dozen.
const STEPS: u32 = 50_000;
/// The maximum number of enum fields whose named variants are assumed to be all variants.
const ENUMS: usize = 4;

/// Whether clauses can hold together. If the conditions name at least `exhausted` variants of an
/// enum, the case that it has no others is tried too.
pub(super) fn possible(scope: &Scope<'_>, clauses: &[Clause<'_>], exhausted: usize) -> Verdict {
    let mut conds = Vec::new();
    let tree = Tree::All(
        clauses
            .iter()
            .map(|clause| tree(clause, &mut conds))
            .collect(),
    );
    let mut of: HashMap<usize, Vec<usize>> = HashMap::new();
    for (i, cond) in conds.iter().enumerate() {
        of.entry(cond.field).or_default().push(i);
    }
    let mut fields: Vec<(usize, Vec<usize>)> = of.into_iter().collect();
    fields.sort_unstable();
    let named: Vec<cells::Variants> = fields
        .iter()
        .map(|(field, own)| cells::variants(scope.at(*field), own.iter().map(|i| conds[*i])))
        .collect();
    let can_hold = |closed: &[bool]| {
        let lines: Option<Vec<Line>> = fields
            .iter()
            .zip(closed)
            .map(|((field, own), closed)| {
                let own_conds: Vec<&Cond> = own.iter().map(|i| conds[*i]).collect();
                let worlds = cells::worlds(scope, *field, &own_conds, *closed)?;
                Some(Line {
                    conds: own.clone(),
                    worlds,
                })
            })
            .collect();
        let (mut known, mut steps) = (vec![None; conds.len()], STEPS);
        lines.is_none_or(|lines| search(&tree, &lines, &mut known, &mut steps))
    };
    // The verdict is right only if variants that may be consts have different values.
    let needs = |closed: &[bool]| -> Vec<Named> {
        let each = fields.iter().zip(&named).zip(closed);
        each.filter(|((_, variants), closed)| **closed || variants.doubtful)
            .map(|(((field, _), variants), closed)| Named {
                field: *field,
                variants: variants.exprs.clone(),
                all: *closed,
            })
            .collect()
    };
    let open = vec![false; fields.len()];
    if !can_hold(&open) {
        let needs = needs(&open);
        return if needs.is_empty() {
            Verdict::Impossible
        } else {
            Verdict::Unless(vec![needs])
        };
    }
    let enums: Vec<usize> = (0..fields.len())
        .filter(|i| named[*i].exprs.len() >= exhausted.max(1))
        .take(ENUMS)
        .collect();
    let mut sets: Vec<u32> = (1..1 << enums.len()).collect();
    sets.sort_by_key(|set| set.count_ones());
    let mut found: Vec<u32> = Vec::new();
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
        if !found.iter().any(|smaller| set & smaller == *smaller) && !can_hold(&closed) {
            found.push(set);
            unless.push(needs(&closed));
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
fn search(tree: &Tree, lines: &[Line], known: &mut [Option<bool>], steps: &mut u32) -> bool {
    if let Some(value) = value(tree, known) {
        return value;
    }
    let Some((line, rest)) = lines.split_first() else {
        return true;
    };
    if *steps == 0 {
        return true;
    }
    *steps -= 1;
    let mut found = false;
    for world in &line.worlds {
        for (cond, truth) in line.conds.iter().zip(world) {
            known[*cond] = Some(*truth);
        }
        found = search(tree, rest, known, steps);
        if found {
            break;
        }
    }
    for cond in &line.conds {
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
