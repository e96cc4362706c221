//! The body of a message. It is created once for each event.

use linchpin::EntityEvent;
use serde_json::{Value as Json, json};

/// The maximum size of a body, in bytes.
pub(crate) const MAX_BODY: usize = 256 * 1024;

/// A body, and whether it was too large and contains a reference to the record instead of the data.
pub(crate) struct Body {
    pub(crate) text: String,
    pub(crate) truncated: bool,
}

/// The id of the message of an event.
pub(crate) fn id_of(event: &EntityEvent) -> String {
    format!("msg_{}", event.id.to_string().replace('-', ""))
}

/// The body of an event: `type`, `timestamp` and `data`, without spaces.
pub(crate) fn body(event: &EntityEvent) -> Body {
    let head = head(&event.name, &event.at.to_string());
    if event.payload_ref.is_none() {
        let data = event.payload.text();
        if head.len() + data.len() < MAX_BODY {
            let text = format!("{head}{data}}}");
            return Body {
                text,
                truncated: false,
            };
        }
    }
    let record = json!({ "entity": event.entity, "id": event.record_id });
    Body {
        text: format!("{head}null,\"dataRef\":{record}}}"),
        truncated: true,
    }
}

/// The body of a message that is not about a record.
pub(crate) fn plain(name: &str, at: &str, data: &Json) -> String {
    format!("{}{data}}}", head(name, at))
}

fn head(name: &str, at: &str) -> String {
    format!(
        "{{\"type\":{},\"timestamp\":{},\"data\":",
        Json::from(name),
        Json::from(at)
    )
}
