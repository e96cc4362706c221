//! Reads payloads from clients, with the same reader and rules as for request bodies.

use linchpin::entity::EntityDesc;
use linchpin::validate::{Validator, read_whole};
use linchpin::{Error, Problem, Result, Timestamp, Value};
use linchpin_core::operation::Whole;

use super::{Payload, VariantDesc};

/// Reads and validates the payload of a variant. Its patterns are compiled once, at start-up.
#[derive(Debug)]
pub struct PayloadReader {
    /// The members; `None` if the variant has no payload.
    members: Option<(&'static EntityDesc, Validator)>,
}

impl PayloadReader {
    /// Compiles the rules of a variant's payload.
    ///
    /// # Errors
    /// If a pattern does not compile or a format is unknown. The macros already report both.
    pub fn new(variant: &VariantDesc) -> Result<Self> {
        let members = match variant.payload {
            Payload::Members(desc) => Some((desc, Validator::new(desc)?)),
            Payload::None | Payload::Record | Payload::Projection(..) => None,
        };
        Ok(Self { members })
    }

    /// Reads a payload of JSON text; `payload` is `None` if the frame has none. `now` is the time
    /// of the call: members with the default `now` get this value.
    ///
    /// Returns JSON with only the declared members, after their defaults are applied. Returns
    /// `null` if the variant has no payload.
    ///
    /// # Errors
    /// `validation_failed`, with the path of each wrong member.
    pub fn read(&self, payload: Option<&[u8]>, now: Timestamp) -> Result<String> {
        let Some((desc, rules)) = &self.members else {
            return match payload {
                None | Some(b"null" | b"{}") => Ok("null".to_owned()),
                Some(_) => Err(Error::invalid(Problem::new(
                    "",
                    "unknown_field",
                    "this event has no payload",
                ))),
            };
        };
        let mut problems = Vec::new();
        let value = read_whole(
            &desc.fields[0],
            "",
            Whole::Item,
            payload.unwrap_or(b"{}"),
            now,
            &mut problems,
        )?;
        if let Some(Value::Json(text)) = &value {
            rules.collect_item_problems(0, text, &mut problems);
        }
        match value {
            Some(Value::Json(text)) if problems.is_empty() => Ok(text),
            _ => Err(Error::validation(problems)),
        }
    }
}
