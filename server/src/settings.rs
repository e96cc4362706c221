//! Settings of plugins from environment variables.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use crate::Problem;
use crate::suggest::did_you_mean;

/// Reads one variable into settings of type `C`. The error completes "must be ..".
pub type Reader<C> = fn(&mut C, &str) -> Result<(), &'static str>;

/// Reads the variables with a prefix into settings. Returns the mistakes: values of another form, and
/// names without a reader.
///
/// ```
/// use linchpin::settings::{self, Reader};
///
/// #[derive(Default)]
/// struct Shop {
///     is_open: bool,
/// }
///
/// const READERS: &[(&str, Reader<Shop>)] =
///     &[("OPEN", |shop, text| settings::set(&mut shop.is_open, settings::flag(text)))];
///
/// let variables = [("SHOP_OPEN".into(), "true".into()), ("SHOP_OPNE".into(), "1".into())];
/// let mut shop = Shop::default();
/// let problems = settings::read("SHOP_", READERS, &mut shop, variables);
/// assert!(shop.is_open);
/// assert_eq!(problems[0].path, "SHOP_OPNE");
/// ```
pub fn read<C>(
    prefix: &str,
    readers: &[(&str, Reader<C>)],
    settings: &mut C,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<Problem> {
    let mut own: Vec<(String, OsString)> = variables
        .into_iter()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            Some((name.strip_prefix(prefix)?.to_owned(), value))
        })
        .collect();
    own.sort();
    let mut problems = Vec::new();
    for (name, value) in own {
        let key = format!("{prefix}{name}");
        let Some((_, read)) = readers.iter().find(|(known, _)| *known == name) else {
            let hint = did_you_mean(&name, readers.iter().map(|(known, _)| *known));
            let text = format!("no setting has this name{hint}");
            problems.push(Problem::new(key, "unknown", text));
            continue;
        };
        let read = match value.to_str() {
            Some(text) => read(settings, text),
            None => Err("UTF-8"),
        };
        if let Err(form) = read {
            problems.push(Problem::new(key, "format", format!("must be {form}")));
        }
    }
    problems
}

/// Sets a value that was read.
///
/// # Errors
/// The error of the value.
pub fn set<T>(place: &mut T, value: Result<T, &'static str>) -> Result<(), &'static str> {
    *place = value?;
    Ok(())
}

/// Reads `true` or `false`.
///
/// # Errors
/// If the text is something else.
pub fn flag(text: &str) -> Result<bool, &'static str> {
    text.parse().map_err(|_| "`true` or `false`")
}

/// Reads a whole number.
///
/// # Errors
/// If the text is something else.
pub fn number<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "a whole number")
}

/// Reads whole seconds.
///
/// # Errors
/// If the text is something else.
pub fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().map_err(|_| "whole seconds")?;
    Ok(Duration::from_secs(seconds))
}

/// Reads values that are separated by commas.
///
/// # Errors
/// `form` if one of them cannot be parsed.
pub fn list<T: FromStr>(text: &str, form: &'static str) -> Result<Vec<T>, &'static str> {
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts.map(|part| part.parse().map_err(|_| form)).collect()
}
