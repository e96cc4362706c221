//! How expansions write descriptors: const methods, one per option.

use super::{
    Bound, ComputedDesc, DefaultDesc, EntityDesc, FieldDesc, Flags, Pagination, Paging, Rules,
    SourceLine,
};
use crate::Value;
use crate::policy::PolicyDesc;
use crate::route::RouteSpec;

#[doc(hidden)]
impl EntityDesc {
    /// An entity whose first field is the key, with every option left out.
    pub const fn new(
        name: &'static str,
        path: &'static str,
        storage_name: &'static str,
        fields: &'static [FieldDesc],
    ) -> Self {
        Self {
            name,
            namespace: None,
            path,
            parent_path: None,
            storage_name,
            doc: "",
            fields,
            primary: 0,
            indexes: &[],
            uniques: &[],
            sort: &[],
            pagination: Pagination::DEFAULT,
            paging: Paging::Limit,
            version: None,
            soft_delete: None,
            ttl: None,
            tenant: None,
            scope: &[],
            visible: None,
            gates: &[],
            actions: &[],
            relations: &[],
            summaries: &[],
            search: None,
            check: None,
            defaults: PolicyDesc::INHERIT,
            routes: [PolicyDesc::INHERIT; 5],
            mounts: RouteSpec::CRUD,
            stores: &[],
            rename_from: None,
            at: SourceLine { file: "", line: 1 },
            poisoned: false,
        }
    }
}

#[doc(hidden)]
impl FieldDesc {
    /// With a doc comment.
    #[must_use]
    pub const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }

    /// With further flags. A hidden field is neither filterable nor sortable, whatever else says
    /// so.
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

    /// With a default.
    #[must_use]
    pub const fn default(self, default: DefaultDesc) -> Self {
        Self { default, ..self }
    }

    /// With a literal as default.
    #[must_use]
    pub const fn literal(self, value: fn() -> Value) -> Self {
        Self {
            default: DefaultDesc::Literal(value),
            ..self
        }
    }

    /// Following from the rest of the record.
    #[must_use]
    pub const fn computed(self, computed: ComputedDesc) -> Self {
        Self {
            computed: Some(computed),
            ..self
        }
    }

    /// With constraints.
    #[must_use]
    pub const fn rules(self, rules: &'static Rules) -> Self {
        Self { rules, ..self }
    }

    /// With an earlier name.
    #[must_use]
    pub const fn rename_from(self, old: &'static str) -> Self {
        Self {
            rename_from: Some(old),
            ..self
        }
    }
}

#[doc(hidden)]
impl Rules {
    /// With bounds of a text's length.
    #[must_use]
    pub const fn length(self, min: Option<u32>, max: Option<u32>) -> Self {
        Self {
            length: (min, max),
            ..self
        }
    }

    /// With bounds of a number or date.
    #[must_use]
    pub const fn range(self, min: Option<Bound>, max: Option<Bound>) -> Self {
        Self {
            range: (min, max),
            ..self
        }
    }

    /// With a regular expression.
    #[must_use]
    pub const fn pattern(self, pattern: &'static str) -> Self {
        Self {
            pattern: Some(pattern),
            ..self
        }
    }

    /// With a named format.
    #[must_use]
    pub const fn format(self, format: &'static str) -> Self {
        Self {
            format: Some(format),
            ..self
        }
    }

    /// With bounds of a list's length.
    #[must_use]
    pub const fn items(self, min: Option<u32>, max: Option<u32>) -> Self {
        Self {
            items: (min, max),
            ..self
        }
    }

    /// Without equal items.
    #[must_use]
    pub const fn unique_items(self) -> Self {
        Self {
            unique_items: true,
            ..self
        }
    }

    /// With rules of each item.
    #[must_use]
    pub const fn each(self, rules: &'static Self) -> Self {
        Self {
            each: Some(rules),
            ..self
        }
    }

    /// With a closed set of texts.
    #[must_use]
    pub const fn one_of(self, values: &'static [&'static str]) -> Self {
        Self {
            one_of: values,
            ..self
        }
    }

    /// With a closed set of integers.
    #[must_use]
    pub const fn one_of_int(self, values: &'static [i64]) -> Self {
        Self {
            one_of_int: values,
            ..self
        }
    }
}
