//! A sequence of calls as data: it can be made, run, shrunk, stored and read.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::act::{Act, End};

/// One step of a sequence.
///
/// Texts may contain `<samples:3>`, the key of a record that the side has seen below that path,
/// `<samples.lines:3>` for the key of an item, and `<cursor>` for the last cursor: generated keys
/// differ between the sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Milliseconds that pass before the step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub advance: i64,
    /// Position in [`ACTORS`](super::side::ACTORS).
    #[serde(default, skip_serializing_if = "is_nobody")]
    pub actor: usize,
    #[serde(flatten)]
    pub what: What,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // what serde asks for
fn is_zero(n: &i64) -> bool {
    *n == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // what serde asks for
fn is_nobody(n: &usize) -> bool {
    *n == 0
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A request.
    Call(Call),
    /// Pages of an entity under a filter of any depth, which no route offers.
    Filtered(Filtered),
    /// Calls from code.
    Code(Code),
}

#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Call {
    pub method: String,
    /// The route as mounted, for reports.
    pub route: String,
    /// Segments of the path, not encoded.
    pub path: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Json>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Code {
    pub acts: Vec<Act>,
    pub end: End,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filtered {
    /// Storage name of the entity.
    pub entity: String,
    /// In the JSON form of filters.
    pub filter: Json,
    /// Wire name of the field; the default sort when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<String>,
    #[serde(default)]
    pub desc: bool,
    pub limit: u32,
}
