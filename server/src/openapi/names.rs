//! Unique names of schemas and operations, and paths in OpenAPI syntax.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use crate::entity::EntityDesc;
use crate::http::{Action, Endpoint};

/// Assigns names; each name is assigned once.
pub(super) struct Names {
    /// Schema names by storage name, which is unique within an application.
    schemas: BTreeMap<&'static str, String>,
    operations: BTreeSet<String>,
}

/// The suffixes of the schemas of one entity, except those of its operations.
const SUFFIXES: [&str; 4] = ["", "Create", "Update", "Page"];

impl Names {
    /// Names every entity. The first free name is used: its own name; its name with the namespace
    /// as a prefix, because two packages may both have a `Post`; and the same with a number as a
    /// suffix.
    pub(super) fn new(endpoints: &[Endpoint]) -> Self {
        let mut taken: BTreeSet<String> = ["Error", "Problem"].map(String::from).into();
        let mut schemas = BTreeMap::new();
        for desc in endpoints
            .iter()
            .filter_map(|e| e.table.as_ref())
            .map(|t| t.desc)
        {
            if schemas.contains_key(desc.storage_name) {
                continue;
            }
            let prefixed = format!(
                "{}{}",
                pascal(desc.namespace.unwrap_or_default()),
                desc.name
            );
            let numbered = (2..).map(|n: u32| format!("{prefixed}{n}"));
            let is_free = |name: &String| {
                SUFFIXES
                    .iter()
                    .all(|suffix| !taken.contains(&format!("{name}{suffix}")))
            };
            let mut candidates = [desc.name.to_owned(), prefixed.clone()]
                .into_iter()
                .chain(numbered);
            let Some(name) = candidates.find(is_free) else {
                continue;
            }; // the sequence of numbers is infinite
            taken.extend(SUFFIXES.iter().map(|suffix| format!("{name}{suffix}")));
            schemas.insert(desc.storage_name, name);
        }
        Self {
            schemas,
            operations: BTreeSet::new(),
        }
    }

    /// The schema name of an entity: `Post`.
    pub(super) fn schema(&self, desc: &EntityDesc) -> &str {
        self.schemas
            .get(desc.storage_name)
            .map_or(desc.name, String::as_str)
    }

    /// Whether an entity is in the document.
    pub(super) fn has(&self, desc: &EntityDesc) -> bool {
        self.schemas.contains_key(desc.storage_name)
    }

    /// Creates a unique operation id: `post_bySlug`, `post_bySlug_byPath`.
    pub(super) fn operation(&mut self, endpoint: &Endpoint, suffix: &str) -> String {
        let route = camel(&endpoint.name);
        let name = match &endpoint.table {
            Some(table) => format!("{}_{route}{suffix}", lower_first(self.schema(table.desc))),
            None => match endpoint.action {
                Action::Plugin(desc) => format!("{}_{route}{suffix}", camel(desc.of)),
                _ => format!("{route}{suffix}"),
            },
        };
        let numbered = (2..).map(|n: u32| format!("{name}_{n}"));
        let unique_name = std::iter::once(name.clone())
            .chain(numbered)
            .find(|n| !self.operations.contains(n))
            .unwrap_or(name);
        self.operations.insert(unique_name.clone());
        unique_name
    }

    /// One tag per entity, in the order of mounting, and then one tag per plugin.
    pub(super) fn tags(&self, endpoints: &[Endpoint]) -> Json {
        let mut seen = BTreeSet::new();
        let descs = endpoints
            .iter()
            .filter_map(|e| e.table.as_ref())
            .map(|t| t.desc);
        let tags = descs
            .filter(|desc| seen.insert(desc.storage_name))
            .map(|desc| {
                let mut tag = json!({ "name": self.schema(desc) });
                if !desc.doc.trim().is_empty() {
                    tag["description"] = json!(desc.doc.trim());
                }
                tag
            });
        let mut plugins: Vec<&str> = endpoints
            .iter()
            .filter_map(|e| Some(e.action.described()?.of))
            .collect();
        plugins.dedup();
        tags.chain(plugins.into_iter().map(|plugin| json!({ "name": plugin })))
            .collect()
    }
}

/// `by_slug` and `BY_SLUG` become `bySlug`. In a name without `_`, only the first letter becomes
/// lower case.
pub(super) fn camel(name: &str) -> String {
    if !name.contains('_') {
        return lower_first(name);
    }
    lower_first(&pascal(name))
}

/// `by_slug` becomes `BySlug`.
pub(super) fn pascal(name: &str) -> String {
    name.split('_')
        .filter_map(|word| {
            let mut chars = word.chars();
            chars.next().map(|c| {
                c.to_uppercase()
                    .chain(chars.flat_map(char::to_lowercase))
                    .collect::<String>()
            })
        })
        .collect()
}

fn lower_first(name: &str) -> String {
    let mut chars = name.chars();
    chars
        .next()
        .map(|c| c.to_lowercase().chain(chars).collect())
        .unwrap_or_default()
}

/// A path without parameter names: equal for paths that are the same for OpenAPI.
pub(super) fn shape(path: &str) -> String {
    segments(path, |_| "{}".to_owned())
}

/// A path in OpenAPI syntax, which has no wildcards.
pub(super) fn template(path: &str) -> String {
    segments(path, |name| format!("{{{name}}}"))
}

/// The names of a path's parameters, in order.
pub(super) fn parameters(path: &str) -> Vec<String> {
    path.split('/')
        .filter_map(parameter)
        .map(str::to_owned)
        .collect()
}

fn segments(path: &str, write: impl Fn(&str) -> String) -> String {
    let segments: Vec<String> = path
        .split('/')
        .map(|s| parameter(s).map_or_else(|| s.to_owned(), &write))
        .collect();
    segments.join("/")
}

fn parameter(segment: &str) -> Option<&str> {
    segment
        .strip_prefix('{')?
        .strip_suffix('}')
        .map(|name| name.trim_start_matches('*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_ids_are_camel_case() {
        for (name, expected) in [
            ("by_slug", "bySlug"),
            ("publish", "publish"),
            ("listAll", "listAll"),
            ("PUBLISH_NOW", "publishNow"),
        ] {
            assert_eq!(camel(name), expected);
        }
    }

    #[test]
    fn path_patterns_are_converted_to_openapi_templates() {
        assert_eq!(shape("/posts/{id}/publish"), "/posts/{}/publish");
        assert_eq!(template("/files/{*rest}"), "/files/{rest}");
        assert_eq!(parameters("/a/{x}/b/{*rest}"), ["x", "rest"]);
    }
}
