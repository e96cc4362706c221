//! A sequence of calls as data, which can be generated, run, shrunk, stored and read.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::act::{Act, End};

/// One step of a sequence.
///
/// Texts may contain placeholders, because generated keys differ between the sides: `<samples:3>`
/// is the key of a known record with the path `samples`, `<samples.lines:3>` is the key of an item,
/// and `<cursor>` is the last cursor. The number 0 stands for the newest key.
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

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde requires
fn is_zero(n: &i64) -> bool {
    *n == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde requires
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
    /// The filter in its JSON form.
    pub filter: Json,
    /// Wire name of the field; the default sort if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<String>,
    #[serde(default)]
    pub desc: bool,
    pub limit: u32,
}
