//! The form of `chain.json` and of migration files.
//!
//! The app's `migrate` commands, not this macro, report problems that concern several files: wrong
//! digests, a wrong order of migrations, and merged branches. An app with such a problem must
//! compile, because the app itself contains these commands.

use super::json::{Json, JsonError, member};

/// The version of the files.
const FORMAT: &str = "2";

/// The form of a member.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// The version of the file.
    Format,
    /// A whole number from 1.
    Sequence,
    /// `[a-z][a-z0-9_]{0,62}`.
    Name,
    /// The name of a file in the same folder.
    File,
    /// 64 hexadecimal digits.
    Digest,
    /// A digest or null.
    Parent,
    Text,
    Object,
    Array,
    Any,
}

const CHAIN: &[(&str, Form)] = &[("format", Form::Format), ("migrations", Form::Array)];
const ENTRY: &[(&str, Form)] = &[
    ("seq", Form::Sequence),
    ("name", Form::Name),
    ("file", Form::File),
    ("digest", Form::Digest),
];
const MIGRATION: &[(&str, Form)] = &[
    ("format", Form::Format),
    ("seq", Form::Sequence),
    ("name", Form::Name),
    ("parent", Form::Parent),
    ("snapshot", Form::Object),
    ("snapshotDigest", Form::Digest),
    ("changes", Form::Array),
    ("transforms", Form::Array),
];
const TRANSFORM: &[(&str, Form)] = &[
    ("name", Form::Text),
    ("from", Form::Any),
    ("to", Form::Any),
    ("body", Form::Digest),
];

/// Checks `chain.json` and returns the files that it lists.
pub(super) fn chain(json: &Json) -> Result<Vec<String>, Vec<JsonError>> {
    let mut errors = Vec::new();
    check_object(json, "$", CHAIN, &mut errors);
    let mut files = Vec::new();
    for (i, entry) in items(json, "migrations").iter().enumerate() {
        let path = format!("$.migrations[{i}]");
        check_object(entry, &path, ENTRY, &mut errors);
        let Some(Json::Text(file)) = find_member(entry, "file") else {
            continue;
        };
        if files.contains(file) {
            errors.push(JsonError {
                path: member(&path, "file"),
                message: format!("file `{file}` is listed twice"),
            });
        }
        files.push(file.clone());
    }
    if errors.is_empty() {
        Ok(files)
    } else {
        Err(errors)
    }
}

/// Checks a migration file.
pub(super) fn migration(json: &Json) -> Vec<JsonError> {
    let mut errors = Vec::new();
    check_object(json, "$", MIGRATION, &mut errors);
    for (i, transform) in items(json, "transforms").iter().enumerate() {
        let path = format!("$.transforms[{i}]");
        check_object(transform, &path, TRANSFORM, &mut errors);
    }
    errors
}

fn find_member<'a>(json: &'a Json, name: &str) -> Option<&'a Json> {
    match json {
        Json::Object(members) => members.iter().find(|(n, _)| n == name).map(|(_, v)| v),
        _ => None,
    }
}

fn items<'a>(json: &'a Json, name: &str) -> &'a [Json] {
    match find_member(json, name) {
        Some(Json::Array(items)) => items,
        _ => &[],
    }
}

/// Checks that an object has exactly these members, each in its form.
fn check_object(json: &Json, path: &str, forms: &[(&str, Form)], errors: &mut Vec<JsonError>) {
    let mut error = |path: String, message: String| errors.push(JsonError { path, message });
    let Json::Object(members) = json else {
        return error(path.to_owned(), "expected an object".to_owned());
    };
    for (name, value) in members {
        match forms.iter().find(|(known, _)| known == name) {
            None => error(member(path, name), "unknown member".to_owned()),
            Some((_, form)) => {
                if let Some(message) = form.problem(value) {
                    error(member(path, name), message);
                }
            }
        }
    }
    for (name, _) in forms {
        if find_member(json, name).is_none() {
            error(path.to_owned(), format!("member `{name}` is missing"));
        }
    }
}

impl Form {
    /// Returns what is wrong with a value.
    fn problem(self, value: &Json) -> Option<String> {
        let wanted = match (self, value) {
            (Self::Format, Json::Number(format)) if format == FORMAT => return None,
            (Self::Format, Json::Number(format)) => {
                return Some(format!(
                    "unsupported format {format}; this version of Linchpin reads format {FORMAT}"
                ));
            }
            (Self::Sequence, Json::Number(n))
                if n.parse::<u32>().is_ok_and(|n| n > 0) && !n.starts_with('+') =>
            {
                return None;
            }
            (Self::Name, Json::Text(name)) if is_name(name) => return None,
            (Self::File, Json::Text(file)) if is_file(file) => return None,
            (Self::Digest | Self::Parent, Json::Text(digest)) if is_digest(digest) => return None,
            (Self::Parent, Json::Null)
            | (Self::Text, Json::Text(_))
            | (Self::Object, Json::Object(_))
            | (Self::Array, Json::Array(_))
            | (Self::Any, _) => return None,
            (Self::Format, _) => "expected the number 2",
            (Self::Sequence, _) => "expected a whole number of at least 1",
            (Self::Name, _) => "expected a name of the form [a-z][a-z0-9_]{0,62}",
            (Self::File, _) => "expected the name of a file in the same folder, without a path",
            (Self::Digest, _) => "expected 64 lower-case hexadecimal digits",
            (Self::Parent, _) => "expected 64 lower-case hexadecimal digits, or null",
            (Self::Text, _) => "expected a text",
            (Self::Object, _) => "expected an object",
            (Self::Array, _) => "expected a list",
        };
        Some(wanted.to_owned())
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn is_file(file: &str) -> bool {
    !matches!(file, "" | "." | "..")
        && file.len() <= 255
        && !file.contains(|c: char| matches!(c, '/' | '\\' | ':') || c.is_control())
}

fn is_digest(digest: &str) -> bool {
    digest.len() == 64
        && digest
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
