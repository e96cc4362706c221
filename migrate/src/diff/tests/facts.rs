//! The properties of a declaration that change the digest of a snapshot, and those that do not.

use std::collections::BTreeSet;

use super::fixture::*;
use super::kinds::{computed, index, one, text, two, unique};
use crate::canonical::digest_of;
use linchpin_core::entity::{
    DefaultDesc, EntityDesc, FieldDesc, Flags, Kind, Rules, SoftDelete, Tenant, Ttl, VersionDesc,
};
use linchpin_core::schema::Snapshot;

/// The entity whose properties the tests change one by one.
pub(super) fn base_entity() -> EntityDesc {
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

/// The entity of [`base_entity`] with one field changed.
fn changed(at: usize, change: impl Fn(&mut FieldDesc)) -> EntityDesc {
    let mut fields = base_entity().fields.to_vec();
    change(&mut fields[at]);
    EntityDesc {
        fields: leaked(&fields),
        ..base_entity()
    }
}

#[test]
fn every_storage_property_changes_the_digest() {
    let variants = vec![
        base_entity(),
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
            ..base_entity()
        },
        EntityDesc {
            indexes: leaked(&[index(&[(1, true)])]),
            ..base_entity()
        },
        EntityDesc {
            uniques: leaked(&[unique(&[1])]),
            ..base_entity()
        },
        EntityDesc {
            soft_delete: Some(SoftDelete::At(4)),
            ..base_entity()
        },
        EntityDesc {
            ttl: Some(Ttl {
                field: 4,
                after: None,
            }),
            ..base_entity()
        },
        EntityDesc {
            tenant: Some(Tenant {
                field: 1,
                optional: false,
                anonymous_read: false,
            }),
            ..base_entity()
        },
        EntityDesc {
            version: Some(VersionDesc {
                field: 2,
                required_on_write: false,
            }),
            ..base_entity()
        },
        EntityDesc {
            storage_name: "other",
            ..base_entity()
        },
    ];
    let digests: BTreeSet<String> = variants
        .iter()
        .map(|desc| digest_of(&Snapshot::of([desc])))
        .collect();
    assert_eq!(digests.len(), variants.len());
}

#[test]
fn other_properties_do_not_change_the_digest() {
    let expected = digest_of(&Snapshot::of([&base_entity()]));
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
            ..base_entity()
        },
    ];
    for desc in &variants {
        assert_eq!(digest_of(&Snapshot::of([desc])), expected);
    }
    // The order of fields.
    let mut fields = base_entity().fields.to_vec();
    fields.swap(2, 4);
    let reordered = EntityDesc {
        fields: leaked(&fields),
        ..base_entity()
    };
    assert_eq!(digest_of(&Snapshot::of([&reordered])), expected);
    let (facts, other) = (base_entity(), entity("Other", "others", &[]));
    assert_eq!(
        digest_of(&Snapshot::of([&facts, &other])),
        digest_of(&Snapshot::of([&other, &facts]))
    );
}
