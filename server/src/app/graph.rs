//! State diagrams of transitions in Mermaid syntax: one for each field of an entity.

use std::fmt::Write;

use crate::entity::{DefaultDesc, EntityDesc, Kind};
use crate::operation::Transition;
use crate::{EntityEntry, Package, Value};

/// All diagrams, each with a title.
pub(super) fn of(packages: &[&'static Package]) -> String {
    let graphs: Vec<String> = packages
        .iter()
        .flat_map(|p| p.entities)
        .flat_map(graphs)
        .collect();
    if graphs.is_empty() {
        "No operation is a transition.".to_owned()
    } else {
        graphs.join("\n\n")
    }
}

fn graphs(entry: &'static EntityEntry) -> Vec<String> {
    let transitions: Vec<(&str, &Transition)> = entry
        .operations
        .iter()
        .filter_map(|spec| Some((spec.name, spec.kind.transition()?)))
        .collect();
    let mut fields: Vec<usize> = transitions
        .iter()
        .map(|(_, transition)| transition.field)
        .collect();
    fields.sort_unstable();
    fields.dedup();
    fields
        .into_iter()
        .map(|field| graph(entry.desc, field, &transitions))
        .collect()
}

fn graph(desc: &EntityDesc, field: usize, transitions: &[(&str, &Transition)]) -> String {
    let field_desc = &desc.fields[field];
    // An enum shows all its states, even unreachable ones.
    let mut states: Vec<String> = match field_desc.kind {
        Kind::Enum(known) => known.variants.iter().map(|&name| name.to_owned()).collect(),
        _ => Vec::new(),
    };
    let mut arrows = Vec::new();
    if let DefaultDesc::Literal(first) = field_desc.default {
        arrows.push((None, text(&first()), None));
    }
    for (name, transition) in transitions
        .iter()
        .filter(|(_, transition)| transition.field == field)
    {
        for to in transition.to.iter().map(|to| text(&to())) {
            arrows.extend(
                transition
                    .from
                    .iter()
                    .map(|from| (Some(text(&from())), to.clone(), Some(*name))),
            );
        }
    }
    for state in arrows
        .iter()
        .flat_map(|(from, to, _)| from.iter().chain([to]))
    {
        if !states.contains(state) {
            states.push(state.clone());
        }
    }
    // A value may be an invalid name in Mermaid, or a keyword; then the state gets a generated
    // name.
    let id = |state: &String| {
        let nth = || {
            states
                .iter()
                .position(|known| known == state)
                .unwrap_or_default()
        };
        if is_name(state) {
            state.clone()
        } else {
            format!("state{}", nth())
        }
    };
    let mut out = format!(
        "---\ntitle: {}.{}\n---\nstateDiagram-v2\n",
        desc.name, field_desc.wire
    );
    for state in &states {
        // Writing to a String cannot fail.
        let _ = if is_name(state) {
            writeln!(out, "    {state}")
        } else {
            writeln!(out, "    state \"{}\" as {}", escaped(state), id(state))
        };
    }
    for (from, to, by) in &arrows {
        let from = from.as_ref().map_or_else(|| "[*]".to_owned(), id);
        let by = by.map_or_else(String::new, |name| format!(" : {name}"));
        let _ = writeln!(out, "    {from} --> {}{by}", id(to));
    }
    out.truncate(out.trim_end().len());
    out
}

/// Whether a value is a valid state name in Mermaid.
fn is_name(state: &str) -> bool {
    const KEYWORDS: [&str; 12] = [
        "as",
        "class",
        "classdef",
        "default",
        "direction",
        "end",
        "hide",
        "note",
        "scale",
        "state",
        "style",
        "title",
    ];
    let mut chars = state.chars();
    chars.next().is_some_and(|c| c.is_ascii_lowercase())
        && chars.all(|c| c.is_ascii_lowercase() || c == '_')
        && !KEYWORDS.contains(&state)
}

/// The label of a state.
fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => {
            let mut json = Vec::new();
            crate::json::write_value(other.as_ref(), &mut json);
            String::from_utf8_lossy(&json).into_owned()
        }
    }
}

/// A label within quotes: quotes and markup are written as Mermaid entities, control characters as
/// spaces.
fn escaped(state: &str) -> String {
    let mut out = String::with_capacity(state.len());
    for c in state.chars() {
        match c {
            '"' | '#' | ';' | '<' | '>' | '&' => {
                let _ = write!(out, "#{};", u32::from(c));
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
