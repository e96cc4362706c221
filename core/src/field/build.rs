//! Const methods that expansions call to write descriptors of fields, one method per option.

use super::{Bound, ComputedDesc, DefaultDesc, FieldDesc, Flags, Rules, TransformDesc};
use crate::Value;

#[doc(hidden)]
impl FieldDesc {
    /// Sets the doc comment.
    #[must_use]
    pub const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }

    /// Adds flags. A hidden field is never filterable or sortable, whatever the other flags are.
    #[must_use]
    pub const fn flags(self, flags: &[Flags]) -> Self {
        let mut all = self.flags;
        let mut i = 0;
        while i < flags.len() {
            all = all.or(flags[i]);
            i += 1;
        }
        if all.has(Flags::PRIVATE.or(Flags::WRITE_ONLY)) {
            all = all.without(Flags::FILTERABLE.or(Flags::SORTABLE));
        }
        Self { flags: all, ..self }
    }

    /// Sets the default.
    #[must_use]
    pub const fn default(self, default: DefaultDesc) -> Self {
        Self { default, ..self }
    }

    /// Sets a literal as the default.
    #[must_use]
    pub const fn literal(self, value: fn() -> Value) -> Self {
        Self {
            default: DefaultDesc::Literal(value),
            ..self
        }
    }

    /// Sets how the value is computed from the rest of the record.
    #[must_use]
    pub const fn computed(self, computed: ComputedDesc) -> Self {
        Self {
            computed: Some(computed),
            ..self
        }
    }

    /// Sets the constraints.
    #[must_use]
    pub const fn rules(self, rules: &'static Rules) -> Self {
        Self { rules, ..self }
    }

    /// Sets the earlier names.
    #[must_use]
    pub const fn rename_from(self, old: &'static [&'static str]) -> Self {
        Self {
            rename_from: old,
            ..self
        }
    }

    /// Sets the function that a migration runs for the field.
    #[must_use]
    pub const fn transform(self, transform: &'static TransformDesc) -> Self {
        Self {
            transform: Some(transform),
            ..self
        }
    }
}

#[doc(hidden)]
impl Rules {
    /// Limits the length of a text.
    #[must_use]
    pub const fn length(self, min: Option<u32>, max: Option<u32>) -> Self {
        Self {
            length: (min, max),
            ..self
        }
    }

    /// Limits a number or a date.
    #[must_use]
    pub const fn range(self, min: Option<Bound>, max: Option<Bound>) -> Self {
        Self {
            range: (min, max),
            ..self
        }
    }

    /// Requires a match of a regular expression.
    #[must_use]
    pub const fn pattern(self, pattern: &'static str) -> Self {
        Self {
            pattern: Some(pattern),
            ..self
        }
    }

    /// Requires a named format.
    #[must_use]
    pub const fn format(self, format: &'static str) -> Self {
        Self {
            format: Some(format),
            ..self
        }
    }

    /// Limits the length of a list.
    #[must_use]
    pub const fn items(self, min: Option<u32>, max: Option<u32>) -> Self {
        Self {
            items: (min, max),
            ..self
        }
    }

    /// Refuses equal items.
    #[must_use]
    pub const fn unique_items(self) -> Self {
        Self {
            unique_items: true,
            ..self
        }
    }

    /// Sets the rules of each item.
    #[must_use]
    pub const fn each(self, rules: &'static Self) -> Self {
        Self {
            each: Some(rules),
            ..self
        }
    }

    /// Allows only these texts.
    #[must_use]
    pub const fn one_of(self, values: &'static [&'static str]) -> Self {
        Self {
            one_of: values,
            ..self
        }
    }

    /// Allows only these integers.
    #[must_use]
    pub const fn one_of_int(self, values: &'static [i64]) -> Self {
        Self {
            one_of_int: values,
            ..self
        }
    }
}
