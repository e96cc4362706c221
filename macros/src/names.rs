//! Names: conversion from Rust to the wire, to routes and to storage.

use proc_macro2::{Ident, Span};

/// Returns an identifier with this name, raw if it is a keyword in any edition.
pub(crate) fn ident(name: &str, span: Span) -> Ident {
    match name {
        // These cannot be raw.
        "self" | "super" | "crate" | "Self" | "_" => Ident::new(&format!("{name}_"), span),
        // syn knows the keywords of earlier editions.
        "gen" => Ident::new_raw(name, span),
        _ if syn::parse_str::<Ident>(name).is_err() => Ident::new_raw(name, span),
        _ => Ident::new(name, span),
    }
}

/// Returns the words of a name in lower case. The name is split at `_` and `-`, between a
/// lower-case letter or digit and an upper-case letter, and before the last letter of an upper-case
/// run that a lower-case letter follows.
pub(crate) fn words(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (i, &c) in chars.iter().enumerate() {
        let before = i.checked_sub(1).map(|b| chars[b]);
        let after = chars.get(i + 1);
        let starts = c.is_uppercase()
            && before.is_some_and(|b| {
                b.is_lowercase()
                    || b.is_numeric()
                    || (b.is_uppercase() && after.is_some_and(|a| a.is_lowercase()))
            });
        if (starts || c == '_' || c == '-') && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c != '_' && c != '-' {
            word.extend(c.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// `by-slug`: routes of operations.
pub(crate) fn kebab(name: &str) -> String {
    words(name).join("-")
}

/// `by_slug`: columns, adapter methods, variants.
pub(crate) fn snake(name: &str) -> String {
    words(name).join("_")
}

/// `createdAt`: members on the wire.
pub(crate) fn camel(name: &str) -> String {
    let mut out = String::new();
    for (i, word) in words(name).iter().enumerate() {
        let mut chars = word.chars();
        match chars.next() {
            Some(first) if i > 0 => out.extend(first.to_uppercase()),
            Some(first) => out.push(first),
            None => {}
        }
        out.push_str(chars.as_str());
    }
    out
}

/// `BlogPost`: types.
pub(crate) fn pascal(name: &str) -> String {
    let capital = |word: &String| {
        let mut chars = word.chars();
        chars
            .next()
            .map(|first| first.to_uppercase().chain(chars).collect::<String>())
            .unwrap_or_default()
    };
    words(name).iter().map(capital).collect()
}

/// `blog-posts`: the route segment of an entity.
pub(crate) fn segment(entity: &str) -> String {
    plural_words(entity).join("-")
}

/// `blog_http_servers`: the storage name of an entity.
pub(crate) fn storage(namespace: Option<&str>, entity: &str) -> String {
    let plural = plural_words(entity).join("_");
    namespace.map_or(plural.clone(), |ns| format!("{ns}_{plural}"))
}

fn plural_words(name: &str) -> Vec<String> {
    let mut words = words(name);
    if let Some(last) = words.last_mut() {
        *last = plural(last);
    }
    words
}

const UNCOUNTABLE: &[&str] = &[
    "series",
    "species",
    "news",
    "sheep",
    "fish",
    "equipment",
    "information",
    "data",
    "metadata",
    "media",
    "staff",
    "feedback",
];

const IRREGULAR: &[(&str, &str)] = &[
    ("person", "people"),
    ("child", "children"),
    ("man", "men"),
    ("woman", "women"),
    ("mouse", "mice"),
    ("foot", "feet"),
    ("tooth", "teeth"),
    ("goose", "geese"),
];

const F_TO_VES: &[&str] = &[
    "knife", "life", "wife", "leaf", "shelf", "wolf", "half", "self", "loaf", "thief",
];
const O_TO_OES: &[&str] = &["hero", "potato", "tomato", "echo", "veto", "torpedo"];

/// Returns the plural of a lower-case word: the first matching rule.
pub(crate) fn plural(word: &str) -> String {
    let vowel = |back: usize| {
        word.chars()
            .rev()
            .nth(back)
            .is_some_and(|c| "aeiou".contains(c))
    };
    if UNCOUNTABLE.contains(&word) {
        return word.to_owned();
    }
    if let Some((_, plural)) = IRREGULAR.iter().find(|(singular, _)| *singular == word) {
        return (*plural).to_owned();
    }
    if F_TO_VES.contains(&word) {
        return format!("{}ves", word.trim_end_matches('e').trim_end_matches('f'));
    }
    if word == "axis" || word.ends_with("sis") {
        return format!("{}es", &word[..word.len() - 2]);
    }
    if word.ends_with('z') && vowel(1) {
        return format!("{word}zes");
    }
    if ["s", "x", "z", "ch", "sh"]
        .iter()
        .any(|end| word.ends_with(end))
    {
        return format!("{word}es");
    }
    if word.len() > 1 && word.ends_with('y') && !vowel(1) {
        return format!("{}ies", &word[..word.len() - 1]);
    }
    if O_TO_OES.contains(&word) {
        return format!("{word}es");
    }
    format!("{word}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_names_become_plural_path_segments() {
        for (name, expected) in [
            ("Post", "posts"),
            ("HTTPServer", "http-servers"),
            ("BlogPost", "blog-posts"),
            ("APIKey", "api-keys"),
            ("Category", "categories"),
            ("Quiz", "quizzes"),
            ("Day", "days"),
            ("Waltz", "waltzes"),
            ("Box", "boxes"),
            ("Analysis", "analyses"),
            ("Status", "statuses"),
            ("Person", "people"),
            ("Hero", "heroes"),
            ("Photo", "photos"),
            ("Knife", "knives"),
            ("Series", "series"),
        ] {
            assert_eq!(segment(name), expected, "{name}");
        }
    }

    #[test]
    fn operation_names_become_path_segments() {
        for (name, expected) in [
            ("by_slug", "by-slug"),
            ("listByURL", "list-by-url"),
            ("ABTest", "ab-test"),
            ("publish2x", "publish2x"),
            ("OAuth2Token", "o-auth2-token"),
            ("v2Sync", "v2-sync"),
            ("BY_SLUG", "by-slug"),
            ("PUBLISH", "publish"),
            ("__", ""),
        ] {
            assert_eq!(kebab(name), expected, "{name}");
        }
    }

    #[test]
    fn each_plural_rule_applies_to_its_examples() {
        for (word, expected) in [
            ("metadata", "metadata"),
            ("feedback", "feedback"),
            ("woman", "women"),
            ("goose", "geese"),
            ("thief", "thieves"),
            ("leaf", "leaves"),
            ("wife", "wives"),
            ("half", "halves"),
            ("axis", "axes"),
            ("crisis", "crises"),
            ("fez", "fezzes"),
            ("buzz", "buzzes"),
            ("church", "churches"),
            ("dish", "dishes"),
            ("bus", "buses"),
            ("city", "cities"),
            ("key", "keys"),
            ("y", "ys"),
            ("torpedo", "torpedoes"),
            ("piano", "pianos"),
            ("roof", "roofs"),
        ] {
            assert_eq!(plural(word), expected, "{word}");
        }
    }

    #[test]
    fn names_are_converted_for_the_wire_and_for_storage() {
        assert_eq!(camel("created_at"), "createdAt");
        assert_eq!(camel("api_url"), "apiUrl");
        assert_eq!(camel("aB"), "aB");
        assert_eq!(camel("id"), "id");
        assert_eq!(snake("InReview"), "in_review");
        assert_eq!(storage(Some("blog"), "HTTPServer"), "blog_http_servers");
        assert_eq!(storage(None, "Person"), "people");
    }
}
