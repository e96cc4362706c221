//! The description of each event that endpoints can subscribe to: its JSON Schema and an example.

use linchpin::entity::{EntityDesc, FieldDesc};
use linchpin::event::ChangeEvent;
use linchpin::openapi::{Webhook, record_example, record_schema};
use linchpin::{Embedded, FieldEnum, Timestamp};
use serde_json::{Value as Json, json};

use crate::catalogue::{DEAD, DISABLED, TEST};
use crate::entity::{DeliveryReason, DisabledReason};
use crate::plugin::MOUNT;

/// The instant of examples: 2026-01-15T09:30:00Z.
const INSTANT: Timestamp = Timestamp::from_millis(1_768_469_400_000);
const ID: &str = "0199f1a5-ac96-774b-bcce-b302099a8057";
/// The version of every schema. There is only one, because older bodies cannot be converted yet.
const VERSION: i64 = 1;

/// An event of the catalogue.
#[derive(Embedded, Clone, Debug)]
pub(crate) struct EventType {
    /// The name: `shop.orders.created`.
    pub(crate) name: String,
    /// The documentation of the event.
    pub(crate) description: String,
    /// The storage name of the entity; null for events of the package itself.
    pub(crate) entity: Option<String>,
    /// The newest version of the schema.
    pub(crate) version: i64,
    /// The numbers of all versions that endpoints can get.
    pub(crate) versions: Json,
    /// The JSON Schema (2020-12) of the body of a request.
    pub(crate) schema: Json,
    /// A body.
    pub(crate) example: Json,
    /// Whether new endpoints should not subscribe to it.
    pub(crate) deprecated: bool,
}

impl EventType {
    /// An event of an entity. Its data has the readable fields of the payload, or the number of
    /// records.
    pub(crate) fn of(entity: &EntityDesc, event: &ChangeEvent) -> Self {
        let shown = |field: &FieldDesc| event.shows(field);
        let (data, example) = if event.counts {
            let count = json!({ "type": "integer", "minimum": 0 });
            (object(&[("count", count)]), json!({ "count": 2 }))
        } else {
            (record_schema(entity, shown), record_example(entity, shown))
        };
        let mut schema = body(&event.name, event.doc, data);
        if !event.counts {
            may_be_truncated(&mut schema, entity);
        }
        Self {
            entity: Some(entity.storage_name.to_owned()),
            deprecated: event.deprecated,
            ..Self::with(&event.name, event.doc, schema, example)
        }
    }

    /// The events that the plugin itself sends.
    pub(crate) fn built_in() -> [Self; 3] {
        let id = || json!({ "type": "string" });
        let test = object(&[("test", json!({ "const": true })), ("endpointId", id())]);
        let reasons = DisabledReason::DESC.variants;
        let disabled = object(&[
            ("endpointId", id()),
            ("reason", json!({ "type": "string", "enum": reasons })),
        ]);
        let reasons = DeliveryReason::DESC.variants.iter().map(|text| json!(text));
        let reasons: Vec<Json> = reasons.chain([Json::Null]).collect();
        let dead = object(&[
            ("deliveryId", id()),
            ("endpointId", id()),
            ("messageId", id()),
            ("event", id()),
            (
                "reason",
                json!({ "type": ["string", "null"], "enum": reasons }),
            ),
        ]);
        let message = format!("msg_{}", ID.replace('-', ""));
        let parts = [
            (
                TEST,
                "A test that a manager sends to an endpoint.",
                test,
                json!({ "test": true, "endpointId": ID }),
            ),
            (
                DISABLED,
                "The system disabled another endpoint.",
                disabled,
                json!({ "endpointId": ID, "reason": DisabledReason::Failing.as_str() }),
            ),
            (
                DEAD,
                "A delivery to another endpoint was given up: its status is `dead`.",
                dead,
                json!({
                    "deliveryId": ID,
                    "endpointId": ID,
                    "messageId": message,
                    "event": "shop.orders.created",
                    "reason": DeliveryReason::Exhausted.as_str(),
                }),
            ),
        ];
        parts
            .map(|(name, doc, data, example)| Self::with(name, doc, body(name, doc, data), example))
    }

    /// The entry in the `webhooks` of the OpenAPI document.
    pub(crate) fn webhook(self) -> Webhook {
        Webhook {
            name: self.name,
            description: self.description,
            deprecated: self.deprecated,
            schema: self.schema,
            example: self.example,
        }
    }

    fn with(name: &str, doc: &str, schema: Json, data: Json) -> Self {
        Self {
            name: name.to_owned(),
            description: doc.trim().to_owned(),
            entity: None,
            version: VERSION,
            versions: json!([VERSION]),
            schema,
            example: json!({ "type": name, "timestamp": INSTANT.to_string(), "data": data }),
            deprecated: false,
        }
    }
}

/// The schema of a body with this data.
fn body(name: &str, doc: &str, data: Json) -> Json {
    let mut schema = object(&[
        ("type", json!({ "const": name })),
        (
            "timestamp",
            json!({ "type": "string", "format": "date-time", "description": "The time of the event." }),
        ),
        ("data", data),
    ]);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["$id"] = json!(format!("{MOUNT}/event-types/{name}?version={VERSION}"));
    schema["title"] = json!(name);
    if !doc.trim().is_empty() {
        schema["description"] = json!(doc.trim());
    }
    schema["additionalProperties"] = json!(false);
    schema
}

/// Extends the schema: in a body that would be too large, `data` is null and `dataRef` names the
/// record.
fn may_be_truncated(schema: &mut Json, entity: &EntityDesc) {
    schema["properties"]["data"]["type"] = json!(["object", "null"]);
    let mut reference = object(&[
        ("entity", json!({ "const": entity.storage_name })),
        ("id", json!({ "type": "string" })),
    ]);
    reference["description"] =
        json!("A reference to the record, if its data would make the body too large.");
    schema["properties"]["dataRef"] = reference;
    schema["if"] = json!({ "properties": { "data": { "type": "null" } } });
    schema["then"] = json!({ "required": ["dataRef"] });
    schema["else"] = json!({ "properties": { "dataRef": false } });
}

/// The schema of an object whose members are all required.
fn object(members: &[(&str, Json)]) -> Json {
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<String, Json> = members
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({ "type": "object", "required": names, "properties": properties })
}
