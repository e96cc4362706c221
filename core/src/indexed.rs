//! The maximum length of texts in an index.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::RwLock;

use crate::entity::{EntityDesc, Kind, Link, Relation};
use crate::layout::indexes;

/// The maximum number of bytes of the texts in one index, without the primary key. An entry of a
/// Postgres index has at most 2,704 bytes.
const MAX_INDEX_BYTES: usize = 2048;
/// The maximum number of bytes of a record's key, and of fields that name a record, a tenant or an
/// owner.
const MAX_KEY_BYTES: usize = 255;

/// Returns the maximum number of bytes of each field because of indexes; `None` for a field that is
/// in no index or is not a text.
///
/// The texts of an index share 2,048 bytes. Texts with a short declared length get that
/// length; the others share the rest equally.
pub fn indexed_bytes(entity: &EntityDesc) -> Vec<Option<usize>> {
    let mut limits = vec![None; entity.fields.len()];
    let shares = indexes(entity).into_iter().flat_map(|index| {
        let texts = index.keys.iter().map(|key| key.field);
        let texts = texts.filter(|field| {
            *field != entity.primary && matches!(entity.fields[*field].kind, Kind::String)
        });
        let mut needs: Vec<(usize, usize)> =
            texts.map(|field| (needed(entity, field), field)).collect();
        needs.sort_unstable();
        let (mut texts_left, mut bytes_left) = (needs.len(), MAX_INDEX_BYTES);
        needs.into_iter().map(move |(need, field)| {
            let share = need.min(bytes_left / texts_left.max(1));
            (texts_left, bytes_left) = (texts_left.saturating_sub(1), bytes_left - share);
            (field, share)
        })
    });
    for (field, share) in shares {
        limits[field] = Some(limits[field].map_or(share, |least: usize| least.min(share)));
    }
    limits
}

/// Returns the limits of [`indexed_bytes`], computed once per entity.
#[doc(hidden)]
pub fn known_bytes(entity: &'static EntityDesc) -> &'static [Option<usize>] {
    type Known = HashMap<usize, &'static [Option<usize>]>;
    static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);
    // The address identifies a static descriptor.
    let key = std::ptr::from_ref(entity).addr();
    if let Some(known) = KNOWN.read().get(&key) {
        return known;
    }
    KNOWN
        .write()
        .entry(key)
        .or_insert_with(|| indexed_bytes(entity).leak())
}

/// Returns the maximum number of bytes of a text that its declaration allows; `usize::MAX` without
/// a limit.
fn needed(entity: &EntityDesc, field: usize) -> usize {
    let rules = entity.fields[field].rules;
    let is_its_key =
        |relation: &Relation| matches!(relation.link, Link::BelongsTo { key, .. } if key == field);
    let is_reference = entity.relations.iter().any(is_its_key)
        || entity.tenant.is_some_and(|tenant| tenant.field == field)
        || entity.scope.iter().any(|scope| scope.field == field);
    let length = rules.length.1.map(|most| (most as usize).saturating_mul(4));
    let listed = rules.one_of.iter().map(|text| text.len()).max();
    let form = matches!(rules.format, Some("uuid")).then_some(36);
    let limits = [length, listed, form, is_reference.then_some(MAX_KEY_BYTES)];
    limits.into_iter().flatten().min().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::indexed_bytes;
    use crate::entity::{
        EntityDesc, FieldDesc, IndexDesc, Kind, Rules, Scope, ScopeFrom, SortDesc, Tenant,
        UniqueDesc,
    };
    use crate::filter::CtxPath;

    static FIELDS: [FieldDesc; 6] = [
        FieldDesc::new("id", "id", "id", Kind::String, false),
        FieldDesc::new("tenant", "tenant", "tenant", Kind::String, true),
        FieldDesc::new("owner", "owner", "owner", Kind::String, false),
        FieldDesc::new("slug", "slug", "slug", Kind::String, false),
        FieldDesc::new("at", "at", "at", Kind::Date, false),
        FieldDesc::new("note", "note", "note", Kind::String, true),
    ];
    const fn key(field: usize) -> SortDesc {
        SortDesc { field, desc: false }
    }
    const PLAIN: EntityDesc = EntityDesc {
        uniques: &[UniqueDesc {
            fields: &[3],
            global: false,
        }],
        indexes: &[IndexDesc {
            global: false,
            fields: &[key(4)],
        }],
        sort: &[key(4)],
        ..EntityDesc::new("Note", "notes", "notes", &FIELDS)
    };

    #[test]
    fn the_texts_of_an_index_share_its_bytes() {
        assert_eq!(
            indexed_bytes(&PLAIN),
            [None, None, None, Some(2048), None, None]
        );
        // A field that names another record needs only the length of a key. The slug gets the rest
        // of the index that it shares with the tenant.
        const OWNED: &[Scope] = &[Scope::new(2, ScopeFrom::Ctx(CtxPath::ActorId))];
        let tenant = Some(Tenant {
            field: 1,
            optional: true,
            anonymous_read: false,
        });
        let guarded = EntityDesc {
            tenant,
            scope: OWNED,
            ..PLAIN
        };
        assert_eq!(
            indexed_bytes(&guarded),
            [None, Some(255), Some(255), Some(2048 - 255), None, None]
        );
    }

    #[test]
    fn index_sizes_of_an_entity_are_computed_once() {
        static NOTE: EntityDesc = PLAIN;
        let (first, second) = (super::known_bytes(&NOTE), super::known_bytes(&NOTE));
        assert!(first == indexed_bytes(&NOTE) && std::ptr::eq(first, second));
    }

    #[test]
    fn a_short_text_field_frees_index_bytes_for_others() {
        static SHORT: Rules = Rules {
            length: (None, Some(20)),
            ..Rules::NONE
        };
        let mut fields = FIELDS;
        fields[1].rules = &SHORT;
        let fields: &'static [FieldDesc] = Box::leak(Box::new(fields));
        const INDEXES: &[IndexDesc] = &[IndexDesc {
            global: false,
            fields: &[key(1), key(2), key(3), key(5)],
        }];
        let several = EntityDesc {
            fields,
            uniques: &[],
            indexes: INDEXES,
            sort: &[],
            ..PLAIN
        };
        assert_eq!(
            indexed_bytes(&several),
            [None, Some(80), Some(656), Some(656), None, Some(656)]
        );
    }
}
