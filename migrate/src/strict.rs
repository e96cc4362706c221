//! A strict JSON reader for files that may have been edited by hand.
//!
//! It refuses duplicate keys, unknown keys, nesting deeper than 64 levels and texts over 16 MiB.
//! Each message has the JSON path of the mistake. Numbers are read exactly, so a value that was
//! written is read as the same value.

use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value as Json};

use crate::error::{Exit, Refusal};
use linchpin_core::schema::Snapshot;

/// The largest text that is read, in bytes.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The maximum nesting depth of arrays and objects.
const MAX_DEPTH: usize = 64;

/// Reads a document of format 2. `name` is the name of the file for messages.
///
/// # Errors
/// `snapshot_format` if the document has another format. `snapshot_invalid` with the JSON path if
/// it has no valid form.
pub fn read<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, Refusal> {
    let json = parse(name, text)?;
    check_format(name, &json)?;
    decode(name, json)
}

/// Reads a snapshot from the text of a file.
///
/// # Errors
/// Like [`read`], and if a name in the snapshot cannot be the name of a table or a column.
pub fn read_snapshot(name: &str, text: &str) -> Result<Snapshot, Refusal> {
    let snapshot: Snapshot = read(name, text)?;
    names(name, "$", &snapshot)?;
    Ok(snapshot)
}

/// Parses a text. `name` is the name of the file for messages.
///
/// # Errors
/// `snapshot_invalid` with the JSON path.
pub fn parse(name: &str, text: &str) -> Result<Json, Refusal> {
    if text.len() > MAX_BYTES {
        return Err(invalid(
            name,
            "$",
            "the file is larger than 16 MiB".to_owned(),
        ));
    }
    let mut reader = Reader {
        text,
        at: 0,
        path: Vec::new(),
    };
    let done = reader.value().and_then(|json| {
        reader.space();
        match reader.peek() {
            None => Ok(json),
            Some(_) => Err("unexpected text after the end of the document".to_owned()),
        }
    });
    done.map_err(|message| {
        let lines = text.as_bytes()[..reader.at.min(text.len())].split(|byte| *byte == b'\n');
        let message = format!("{message} (line {})", lines.count());
        invalid(name, &reader.place(), message)
    })
}

/// Decodes a parsed document.
///
/// # Errors
/// `snapshot_invalid` with the JSON path.
pub fn decode<T: DeserializeOwned>(name: &str, json: Json) -> Result<T, Refusal> {
    serde_path_to_error::deserialize(json).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." {
            "$".to_owned()
        } else {
            format!("$.{path}")
        };
        invalid(name, &path, error.into_inner().to_string())
    })
}

/// Checks that a document has the format that this build reads.
fn check_format(name: &str, json: &Json) -> Result<(), Refusal> {
    let Some(members) = json.as_object() else {
        return Err(invalid(name, "$", "expected an object".to_owned()));
    };
    let found = match members.get("format") {
        None => {
            return Err(invalid(name, "$", "missing field `format`".to_owned()));
        }
        Some(format) if format.as_u64() == Some(u64::from(Snapshot::FORMAT)) => return Ok(()),
        Some(Json::Number(found)) => found.to_string(),
        Some(_) => {
            return Err(invalid(name, "$.format", "expected a number".to_owned()));
        }
    };
    Err(Refusal::new(
        "snapshot_format",
        Exit::Planning,
        format!("`{name}` has format {found}; this build reads format 2"),
    )
    .help("use the version of Linchpin that wrote the file, or a newer one"))
}

/// Checks the names of a snapshot. A name has 1 to 63 bytes without NUL. The key of an entity is
/// its storage name.
///
/// # Errors
/// `snapshot_invalid` with the JSON path.
pub fn names(name: &str, path: &str, snapshot: &Snapshot) -> Result<(), Refusal> {
    let fits = |text: &str| (1..=63).contains(&text.len()) && !text.contains('\0');
    let check = |path: String, text: &str| {
        if fits(text) {
            return Ok(());
        }
        let message = format!("`{}` is not a name of 1 to 63 bytes", text.escape_debug());
        Err(invalid(name, &path, message))
    };
    for (key, entity) in &snapshot.entities {
        let path = format!("{path}.entities.{}", key.escape_debug());
        check(format!("{path}.storageName"), &entity.storage_name)?;
        if *key != entity.storage_name {
            let message = format!(
                "the key must be the storage name of the entity, `{}`",
                entity.storage_name
            );
            return Err(invalid(name, &path, message));
        }
        let known = |field: &str| entity.fields.contains_key(field);
        let must = |place: String, field: &str| {
            if known(field) {
                return Ok(());
            }
            let message = format!("the entity has no field `{}`", field.escape_debug());
            Err(invalid(name, &place, message))
        };
        must(format!("{path}.primary"), &entity.primary)?;
        for (field, facts) in &entity.fields {
            let path = format!("{path}.fields.{}", field.escape_debug());
            check(path.clone(), field)?;
            check(format!("{path}.column"), &facts.column)?;
        }
        let lists = [("indexes", &entity.indexes), ("uniques", &entity.uniques)];
        for (list, indexes) in lists {
            for (at, index) in indexes.iter().enumerate() {
                let path = format!("{path}.{list}[{at}]");
                check(format!("{path}.name"), &index.name)?;
                for key in &index.keys {
                    must(format!("{path}.keys"), &key.field)?;
                }
                if let Some(field) = &index.null {
                    must(format!("{path}.null"), field)?;
                }
            }
        }
    }
    Ok(())
}

