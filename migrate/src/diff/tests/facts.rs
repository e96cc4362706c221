//! The facts that the digest of a snapshot contains or leaves out.

use std::collections::BTreeSet;

use super::fixture::*;
use super::kinds::{computed, index, one, text, two, unique};
use crate::canonical::digest_of;
use linchpin_core::entity::{
    DefaultDesc, EntityDesc, FieldDesc, Flags, Kind, Rules, SoftDelete, Tenant, Ttl, VersionDesc,
};
use linchpin_core::schema::Snapshot;

pub(super) fn facts() -> EntityDesc {
    EntityDesc {
        indexes: leaked(&[index(&[(1, false)])]),
        ..task(&[
            text("a"),
            field("n", Kind::Integer).literal(one),
            choice("c", &["x", "y"]),
            optional(field("at", Kind::Date)),
        ])
    }
}

/// The facts with one field changed.
fn changed(at: usize, change: impl Fn(&mut FieldDesc)) -> EntityDesc {
    let mut fields = facts().fields.to_vec();
    change(&mut fields[at]);
    EntityDesc {
        fields: leaked(&fields),
        ..facts()
    }
}

#[test]
fn every_included_fact_changes_the_digest() {
    let variants = vec![
        facts(),
        changed(1, |field| field.kind = Kind::Number),
        changed(1, |field| field.column = "b"),
        changed(1, |field| field.optional = true),
        changed(1, |field| field.default = DefaultDesc::Uuid),
        changed(1, |field| field.default = DefaultDesc::Cuid),
        changed(2, |field| field.default = DefaultDesc::Literal(two)),
        changed(2, |field| field.default = DefaultDesc::None),
        changed(3, |field| field.kind = choice("c", &["x"]).kind),
        changed(3, |field| field.kind = choice("c", &["x", "y", "z"]).kind),
        changed(1, |field| *field = computed("a", &[2])),
        changed(1, |field| *field = computed("b", &[2])),
        changed(1, |field| *field = computed("a", &[3])),
        EntityDesc {
            indexes: &[],
            ..facts()
        },
        EntityDesc {
            indexes: leaked(&[index(&[(1, true)])]),
            ..facts()
        },
        EntityDesc {
            uniques: leaked(&[unique(&[1])]),
            ..facts()
        },
        EntityDesc {
            soft_delete: Some(SoftDelete::At(4)),
            ..facts()
        },
        EntityDesc {
            ttl: Some(Ttl {
                field: 4,
                after: None,
            }),
            ..facts()
        },
        EntityDesc {
            tenant: Some(Tenant {
                field: 1,
                optional: false,
                anonymous_read: false,
            }),
            ..facts()
        },
        EntityDesc {
            version: Some(VersionDesc {
                field: 2,
                required_on_write: false,
            }),
            ..facts()
        },
        EntityDesc {
            storage_name: "other",
            ..facts()
        },
    ];
    let digests: BTreeSet<String> = variants
        .iter()
        .map(|desc| digest_of(&Snapshot::of([desc])))
        .collect();
    assert_eq!(digests.len(), variants.len());
}

#[test]
fn no_excluded_fact_changes_the_digest() {
    let expected = digest_of(&Snapshot::of([&facts()]));
    let rules = Rules::NONE.length(None, Some(9));
    let variants = vec![
        changed(1, |field| field.rules = leak(rules)),
        changed(1, |field| field.doc = "Text."),
        changed(1, |field| field.wire = "other"),
        changed(1, |field| field.line = 99),
        changed(1, |field| {
            field.flags = Flags::FILTERABLE.or(Flags::READ_ONLY);
        }),
        changed(3, |field| field.kind = choice("c", &["y", "x"]).kind),
        EntityDesc {
            doc: "Text.",
            path: "elsewhere",
            stores: &["sqlite"],
            ..facts()
        },
    ];
    for desc in &variants {
        assert_eq!(digest_of(&Snapshot::of([desc])), expected);
    }
    // The order of declaration.
    let mut fields = facts().fields.to_vec();
    fields.swap(2, 4);
    let reordered = EntityDesc {
        fields: leaked(&fields),
        ..facts()
    };
    assert_eq!(digest_of(&Snapshot::of([&reordered])), expected);
    let (facts, other) = (facts(), entity("Other", "others", &[]));
    assert_eq!(
        digest_of(&Snapshot::of([&facts, &other])),
        digest_of(&Snapshot::of([&other, &facts]))
    );
}
