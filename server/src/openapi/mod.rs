//! The OpenAPI 3.1 document of an application, and the page that shows it.
//!
//! The document is built from the same list of [`Endpoint`]s that is mounted, so no route can be
//! missing. The output is reproducible: keys are sorted, and it contains no time and no host.

mod docs;
mod errors;
mod extra;
mod names;
mod narrowed;
mod operation;
mod parameters;
mod payload;
mod plugin_routes;
mod related;
mod repeat;
pub(crate) mod requirements;
mod schema;
mod security;
mod webhooks;

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

pub use docs::{PATHS, docs_router, openapi_router};
pub use payload::{record_example, record_schema};
pub use security::{Scheme, Security};
pub use webhooks::Webhook;

use crate::http::Endpoint;
use crate::operation::Method;
use names::Names;

/// The general information in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The title of the API.
    pub title: String,
    /// The version of the API, not of OpenAPI.
    pub version: String,
    /// The description of the API, in Markdown.
    pub description: Option<String>,
    /// The requests that the app sends itself.
    pub webhooks: Vec<Webhook>,
}

impl Info {
    /// Creates the information with a title and a version, without a description and webhooks.
    pub fn new(title: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            version: version.into(),
            description: None,
            webhooks: Vec::new(),
        }
    }
}

/// Returns the OpenAPI 3.1 document of these endpoints, as JSON text. `security` describes the
/// schemes for names in `auth`; a name without a description becomes a bearer token scheme.
pub fn document(info: &Info, endpoints: &[Endpoint], security: &[Security]) -> String {
    let mut names = Names::new(endpoints);
    let mut components = Components::default();
    let mut paths = Map::new();
    // OpenAPI treats paths that differ only in parameter names as one path: the first spelling is
    // used.
    let mut spellings = BTreeMap::new();
    for endpoint in endpoints {
        if let Some(table) = &endpoint.table {
            components.entity(names.schema(table.desc), table.desc);
        }
        let spelling = spellings
            .entry(names::shape(&endpoint.path))
            .or_insert_with(|| names::template(&endpoint.path));
        let wire_names = names::parameters(spelling);
        let item = paths.entry(spelling.clone()).or_insert_with(|| json!({}));
        let parts = operation::Parts {
            endpoint,
            wire_names: &wire_names,
            security,
        };
        item[endpoint.method.as_str().to_ascii_lowercase()] =
            operation::operation(&parts, false, &mut names, &mut components);
        if endpoint.method == Method::Get && operation::answers_head(endpoint) {
            item["head"] = operation::operation(&parts, true, &mut names, &mut components);
        }
    }
    let mut out = json!({
        "openapi": "3.1.0",
        "info": { "title": info.title, "version": info.version },
        "paths": paths,
        "components": components.finish(),
        "tags": names.tags(endpoints),
    });
    if let Some(description) = &info.description {
        out["info"]["description"] = json!(description);
    }
    if let Some(webhooks) = webhooks::all(&info.webhooks) {
        out["webhooks"] = webhooks;
    }
    // Another crate of the build may enable serde_json's insertion order.
    out.sort_all_objects();
    out.to_string()
}

/// All shared components of the document.
#[derive(Default)]
struct Components {
    schemas: Map<String, Json>,
    responses: Map<String, Json>,
    security: Map<String, Json>,
}

impl Components {
    /// The schemas of an entity, under its name.
    fn entity(&mut self, name: &str, desc: &'static crate::entity::EntityDesc) {
        if self.schemas.contains_key(name) {
            return;
        }
        for (suffix, schema) in schema::entity(name, desc) {
            self.schemas.insert(format!("{name}{suffix}"), schema);
        }
    }

    fn finish(mut self) -> Json {
        self.schemas
            .insert("Error".to_owned(), errors::error_schema());
        self.schemas
            .insert("Problem".to_owned(), errors::problem_schema());
        let mut out = json!({ "schemas": self.schemas, "headers": errors::headers() });
        if !self.responses.is_empty() {
            out["responses"] = Json::Object(self.responses);
        }
        if !self.security.is_empty() {
            out["securitySchemes"] = Json::Object(self.security);
        }
        out
    }
}

/// A reference to a component.
fn reference(kind: &str, name: &str) -> Json {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}
