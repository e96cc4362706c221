//! Computes the indexes of a table: the declared ones, and those that the framework adds.
//!
//! Each statement of a caller fixes the tenant and the scopes of the list, and excludes deleted
//! records. So an index begins with these fields and contains only live records. A page then reads
//! one range of one index. Records of other tenants and deleted records do not slow it down.

use crate::entity::{EntityDesc, Link, SoftDelete, SortDesc, UniqueDesc};
use crate::filter::{Filter, Op, Operand, Source};
use crate::{Timestamp, Value};

/// An index of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredIndex {
    /// Whether the database refuses a second equal entry. An entry with a null equals no other.
    pub unique: bool,
    /// The indexed fields, in order.
    pub keys: Vec<SortDesc>,
    /// The number of leading keys in the name of the index. The other keys break ties.
    pub named: usize,
    /// Whether the index contains only live records, see [`live`].
    pub live: bool,
    /// If set, the index contains only records with null in this field.
    pub null: Option<usize>,
}

impl StoredIndex {
    /// Returns the name in the database: `ix_posts_title`, `ux_posts_slug`.
    ///
    /// If an earlier index has the same fields, the name marks descending fields
    /// (`ix_posts_title_desc_at`). If that name is taken too, it marks the direction of each field,
    /// and then it ends with a number.
    pub fn name(&self, entity: &EntityDesc) -> String {
        // Each unique index has other fields, so its name needs no mark.
        if self.unique {
            return shortened(self.named_by(entity, ["", ""]));
        }
        let mut taken = Vec::new();
        for index in indexes(entity).iter().filter(|index| !index.unique) {
            let by_direction = [["", ""], ["", "_desc"], ["_asc", "_desc"]]
                .into_iter()
                .map(|marks| index.named_by(entity, marks));
            let by_number = (2..).map(|n| format!("{}_{n}", index.named_by(entity, ["", ""])));
            let free = by_direction
                .chain(by_number)
                .map(shortened)
                .find(|name| !taken.contains(name));
            match free {
                Some(name) if index == self => return name,
                free => taken.extend(free),
            }
        }
        shortened(self.named_by(entity, ["", ""]))
    }

    /// Returns a name of the fields. `marks` has the suffix of ascending fields, then of descending
    /// fields.
    fn named_by(&self, entity: &EntityDesc, marks: [&str; 2]) -> String {
        let mut name = format!(
            "{}_{}",
            if self.unique { "ux" } else { "ix" },
            entity.storage_name
        );
        for key in &self.keys[..self.named] {
            name.push('_');
            name.push_str(entity.fields[key.field].column);
            name.push_str(marks[usize::from(key.desc)]);
        }
        name
    }
}

/// Shortens a name to 63 bytes, the limit of `PostgreSQL`. A shortened name ends with a hash.
pub fn shortened(name: String) -> String {
    if name.len() <= 63 {
        return name;
    }
    // FNV-1a: stable across builds and machines.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    });
    let cut = (0..=54)
        .rev()
        .find(|i| name.is_char_boundary(*i))
        .unwrap_or(0);
    format!("{}_{hash:08x}", &name[..cut])
}

