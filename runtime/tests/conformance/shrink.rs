//! Finds the shortest sequence that still shows a difference: first fewer steps, then simpler ones.

use serde_json::Value as Json;

use super::differential::{Difference, Pair};
use super::sequence::{Step, What};

/// The maximum number of runs.
const RUNS: usize = 4000;

pub async fn shortest(
    pair: &mut Pair,
    mut steps: Vec<Step>,
    first: Difference,
) -> (Vec<Step>, Difference) {
    let mut runs = 0;
    let mut last = first;
    steps.truncate(last.at + 1);
    loop {
        let before = steps.clone();
        // Removes groups of steps first.
        let mut size = (steps.len() / 2).max(1);
        loop {
            let mut from = 0;
            while from < steps.len() && runs < RUNS {
                let mut fewer = steps.clone();
                // The time of a removed step still passes.
                let passed: i64 = fewer
                    .drain(from..(from + size).min(steps.len()))
                    .map(|step| step.advance)
                    .sum();
                if let Some(next_step) = fewer.get_mut(from) {
                    next_step.advance += passed;
                }
                runs += 1;
                match pair.run(&fewer).await {
                    Err(difference) => {
                        fewer.truncate(difference.at + 1);
                        (steps, last) = (fewer, difference);
                    }
                    Ok(()) => from += size,
                }
            }
            if size == 1 {
                break;
            }
            size /= 2;
        }
        for at in 0..steps.len() {
            let mut tried = 0;
            while runs < RUNS && at < steps.len() {
                let Some(plain) = simpler_steps(&steps[at]).into_iter().nth(tried) else {
                    break;
                };
                let mut other = steps.clone();
                other[at] = plain;
                runs += 1;
                match pair.run(&other).await {
                    Err(difference) => {
                        other.truncate(difference.at + 1);
                        (steps, last, tried) = (other, difference, 0);
                    }
                    Ok(()) => tried += 1,
                }
            }
        }
        if steps == before || runs >= RUNS {
            return (steps, last);
        }
    }
}

/// Every step that results from removing one part of this step.
fn simpler_steps(step: &Step) -> Vec<Step> {
    let mut out = Vec::new();
    if step.advance != 0 {
        out.push(Step {
            advance: 0,
            ..step.clone()
        });
    }
    match &step.what {
        What::Call(call) => {
            let mut with = |call| {
                out.push(Step {
                    what: What::Call(call),
                    ..step.clone()
                });
            };
            for i in 0..call.query.len() {
                let mut less = call.clone();
                less.query.remove(i);
                with(less);
            }
            for i in 0..call.headers.len() {
                let mut less = call.clone();
                less.headers.remove(i);
                with(less);
            }
            for body in call.body.iter().flat_map(without_one_part) {
                with(super::sequence::Call {
                    body: Some(body),
                    ..call.clone()
                });
            }
        }
        What::Code(code) => {
            for i in (0..code.acts.len()).filter(|_| code.acts.len() > 1) {
                let mut less = code.clone();
                less.acts.remove(i);
                out.push(Step {
                    what: What::Code(less),
                    ..step.clone()
                });
            }
        }
        What::Filtered(filtered) => {
            let mut with = |filtered| {
                out.push(Step {
                    what: What::Filtered(filtered),
                    ..step.clone()
                });
            };
            if filtered.sort.is_some() {
                with(super::sequence::Filtered {
                    sort: None,
                    ..filtered.clone()
                });
            }
            for filter in smaller_filters(&filtered.filter) {
                with(super::sequence::Filtered {
                    filter,
                    ..filtered.clone()
                });
            }
        }
    }
    out
}

/// JSON with one member or element less, at any depth.
fn without_one_part(json: &Json) -> Vec<Json> {
    match json {
        Json::Object(members) => {
            let without = members.keys().map(|name| {
                let mut members = members.clone();
                members.remove(name);
                Json::Object(members)
            });
            let within = members.iter().flat_map(|(name, member)| {
                without_one_part(member).into_iter().map(move |member| {
                    let mut members = members.clone();
                    members.insert(name.clone(), member);
                    Json::Object(members)
                })
            });
            without.chain(within).collect()
        }
        Json::Array(list) => {
            let without = (0..list.len()).map(|i| {
                let mut list = list.clone();
                list.remove(i);
                Json::Array(list)
            });
            let within = list.iter().enumerate().flat_map(|(i, item)| {
                without_one_part(item).into_iter().map(move |item| {
                    let mut list = list.clone();
                    list[i] = item;
                    Json::Array(list)
                })
            });
            without.chain(within).collect()
        }
        _ => Vec::new(),
    }
}

/// The parts of a filter, and the filter without one of them; each is a valid filter.
fn smaller_filters(filter: &Json) -> Vec<Json> {
    let Some((name, parts)) = ["$and", "$or"]
        .iter()
        .find_map(|name| Some((*name, filter.get(name)?.as_array()?)))
    else {
        return Vec::new();
    };
    let mut out: Vec<Json> = parts.clone();
    if parts.len() > 1 {
        out.extend((0..parts.len()).map(|i| {
            let mut parts = parts.clone();
            parts.remove(i);
            serde_json::json!({ name: parts })
        }));
    }
    for (i, part) in parts.iter().enumerate() {
        out.extend(smaller_filters(part).into_iter().map(|part| {
            let mut parts = parts.clone();
            parts[i] = part;
            serde_json::json!({ name: parts })
        }));
    }
    out
}
