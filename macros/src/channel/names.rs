//! Names of events on the wire.

use linchpin_vocabulary::event::{self, Flaw};
use syn::LitStr;

use super::marks::Word;
use crate::diagnostics::Diagnostics;
use crate::entity::EntityModel;
use crate::options::Opt;

/// Reads `event = "thread.created"`.
pub(crate) fn read(opt: &Opt, d: &mut Diagnostics) -> Option<LitStr> {
    opt.text("event = \"thread.created\"", d)
        .filter(|text| legal(text, d))
}

/// Reads `alias = ["a", "b"]`.
pub(crate) fn read_aliases(opt: &Opt, d: &mut Diagnostics) -> Vec<LitStr> {
    let texts = opt.texts("alias = [\"thread:created\"]", d);
    texts.into_iter().filter(|text| legal(text, d)).collect()
}

/// Checks a name as written.
pub(crate) fn legal(text: &LitStr, d: &mut Diagnostics) -> bool {
    let name = text.value();
    let Some((message, help)) = flaw(&name) else {
        return true;
    };
    d.error(text, message).help(help);
    false
}

/// Returns the message about an invalid name, and the help; `None` if the name is valid.
pub(crate) fn flaw(name: &str) -> Option<(String, &'static str)> {
    Some(match event::check(name).err()? {
        Flaw::Grammar => (
            format!("`{name}` is not a valid event name"),
            "letters and digits, a lower-case letter first, with single `.`, `:`, `_` or `-` \
             between them",
        ),
        Flaw::Length => (
            format!("the name of the event is {} bytes; at most 128", name.len()),
            "a shorter name",
        ),
        Flaw::Reserved => (
            format!("event name `{name}` is reserved"),
            "set another name: `event = \"..\"`",
        ),
    })
}

/// Returns the name of the events of a route; `None` for an operation, whose declaration has the
/// name.
pub(crate) fn of_event(model: &EntityModel, word: &Word) -> Option<String> {
    let (route, last) = match word {
        Word::Created => (0, "created"),
        Word::Updated => (3, "updated"),
        Word::Deleted => (4, "deleted"),
        Word::Operation(_) => return None,
    };
    let declared = model.routes[route]
        .event
        .as_ref()
        .or(model.defaults.event.as_ref())
        .and_then(|event| event.name());
    if let Some(name) = declared {
        return Some(name.value());
    }
    let segment = model.path.rsplit('/').next().unwrap_or(&model.path);
    Some(match &model.namespace {
        Some(namespace) => format!("{}.{segment}.{last}", namespace.value()),
        None => format!("{segment}.{last}"),
    })
}

/// Whether all segments of a path are static and need no percent-encoding.
pub(crate) fn is_static_path(path: &str) -> bool {
    let unreserved = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    path.split('/').all(|segment| {
        !segment.is_empty() && segment != "." && segment != ".." && segment.chars().all(unreserved)
    })
}