/// Returns all indexes of an entity except the primary key. Unique indexes come first, in the
/// order of declaration.
pub fn indexes(entity: &EntityDesc) -> Vec<StoredIndex> {
    let mut all = uniques(entity);
    let live = entity.soft_delete.is_some();
    let by_key = [SortDesc {
        field: entity.primary,
        desc: false,
    }];
    let sort: &[SortDesc] = if entity.sort.is_empty() {
        &by_key
    } else {
        entity.sort
    };
    let prefix = prefix(entity);
    let keyed_by = |prefix: &[usize], declared: &[SortDesc]| {
        let mut keys: Vec<SortDesc> = prefix
            .iter()
            .map(|field| SortDesc {
                field: *field,
                desc: false,
            })
            .collect();
        keys.extend(declared.iter().filter(|k| !prefix.contains(&k.field)));
        let named = keys.len();
        // The primary key breaks ties, in the direction of the last sort field.
        if !keys.iter().any(|k| k.field == entity.primary) {
            let desc = declared.last().is_some_and(|k| k.desc);
            keys.push(SortDesc {
                field: entity.primary,
                desc,
            });
        }
        StoredIndex {
            unique: false,
            keys,
            named,
            live,
            null: None,
        }
    };
    let keyed = |declared: &[SortDesc]| keyed_by(&prefix, declared);
    for declared in entity.indexes {
        let before = if declared.global { &[] } else { &prefix[..] };
        let index = keyed_by(before, declared.fields);
        // The tenant prefix can make two indexes equal, and a database can read an index backwards.
        // So an index is left out if an earlier index can replace it.
        if !all.iter().any(|other| serves(other, &index, before)) {
            all.push(index);
        }
    }
    // The index for the list in its default order. With a prefix or soft delete, the list cannot
    // use the primary key instead.
    let list = (live || !prefix.is_empty()).then(|| keyed(sort));
    // The indexes for the related records of a record, in their default order. `include` uses them,
    // and filters on the key of a relation. The second index is for `on_delete`, which ignores
    // tenant and scopes. Each index is stored with the key field of its relation: statements fix
    // the value of this field in addition to the prefix.
    let mut related = Vec::new();
    for relation in entity.relations {
        let Link::BelongsTo { key, .. } = relation.link else {
            continue;
        };
        let alone = |unique: &UniqueDesc| unique.fields == [key];
        if key == entity.primary || entity.uniques.iter().any(alone) {
            continue;
        }
        let ascending = SortDesc {
            field: key,
            desc: false,
        };
        let others = sort.iter().filter(|k| k.field != key).copied();
        related.push((
            keyed(&std::iter::once(ascending).chain(others).collect::<Vec<_>>()),
            key,
        ));
        if relation.enforced().is_some() && !prefix.is_empty() && !prefix.contains(&key) {
            let keys = vec![
                ascending,
                SortDesc {
                    field: entity.primary,
                    desc: false,
                },
            ];
            related.push((
                StoredIndex {
                    unique: false,
                    keys,
                    named: 1,
                    live,
                    null: None,
                },
                key,
            ));
        }
    }
    // A counter needs an index on its key field.
    let begins = |index: &StoredIndex, field: usize| {
        index.keys.first().is_some_and(|key| key.field == field)
    };
    for field in entity
        .summaries
        .iter()
        .map(|summary| summary.by)
        .filter(|field| *field != entity.primary)
    {
        if !all
            .iter()
            .chain(related.iter().map(|(index, _)| index))
            .any(|index| begins(index, field))
        {
            let keys = [field, entity.primary].map(|field| SortDesc { field, desc: false });
            related.push((
                StoredIndex {
                    unique: false,
                    keys: keys.to_vec(),
                    named: 1,
                    live,
                    null: None,
                },
                field,
            ));
        }
    }
    // The sweeper of expired records reads this index.
    let expiry = entity.ttl.map(|ttl| {
        let keys = [ttl.field, entity.primary].map(|field| SortDesc { field, desc: false });
        StoredIndex {
            unique: false,
            keys: keys.to_vec(),
            named: 1,
            live: false,
            null: None,
        }
    });
    // No field has this position: the list and the sweeper fix no key.
    let no_key = usize::MAX;
    for (index, key) in list
        .into_iter()
        .chain(expiry)
        .map(|index| (index, no_key))
        .chain(related)
    {
        let fixed: Vec<usize> = prefix.iter().copied().chain([key]).collect();
        if !all.iter().any(|other| serves(other, &index, &fixed)) {
            all.push(index);
        }
    }
    all
}

fn uniques(entity: &EntityDesc) -> Vec<StoredIndex> {
    let live = entity.soft_delete.is_some();
    let mut all = Vec::new();
    for unique in entity.uniques {
        let own = || {
            unique.fields.iter().map(|field| SortDesc {
                field: *field,
                desc: false,
            })
        };
        let index = |keys: Vec<SortDesc>, null| StoredIndex {
            unique: true,
            named: keys.len(),
            keys,
            live,
            null,
        };
        match entity.tenant {
            Some(tenant) if !unique.global && !unique.fields.contains(&tenant.field) => {
                let keys = std::iter::once(SortDesc {
                    field: tenant.field,
                    desc: false,
                })
                .chain(own())
                .collect();
                all.push(index(keys, None));
                if entity.fields[tenant.field].optional {
                    // Records without a tenant must be unique too. Nulls in an index are never
                    // equal, so they need an index without the tenant field.
                    all.push(index(own().collect(), Some(tenant.field)));
                }
            }
            _ => all.push(index(own().collect(), None)),
        }
    }
    all
}

