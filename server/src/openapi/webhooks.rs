//! The requests that the app sends itself: the `webhooks` of the document.

use serde_json::{Map, Value as Json, json};

/// A request that the app sends to addresses of its customers, for the `webhooks` of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The name of the event, unique within the document.
    pub name: String,
    /// The documentation of the event.
    pub description: String,
    /// Whether the event is deprecated: new receivers should not rely on it.
    pub deprecated: bool,
    /// The JSON Schema (2020-12) of the body.
    pub schema: Json,
    /// An example of the body.
    pub example: Json,
}

impl Webhook {
    fn item(&self) -> Json {
        let content = json!({ "schema": self.schema, "example": self.example });
        let mut post = json!({
            "summary": self.name,
            "requestBody": { "required": true, "content": { "application/json": content } },
            "responses": { "2XX": { "description": "The receiver has the event." } },
        });
        if !self.description.is_empty() {
            post["description"] = json!(self.description);
        }
        if self.deprecated {
            post["deprecated"] = json!(true);
        }
        json!({ "post": post })
    }
}

/// The member `webhooks`; `None` if there are none.
pub(super) fn all(webhooks: &[Webhook]) -> Option<Json> {
    let items: Map<String, Json> = webhooks
        .iter()
        .map(|webhook| (webhook.name.clone(), webhook.item()))
        .collect();
    (!items.is_empty()).then_some(Json::Object(items))
}
