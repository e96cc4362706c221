//! Finds errors of an OpenAPI document: violations of the meta-schema, invalid schemas and
//! references, and differences from the mounted routes.

use std::collections::BTreeSet;

use linchpin::http::Endpoint;
use serde_json::Value as Json;

/// Calls `visit` for every value, with its JSON pointer.
fn walk(value: &Json, path: &str, visit: &mut impl FnMut(&str, &Json)) {
    visit(path, value);
    match value {
        Json::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(i, v)| walk(v, &format!("{path}/{i}"), visit)),
        Json::Object(map) => {
            map.iter().for_each(|(k, v)| {
                walk(
                    v,
                    &format!("{path}/{}", k.replace('~', "~0").replace('/', "~1")),
                    visit,
                );
            });
        }
        _ => {}
    }
}

/// Violations of OpenAPI 3.1.
pub fn against_meta_schema(document: &Json) -> Vec<String> {
    let meta: Json = serde_json::from_str(include_str!("../openapi/oas-3.1-2022-10-07.json"))
        .expect("the meta-schema is JSON");
    let validator = jsonschema::validator_for(&meta).expect("the meta-schema compiles");
    validator
        .iter_errors(document)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect()
}

/// The invalid schemas and the references without a target, and the number of schemas.
pub fn within_itself(document: &Json) -> (Vec<String>, usize) {
    let (mut faults, mut schemas) = (Vec::new(), 0);
    walk(document, "", &mut |path, value| {
        if let Some(target) = value.get("$ref").and_then(Json::as_str) {
            let found = target
                .strip_prefix('#')
                .is_some_and(|pointer| document.pointer(pointer).is_some());
            if !found {
                faults.push(format!("{path}: the reference {target} has no target"));
            }
        }
        let component = path
            .strip_prefix("/components/schemas/")
            .is_some_and(|rest| !rest.contains('/'));
        if component || path.ends_with("/schema") {
            schemas += 1;
            if let Err(error) = jsonschema::draft202012::meta::validate(value) {
                faults.push(format!("{path}: {error}"));
            }
        }
    });
    (faults, schemas)
}

/// The routes that the document lacks, and documented routes that do not exist. The names of path
/// parameters are not compared.
pub fn against_routes(document: &Json, endpoints: &[Endpoint]) -> Vec<String> {
    let shape = |method: &str, path: &str| {
        let segments: Vec<&str> = path
            .split('/')
            .map(|segment| {
                if segment.starts_with('{') {
                    "{}"
                } else {
                    segment
                }
            })
            .collect();
        format!("{} {}", method.to_ascii_uppercase(), segments.join("/"))
    };
    let mounted: BTreeSet<String> = endpoints
        .iter()
        .map(|e| shape(e.method.as_str(), &e.path))
        .collect();
    let paths = document["paths"].as_object().expect("paths");
    let documented = paths.iter().flat_map(|(path, item)| {
        item.as_object()
            .expect("an item")
            .keys()
            .map(|method| shape(method, path))
    });
    // HEAD is documented if its response differs from that of GET.
    let documented: BTreeSet<String> = documented
        .filter(|route| !route.starts_with("HEAD ") && !route.starts_with("PARAMETERS "))
        .collect();
    let missing = mounted
        .difference(&documented)
        .map(|route| format!("{route} is missing"));
    missing
        .chain(
            documented
                .difference(&mounted)
                .map(|route| format!("{route} does not exist")),
        )
        .collect()
}