/// Returns the unique indexes that an upsert on these fields relies on. For the primary key the
/// list is empty.
pub fn upsert_indexes(entity: &EntityDesc, fields: &[usize]) -> Vec<StoredIndex> {
    let tenant = entity.tenant.map(|tenant| tenant.field);
    let has_these_fields = |index: &StoredIndex| {
        fields
            .iter()
            .all(|f| index.keys.iter().any(|k| k.field == *f))
            && index
                .keys
                .iter()
                .all(|k| fields.contains(&k.field) || Some(k.field) == tenant)
    };
    if fields == [entity.primary] {
        Vec::new()
    } else {
        uniques(entity)
            .into_iter()
            .filter(has_these_fields)
            .collect()
    }
}

/// Builds the condition that finds the existing record of an upsert.
///
/// It does not check whether the caller may see the record. The argument of a field has the index
/// of the field.
pub fn upsert_match(entity: &EntityDesc, fields: &[usize]) -> Filter {
    let eq = |field: &usize| {
        let source = Source::Arg {
            index: *field,
            nullable: entity.fields[*field].optional,
        };
        Filter::cond(*field, Op::Eq, Operand::One(source))
    };
    let mut all: Vec<Filter> = fields.iter().map(eq).collect();
    if fields != [entity.primary] {
        // A unique index contains only live records. It includes the tenant unless it is global.
        let global = entity.uniques.iter().any(|unique| {
            unique.global && unique.fields.iter().all(|field| fields.contains(field))
        });
        all.extend(
            entity
                .tenant
                .filter(|tenant| !global && !fields.contains(&tenant.field))
                .map(|tenant| eq(&tenant.field)),
        );
        all.extend(live(entity));
    }
    Filter::All(all)
}

/// Returns the fields that each list fixes by equality: the tenant, then the scopes that apply to
/// lists.
fn prefix(entity: &EntityDesc) -> Vec<usize> {
    let scopes = entity
        .scope
        .iter()
        .filter(|scope| scope.holds_on("list"))
        .map(|scope| scope.field);
    entity
        .tenant
        .map(|tenant| tenant.field)
        .into_iter()
        .chain(scopes)
        .collect()
}

/// Whether the index `one` replaces the index `other`: both have the same keys, in the same or in
/// the reverse directions. The direction of a field in `fixed` does not matter, because statements
/// fix its value.
fn serves(one: &StoredIndex, other: &StoredIndex, fixed: &[usize]) -> bool {
    let fields = |index: &StoredIndex| index.keys.iter().map(|k| k.field).collect::<Vec<_>>();
    let pairs = one
        .keys
        .iter()
        .zip(&other.keys)
        .filter(|(a, _)| !fixed.contains(&a.field));
    let mut reversed = pairs.map(|(a, b)| a.desc != b.desc);
    let first = reversed.next();
    let all_equal = reversed.all(|is_reversed| Some(is_reversed) == first);
    !one.unique
        && one.live == other.live
        && one.null == other.null
        && fields(one) == fields(other)
        && all_equal
}

/// Returns the condition of live records; `None` if the entity has no soft delete.
pub fn live(entity: &EntityDesc) -> Option<Filter> {
    let (field, op, value) = match entity.soft_delete? {
        SoftDelete::At(field) => (field, Op::Eq, Value::Null),
        SoftDelete::Is(field, value) => (field, Op::Ne, value()),
    };
    Some(Filter::cond(field, op, Operand::One(Source::Value(value))))
}

/// Returns the condition of deleted records; `None` if the entity has no soft delete.
pub fn deleted(entity: &EntityDesc) -> Option<Filter> {
    let (field, op, value) = match entity.soft_delete? {
        SoftDelete::At(field) => (field, Op::Ne, Value::Null),
        SoftDelete::Is(field, value) => (field, Op::Eq, value()),
    };
    Some(Filter::cond(field, op, Operand::One(Source::Value(value))))
}