/// The refusal of a file that cannot be read.
pub(crate) fn invalid(name: &str, path: &str, message: String) -> Refusal {
    Refusal::new(
        "snapshot_invalid",
        Exit::Planning,
        format!("`{name}` is not valid at `{path}`: {message}"),
    )
    .help("restore the file from version control; a file that cannot be read is never ignored")
}

/// A step of a JSON path.
enum Place {
    Key(String),
    Item(usize),
}

/// A JSON parser. It knows the JSON path of its position, for messages.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    path: Vec<Place>,
}

impl Reader<'_> {
    fn place(&self) -> String {
        let mut text = "$".to_owned();
        for place in &self.path {
            match place {
                Place::Key(key) => {
                    text.push('.');
                    text.extend(key.escape_debug().take(200));
                }
                Place::Item(at) => text.push_str(&format!("[{at}]")),
            }
        }
        text
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn expected(&self, what: &str) -> String {
        match self
            .text
            .get(self.at..)
            .and_then(|rest| rest.chars().next())
        {
            None => format!("expected {what}, but the file ends"),
            Some(found) => format!("expected {what}, found `{}`", found.escape_debug()),
        }
    }

    fn value(&mut self) -> Result<Json, String> {
        self.space();
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string().map(Json::String),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(b'-' | b'0'..=b'9') => self.number().map(Json::Number),
            _ => Err(self.expected("a value")),
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, String> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn enter(&mut self, place: Place) -> Result<(), String> {
        self.path.push(place);
        if self.path.len() > MAX_DEPTH {
            return Err(format!("the nesting is deeper than {MAX_DEPTH}"));
        }
        Ok(())
    }

    fn object(&mut self) -> Result<Json, String> {
        self.at += 1;
        let mut members = Map::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key"));
            }
            let key = self.string()?;
            self.enter(Place::Key(key.clone()))?;
            if members.contains_key(&key) {
                return Err("the key occurs twice".to_owned());
            }
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.expected("`:`"));
            }
            self.at += 1;
            let value = self.value()?;
            members.insert(key, value);
            self.path.pop();
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Json::Object(members));
                }
                _ => return Err(self.expected("`,` or `}`")),
            }
        }
    }

    fn array(&mut self) -> Result<Json, String> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            self.enter(Place::Item(items.len()))?;
            items.push(self.value()?);
            self.path.pop();
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::Array(items));
                }
                _ => return Err(self.expected("`,` or `]`")),
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        loop {
            match bytes.get(end) {
                None => {
                    self.at = bytes.len();
                    return Err("a text does not end".to_owned());
                }
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
            }
        }
        let token = self.text.get(start..=end).unwrap_or_default();
        let text = serde_json::from_str(token)
            .map_err(|_| "a text has a control character or an invalid escape".to_owned())?;
        self.at = end + 1;
        Ok(text)
    }

    fn number(&mut self) -> Result<Number, String> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while matches!(reader.peek(), Some(b'0'..=b'9')) {
                reader.at += 1;
            }
            reader.at - from
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let zero = self.peek() == Some(b'0');
        let whole = digits(self);
        if whole == 0 || (zero && whole > 1) {
            return Err("a number is malformed".to_owned());
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            integer = false;
            if digits(self) == 0 {
                return Err("a number is malformed".to_owned());
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            integer = false;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if digits(self) == 0 {
                return Err("a number is malformed".to_owned());
            }
        }
        let token = &self.text[start..self.at];
        if integer {
            if let Ok(value) = token.parse::<i64>() {
                return Ok(value.into());
            }
            if let Ok(value) = token.parse::<u64>() {
                return Ok(value.into());
            }
        }
        let value = token.parse::<f64>().ok().filter(|value| value.is_finite());
        value
            .and_then(Number::from_f64)
            .ok_or_else(|| "a number is too large".to_owned())
    }
}

#[cfg(test)]
mod tests;
