//! The apps whose migrations the tests interrupt.

use linchpin_core::Value;
use linchpin_core::entity::{TransformDesc, TransformError, TransformInput};
use serde_json::json;

use crate::backfill;
use crate::support::{self, App, Link, people, snapshot};

pub(crate) use people::{first, second};

pub(crate) static TO_TEXT: TransformDesc = people::to_text(to_text);

fn to_text(input: TransformInput<'_>) -> Result<Value, TransformError> {
    backfill::count_visit();
    support::to_text(input)
}

/// The app of a scenario.
pub(crate) fn app(scenario: &str) -> App {
    let links = match scenario {
        "all" => people::links(&TO_TEXT).to_vec(),
        "rows" => {
            let of = |kind: &str| {
                snapshot(&[("users", json!({ "visits": { "type": kind } }), json!({}))])
            };
            let second = Link::converted(of("string"), ("users", "visits"), &TO_TEXT);
            vec![Link::plain(of("integer")), second]
        }
        _ => vec![Link::plain(first())],
    };
    App::of_links(links, &[&TO_TEXT])
}