/// Whether a condition is the one that [`live`] returns for the entity.
pub fn is_live(entity: &EntityDesc, condition: &Filter) -> bool {
    live(entity).is_some_and(|live| live == *condition)
}

/// Returns the condition of records that have not expired; `None` if the entity has no expiry. The
/// argument with index `now` has the current time.
pub fn unexpired(entity: &EntityDesc, now: usize) -> Option<Filter> {
    let ttl = entity.ttl?;
    let later = Filter::cond(
        ttl.field,
        Op::Gt,
        Operand::One(Source::Arg {
            index: now,
            nullable: false,
        }),
    );
    if !entity.fields[ttl.field].optional {
        return Some(later);
    }
    let never = Filter::cond(ttl.field, Op::Eq, Operand::One(Source::Value(Value::Null)));
    Some(Filter::Any(vec![never, later]))
}

/// Whether a condition is the one that [`unexpired`] returns.
///
/// The sweeper removes expired records within a minute, so indexes ignore this condition.
pub fn is_unexpired(entity: &EntityDesc, condition: &Filter) -> bool {
    let slot = match condition {
        Filter::Cond {
            value: Operand::One(Source::Arg { index, .. }),
            ..
        } => Some(*index),
        Filter::Any(list) => list.iter().find_map(|f| match f {
            Filter::Cond {
                value: Operand::One(Source::Arg { index, .. }),
                ..
            } => Some(*index),
            _ => None,
        }),
        _ => None,
    };
    slot.and_then(|slot| unexpired(entity, slot))
        .is_some_and(|unexpired| unexpired == *condition)
}

/// Whether a stored record is live.
pub fn record_is_live(entity: &EntityDesc, record: &[Value]) -> bool {
    match entity.soft_delete {
        None => true,
        Some(SoftDelete::At(field)) => record[field].is_null(),
        Some(SoftDelete::Is(field, value)) => record[field] != value(),
    }
}

