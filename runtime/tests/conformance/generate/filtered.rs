//! Pages under filters of every form.

use linchpin::entity::{EntityDesc, FieldDesc, Kind};
use linchpin::filter::Filter;
use serde_json::{Value as Json, json};

use super::{comparable, has_generated_texts};
use crate::pool::{Random, text, value};
use crate::sequence::{Filtered, What};

/// A page under a filter of up to four levels, on any field that filters may name.
pub(super) fn filtered(r: &mut Random, desc: &'static EntityDesc) -> What {
    let filter = loop {
        let filter = tree(r, desc, 4);
        if Filter::from_json(&filter, desc, &[]).is_ok() {
            break filter;
        }
    };
    let sortable: Vec<&FieldDesc> = desc
        .fields
        .iter()
        .filter(|f| f.readable() && f.kind.is_scalar() && comparable(f))
        .collect();
    let sort = r.percent(60).then(|| r.one(&sortable).wire.to_owned());
    What::Filtered(Filtered {
        entity: desc.storage_name.to_owned(),
        filter,
        sort,
        desc: r.percent(50),
        limit: 1 + r.below(4) as u32,
    })
}

fn tree(r: &mut Random, desc: &'static EntityDesc, depth: usize) -> Json {
    if depth == 1 || r.percent(35) {
        return condition(r, desc);
    }
    let parts: Vec<Json> = (0..=r.below(3)).map(|_| tree(r, desc, depth - 1)).collect();
    json!({ *r.one(&["$and", "$or", "$or"]): parts })
}

fn condition(r: &mut Random, desc: &'static EntityDesc) -> Json {
    let usable = |f: &&FieldDesc| {
        (f.kind.is_scalar() || matches!(f.kind, Kind::StringArray)) && comparable(f)
    };
    let fields: Vec<&FieldDesc> = desc.fields.iter().filter(usable).collect();
    let field = *r.one(&fields);
    let ops: &[&str] = match field.kind {
        Kind::StringArray => &["$has", "$eq", "$ne"],
        Kind::Boolean | Kind::Enum(_) => &["$eq", "$ne", "$in", "$nin"],
        Kind::String if !has_generated_texts(desc, field) => &[
            "$eq",
            "$ne",
            "$gt",
            "$gte",
            "$lt",
            "$lte",
            "$in",
            "$nin",
            "$contains",
        ],
        _ => &["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin"],
    };
    let op = *r.one(ops);
    let literal = |r: &mut Random| match value(r, field) {
        // A text may look like a reference, so it is marked as a literal.
        Json::String(text) => json!({ "$literal": text }),
        Json::Array(list) => json!({ "$literal": list }),
        other => other,
    };
    let operand = match op {
        "$in" | "$nin" => (0..=r.below(3)).map(|_| literal(r)).collect(),
        "$has" | "$contains" => json!({ "$literal": text(r) }),
        _ => literal(r),
    };
    json!({ field.wire: { op: operand } })
}
