//! The functions that changes need, and checks of their signatures.

use linchpin_core::entity::{Kind, TransformDesc, TransformFrom, TransformType};
use linchpin_core::schema::FieldSnapshot;

use super::Differ;
use super::declared::Declared;
use crate::chain::TransformRecord;

impl Differ<'_> {
    /// The names of the functions that convert the values of a field to another type, and back.
    pub(super) fn converts(
        &mut self,
        one: &Declared<'_>,
        name: &str,
        old: &FieldSnapshot,
        new: &FieldSnapshot,
    ) -> (String, Option<String>) {
        if !self.strict {
            return (String::new(), None);
        }
        let place = (one.snapshot.name.as_str(), Some(name));
        let at = || one.place(Some(name));
        let Some(transform) = one.fields.get(name).and_then(|field| field.transform) else {
            let how = if old.kind == new.kind {
                format!("the items of `{name}` change their shape")
            } else {
                format!("`{name}` changes from {} to {}", old.kind, new.kind)
            };
            let message = format!("{how}; name a reviewed transform: `transform = path`");
            self.problems
                .add("transform_required", message, place, at());
            return (String::new(), None);
        };
        let expected = (
            typed(&old.kind, old.optional),
            typed(&new.kind, new.optional),
        );
        let wrong = |what: &str| {
            format!(
                "transform `{}` of `{name}` {what}; expected `{}` to `{}`",
                transform.name, expected.0, expected.1
            )
        };
        match transform.from {
            TransformFrom::Record => {
                let message = wrong("takes a record");
                self.problems
                    .add("transform_signature", message, place, at());
            }
            TransformFrom::Value(from) if !takes(&from, old) => {
                let message = wrong(&format!("takes `{}`", type_text(&from)));
                self.problems
                    .add("transform_signature", message, place, at());
            }
            TransformFrom::Value(_) if !gives(&transform.to, new) => {
                let message = wrong(&format!("returns `{}`", type_text(&transform.to)));
                self.problems
                    .add("transform_signature", message, place, at());
            }
            TransformFrom::Value(from)
                if old.optional && !new.optional && new.default.is_none() && !from.optional =>
            {
                let message = format!(
                    "`{name}` may be null in the previous snapshot and is required now, but \
                     transform `{}` does not take null",
                    transform.name
                );
                self.problems.add("transform_null", message, place, at());
            }
            TransformFrom::Value(_) => {}
        }
        if let Some(reverse) = transform.reverse {
            let fits = match reverse.from {
                TransformFrom::Value(from) => takes(&from, new) && gives(&reverse.to, old),
                TransformFrom::Record => false,
            };
            if !fits {
                let message = format!(
                    "reverse transform `{}` of `{name}` does not convert `{}` to `{}`",
                    reverse.name, expected.1, expected.0
                );
                self.problems
                    .add("transform_signature", message, place, at());
            }
            self.record(reverse);
        }
        let reverse = transform.reverse.map(|reverse| reverse.name.to_owned());
        (self.record(transform), reverse)
    }

    /// The name of the function that fills a field in existing records. A function that converts
    /// values belongs to an earlier migration and is ignored.
    pub(super) fn fills(
        &mut self,
        one: &Declared<'_>,
        name: &str,
        new: &FieldSnapshot,
    ) -> Option<String> {
        let transform = one.fields.get(name)?.transform?;
        if !matches!(transform.from, TransformFrom::Record) {
            return None;
        }
        if !gives(&transform.to, new) {
            let message = format!(
                "transform `{}` of `{name}` returns `{}`; expected `{}`",
                transform.name,
                type_text(&transform.to),
                typed(&new.kind, new.optional)
            );
            let place = (one.snapshot.name.as_str(), Some(name));
            let at = one.place(Some(name));
            self.problems.add("transform_signature", message, place, at);
        }
        Some(self.record(transform))
    }

    /// Adds a function to the functions of the migration. Returns its name.
    fn record(&mut self, transform: &TransformDesc) -> String {
        let from = match transform.from {
            TransformFrom::Value(from) => type_text(&from),
            TransformFrom::Record => "record".to_owned(),
        };
        let record = TransformRecord {
            name: transform.name.to_owned(),
            from,
            to: type_text(&transform.to),
            body: transform.body.to_owned(),
        };
        self.transforms.insert(record.name.clone(), record);
        transform.name.to_owned()
    }
}

/// Whether a function accepts the values of a field. Null is not checked, because a function does
/// not have to accept null.
fn takes(from: &TransformType, old: &FieldSnapshot) -> bool {
    let values = old.values.as_deref().unwrap_or_default();
    from.kind.name() == old.kind
        && match from.kind {
            Kind::Enum(desc) if !desc.variants.is_empty() => values
                .iter()
                .all(|value| desc.variants.contains(&value.as_str())),
            _ => true,
        }
}

/// Whether a field can store the results of a function.
fn gives(to: &TransformType, new: &FieldSnapshot) -> bool {
    let values = new.values.as_deref().unwrap_or_default();
    to.kind.name() == new.kind
        && (new.optional || !to.optional)
        && match to.kind {
            Kind::Enum(desc) => desc
                .variants
                .iter()
                .all(|variant| values.iter().any(|value| value == variant)),
            _ => true,
        }
}

fn type_text(one: &TransformType) -> String {
    typed(one.kind.name(), one.optional)
}

/// The type as text, such as `string`, or `string?` if it allows null.
fn typed(kind: &str, optional: bool) -> String {
    format!("{kind}{}", if optional { "?" } else { "" })
}