/// Returns the expiry field and its value for a record that is written at `now`.
pub fn expiry(entity: &EntityDesc, now: Timestamp) -> Option<(usize, Value)> {
    let ttl = entity.ttl?;
    let after = i64::try_from(ttl.after?).unwrap_or(i64::MAX);
    // Stores cannot store years after 9999, so we use the last instant of that year.
    let millis = now.millis().saturating_add(after).min(253_402_300_799_999);
    Some((ttl.field, Value::Date(Timestamp::from_millis(millis))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::{
        FieldDesc, IndexDesc, Kind, OnDelete, Relation, Scope, ScopeFrom, Tenant, Ttl, UniqueDesc,
    };
    use crate::filter::CtxPath;

    static FIELDS: [FieldDesc; 6] = [
        FieldDesc::new("id", "id", "id", Kind::String, false),
        FieldDesc::new("tenant", "tenant", "tenant", Kind::String, true),
        FieldDesc::new("owner", "owner", "owner", Kind::String, false),
        FieldDesc::new("slug", "slug", "slug", Kind::String, false),
        FieldDesc::new("at", "at", "at", Kind::Date, false),
        FieldDesc::new("gone", "gone", "gone", Kind::Date, true),
    ];
    const PLAIN: EntityDesc = EntityDesc {
        uniques: &[
            UniqueDesc {
                fields: &[3],
                global: false,
            },
            UniqueDesc {
                fields: &[4],
                global: true,
            },
        ],
        indexes: &[IndexDesc {
            global: false,
            fields: &[SortDesc {
                field: 4,
                desc: true,
            }],
        }],
        sort: &[SortDesc {
            field: 4,
            desc: true,
        }],
        ..EntityDesc::new("Note", "notes", "notes", &FIELDS)
    };

    const OWNED: &[Scope] = &[Scope::new(2, ScopeFrom::Ctx(CtxPath::ActorId))];

    /// Each index of the entity as `(unique, fields of the keys, live, null)`.
    fn shape(entity: &EntityDesc) -> Vec<(bool, Vec<usize>, bool, Option<usize>)> {
        indexes(entity)
            .iter()
            .map(|i| {
                (
                    i.unique,
                    i.keys.iter().map(|k| k.field).collect(),
                    i.live,
                    i.null,
                )
            })
            .collect()
    }

    /// The same fields in other directions need another index with another name. Reversing all
    /// directions needs no other index.
    #[test]
    fn indexes_differ_by_sort_direction() {
        const fn key(field: usize, desc: bool) -> SortDesc {
            SortDesc { field, desc }
        }
        const NOTE: EntityDesc = EntityDesc {
            indexes: &[
                IndexDesc {
                    global: false,
                    fields: &[key(4, true), key(3, true)],
                },
                IndexDesc {
                    global: false,
                    fields: &[key(4, true), key(3, false)],
                },
                IndexDesc {
                    global: false,
                    fields: &[key(4, false), key(3, true)],
                },
                IndexDesc {
                    global: false,
                    fields: &[key(4, false), key(3, false)],
                },
                IndexDesc {
                    global: false,
                    fields: &[key(2, false)],
                },
                IndexDesc {
                    global: false,
                    fields: &[key(2, true)],
                },
            ],
            ..EntityDesc::new("Note", "notes", "notes", &FIELDS)
        };
        let names: Vec<String> = indexes(&NOTE)
            .iter()
            .map(|index| index.name(&NOTE))
            .collect();
        assert_eq!(
            names,
            [
                "ix_notes_at_slug",
                "ix_notes_at_desc_slug",
                "ix_notes_owner"
            ]
        );
        // The same fields, but the first index is the descending one.
        const REVERSED: EntityDesc = EntityDesc {
            indexes: &[
                IndexDesc {
                    global: false,
                    fields: &[key(4, true), key(3, false)],
                },
                IndexDesc {
                    global: false,
                    fields: &[key(4, false), key(3, false)],
                },
            ],
            ..NOTE
        };
        let names: Vec<String> = indexes(&REVERSED)
            .iter()
            .map(|index| index.name(&REVERSED))
            .collect();
        assert_eq!(names, ["ix_notes_at_slug", "ix_notes_at_asc_slug_asc"]);
        // One index of live records for the lists, and one of all records for the sweeper.
        const EXPIRING: EntityDesc = EntityDesc {
            indexes: &[IndexDesc {
                global: false,
                fields: &[key(4, false)],
            }],
            soft_delete: Some(SoftDelete::At(5)),
            ttl: Some(Ttl {
                field: 4,
                after: None,
            }),
            ..NOTE
        };
        let names: Vec<String> = indexes(&EXPIRING)
            .iter()
            .map(|index| index.name(&EXPIRING))
            .collect();
        assert_eq!(names, ["ix_notes_at", "ix_notes_id", "ix_notes_at_asc"]);
    }

    /// An index for statements over all tenants begins with its own first field.
    #[test]
    fn a_global_index_has_no_prefix() {
        const AT: SortDesc = SortDesc {
            field: 4,
            desc: false,
        };
        const PER_TENANT: IndexDesc = IndexDesc {
            global: false,
            fields: &[AT],
        };
        const NOTE: EntityDesc = EntityDesc {
            indexes: &[PER_TENANT, PER_TENANT.global()],
            tenant: Some(Tenant {
                field: 1,
                optional: true,
                anonymous_read: false,
            }),
            ..EntityDesc::new("Note", "notes", "notes", &FIELDS)
        };
        let names: Vec<String> = indexes(&NOTE)
            .iter()
            .map(|index| index.name(&NOTE))
            .collect();
        assert_eq!(
            names,
            ["ix_notes_tenant_at", "ix_notes_at", "ix_notes_tenant_id"]
        );
    }

    #[test]
    fn long_names_are_shortened_with_a_hash() {
        let long = format!("ix_{}", "é".repeat(40));
        let short = shortened(long.clone());
        assert!(short.len() <= 63 && short.starts_with("ix_é"), "{short}");
        assert_ne!(short, shortened(format!("{long}x")));
        assert_eq!(shortened("ix_a".to_owned()), "ix_a");
    }

    #[test]
    fn a_plain_entity_has_only_the_declared_indexes() {
        assert_eq!(
            shape(&PLAIN),
            [
                (true, vec![3], false, None),
                (true, vec![4], false, None),
                (false, vec![4, 0], false, None)
            ]
        );
    }

    #[test]
    fn indexes_start_with_the_tenant_and_scopes_and_contain_live_records() {
        let guarded = EntityDesc {
            tenant: Some(Tenant {
                field: 1,
                optional: true,
                anonymous_read: false,
            }),
            scope: OWNED,
            soft_delete: Some(SoftDelete::At(5)),
            ..PLAIN
        };
        let expected = [
            (true, vec![1, 3], true, None),
            (true, vec![3], true, Some(1)),
            // Unique across tenants.
            (true, vec![4], true, None),
            // The default order equals the declared index, so one index is enough.
            (false, vec![1, 2, 4, 0], true, None),
        ];
        assert_eq!(shape(&guarded), expected);
        // The direction does not matter either.
        let sorted_ascending = EntityDesc {
            sort: &[SortDesc {
                field: 4,
                desc: false,
            }],
            ..guarded
        };
        assert_eq!(shape(&sorted_ascending), expected);
    }

    #[test]
    fn lists_of_a_soft_delete_entity_have_indexes_without_deleted_records() {
        let marked = EntityDesc {
            soft_delete: Some(SoftDelete::At(5)),
            sort: &[SortDesc {
                field: 0,
                desc: false,
            }],
            uniques: &[],
            ..PLAIN
        };
        assert_eq!(
            shape(&marked),
            [
                (false, vec![4, 0], true, None),
                (false, vec![0], true, None)
            ]
        );
    }

    #[test]
    fn relation_keys_get_an_index_that_ends_with_the_default_sort() {
        static OTHER: EntityDesc = EntityDesc::new("Other", "others", "others", &FIELDS);
        const KEY: Relation = Relation::belongs_to("owner", "owner", || &OTHER, 2);
        let index = |keys: &[usize]| (false, keys.to_vec(), false, None);
        let bare = EntityDesc {
            indexes: &[],
            uniques: &[],
            relations: &[KEY],
            ..PLAIN
        };
        assert_eq!(shape(&bare), [index(&[2, 4, 0])]);
        // A declared index replaces this index, in either direction; a unique index replaces it,
        // too.
        let declared = [
            SortDesc {
                field: 2,
                desc: true,
            },
            SortDesc {
                field: 4,
                desc: false,
            },
        ];
        let declared = EntityDesc {
            indexes: Box::leak(Box::new([IndexDesc {
                global: false,
                fields: Box::leak(Box::new(declared)),
            }])),
            ..bare
        };
        assert_eq!(shape(&declared), [index(&[2, 4, 0])]);
        let alone = EntityDesc {
            uniques: &[UniqueDesc {
                fields: &[2],
                global: false,
            }],
            ..bare
        };
        assert_eq!(shape(&alone), [(true, vec![2], false, None)]);
        // A list fixes the tenant; the effects of a delete fix only the key.
        const CASCADING: Relation = KEY.on_delete(OnDelete::Cascade);
        let tenant = Some(Tenant {
            field: 1,
            optional: true,
            anonymous_read: false,
        });
        let cascading = EntityDesc {
            tenant,
            relations: &[CASCADING],
            ..bare
        };
        assert_eq!(
            shape(&cascading),
            [index(&[1, 4, 0]), index(&[1, 2, 4, 0]), index(&[2, 0])]
        );
    }

    #[test]
    fn the_conditions_of_live_and_unexpired_records_are_recognised() {
        let expiring = EntityDesc {
            ttl: Some(Ttl {
                field: 5,
                after: None,
            }),
            ..PLAIN
        };
        let condition = unexpired(&expiring, 7).unwrap_or(Filter::TRUE);
        assert!(is_unexpired(&expiring, &condition) && !is_unexpired(&PLAIN, &condition));
        assert!(!is_unexpired(&expiring, &Filter::eq_arg(5, 7)));
        assert_eq!(
            shape(&expiring).last(),
            Some(&(false, vec![5, 0], false, None))
        );
    }
}
