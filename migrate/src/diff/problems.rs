//! Planning errors. One refusal reports all of them.

use crate::error::{Exit, Fact, Refusal};

/// The planning errors so far.
#[derive(Default)]
pub(super) struct Problems {
    list: Vec<Problem>,
}

struct Problem {
    code: &'static str,
    message: String,
    /// The declaration: "entity `Task`" or "entity `Task`, field `size`".
    place: String,
    /// The source line.
    at: Option<String>,
}

impl Problems {
    /// Adds an error of an entity, or of one of its fields.
    pub(super) fn add(
        &mut self,
        code: &'static str,
        message: String,
        (entity, field): (&str, Option<&str>),
        at: Option<String>,
    ) {
        let place = match field {
            Some(field) => format!("entity `{entity}`, field `{field}`"),
            None => format!("entity `{entity}`"),
        };
        self.list.push(Problem {
            code,
            message,
            place,
            at,
        });
    }

    /// Returns one refusal with all errors; `None` without errors.
    pub(super) fn refusal(self) -> Option<Refusal> {
        let first = self.list.first()?;
        let code = first.code;
        let refusal = match self.list.as_slice() {
            [one] => Refusal {
                facts: vec![Fact {
                    code: "",
                    text: one.place.clone(),
                    at: one.at.clone(),
                }],
                ..Refusal::new(code, Exit::Planning, one.message.clone())
            },
            many => Refusal {
                facts: many
                    .iter()
                    .map(|problem| Fact {
                        code: problem.code,
                        text: format!("{}: {}", problem.place, problem.message),
                        at: problem.at.clone(),
                    })
                    .collect(),
                ..Refusal::new(
                    code,
                    Exit::Planning,
                    format!("{} declarations need a correction", many.len()),
                )
            },
        };
        Some(refusal.help(help(code)))
    }
}

fn help(code: &str) -> &'static str {
    match code {
        "rename_source_missing" => "write the name that the previous migration recorded",
        "rename_source_declared" => {
            "rename in two migrations, with a temporary name, or remove the old declaration"
        }
        "rename_target_exists" => {
            "remove `rename_from`, or drop the old field in an earlier migration"
        }
        "rename_claimed_twice" => "keep `rename_from` on only one of them",
        "transform_required" => {
            "write `fn(Old) -> Result<New, TransformError>` with `#[transform]` and name it: \
             `transform = path`"
        }
        "transform_signature" => "change the argument or the result of the function",
        "transform_null" => "let the function take an `Option`, or give the field a default",
        "required_needs_value" => {
            "for example `default = ..`, or `transform = path` with \
             `fn(&OldRecord) -> Result<New, TransformError>`"
        }
        "primary_change" => "keep the primary key of the entity",
        _ => "correct the declaration",
    }
}
