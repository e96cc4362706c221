//! Const assertions: checks of types that a macro knows only by name.

use crate::entity::FieldAt;
use crate::entity::{EntityDesc, Field, FieldType, Flags, Kind, Pagination, TypeAt};
use crate::package::Sentence;
use crate::{ContextDesc, ContextValue};

const fn bit(kind: Kind) -> u16 {
    match kind {
        Kind::String => 1,
        Kind::Boolean => 1 << 1,
        Kind::Integer => 1 << 2,
        Kind::Number => 1 << 3,
        Kind::Date => 1 << 4,
        Kind::Enum(_) => 1 << 5,
        Kind::StringArray => 1 << 6,
        Kind::Json => 1 << 7,
        Kind::Items(_) => 1 << 8,
    }
}

/// Text.
pub const TEXTS: u16 = 1;
/// Whole numbers.
pub const INTEGERS: u16 = 1 << 2;
/// Numbers with a fraction.
pub const NUMBERS: u16 = 1 << 3;
/// Dates.
pub const DATES: u16 = 1 << 4;
/// The kinds of a primary key.
pub const KEYS: u16 = TEXTS | INTEGERS;
/// The kinds that numeric bounds apply to.
pub const NUMERIC: u16 = INTEGERS | NUMBERS;
/// Lists of texts.
pub const TEXT_LISTS: u16 = 1 << 6;
/// All lists.
pub const LISTS: u16 = TEXT_LISTS | 1 << 8;
/// The kinds that can be compared.
pub const SCALARS: u16 = TEXTS | BOOLEANS | NUMERIC | DATES | 1 << 5;
/// `true` and `false`.
pub const BOOLEANS: u16 = 1 << 1;
/// The kinds that a text of the context can be compared with.
pub const NAMES: u16 = TEXTS | 1 << 5;
/// Enums.
pub const ENUMS: u16 = 1 << 5;
/// The kinds that `<` compares.
pub const ORDERED: u16 = TEXTS | NUMERIC | DATES;
/// The kinds that a transition can change.
pub const STATES: u16 = TEXTS | BOOLEANS | INTEGERS | 1 << 5;

/// Fails to compile with `message` unless the kind of the field is one of `kinds`.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect<F: Field>(kinds: u16, message: &'static str) {
    assert!(bit(<F::Ty as FieldType>::KIND) & kinds != 0, "{}", message);
}

/// Fails to compile unless the kind of the field `name` is one of `kinds`. `what` is the part of
/// the operation that requires this; the message begins with it.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn need<E: FieldAt<N>, const N: usize>(kinds: u16, what: &str, name: &str) {
    if bit(kind::<E, N>()) & kinds != 0 {
        return;
    }
    let mut text = Sentence::new();
    text.push("linchpin: ");
    text.push(what);
    text.push(" needs ");
    text.push(match kinds {
        STATES => "an enum, boolean, integer or string field",
        ORDERED => "a string, integer, number or date field",
        SCALARS => "a scalar field",
        TEXT_LISTS => "a list of strings",
        TEXTS => "a string field",
        DATES => "a date field",
        NUMERIC => "a number",
        _ => "another field",
    });
    text.push(", which `");
    text.push(name);
    text.push("` is not");
    text.stop()
}

/// Returns the kind of the field at a position.
pub const fn kind<E: FieldAt<N>, const N: usize>() -> Kind {
    <TypeAt<E, N> as FieldType>::KIND
}

/// Fails to compile with `message` unless the kind of a field is one of `kinds`.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect_kind(kind: Kind, kinds: u16, message: &'static str) {
    assert!(bit(kind) & kinds != 0, "{}", message);
}

/// Fails to compile with `message` unless the items of a list have a required string or integer
/// member with this wire name.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect_key<F: Field>(wire: &str, message: &'static str) {
    let fields = <F::Ty as FieldType>::KIND.item_fields();
    let mut i = 0;
    while i < fields.len() {
        if same(fields[i].wire, wire) && bit(fields[i].kind) & KEYS != 0 && !fields[i].optional {
            return;
        }
        i += 1;
    }
    panic!("{}", message);
}

/// Fails to compile unless a field has the type of an entity's ids. The message is `not_text` if
/// the ids are texts, and `not_integer` if they are integers.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect_relation<F: Field>(
    of: &EntityDesc,
    not_text: &'static str,
    not_integer: &'static str,
) {
    assert_key_type(<F::Ty as FieldType>::KIND, of, not_text, not_integer);
}

#[track_caller]
const fn assert_key_type(
    key: Kind,
    of: &EntityDesc,
    not_text: &'static str,
    not_integer: &'static str,
) {
    if of.poisoned {
        return;
    }
    let (key, id) = (bit(key), bit(of.fields[of.primary].kind));
    assert!(id & TEXTS == 0 || key & TEXTS != 0, "{}", not_text);
    assert!(id & INTEGERS == 0 || key & INTEGERS != 0, "{}", not_integer);
}

#[track_caller]
const fn unknown_field(entity: &EntityDesc, name: &str) -> ! {
    let mut text = Sentence::new();
    text.push("linchpin: unknown field `");
    text.push(name);
    text.push("` on ");
    text.push(entity.name);
    text.push("\nhelp: known: ");
    let mut i = 0;
    while i < entity.fields.len() {
        if i > 0 {
            text.push(", ");
        }
        text.push(entity.fields[i].name);
        i += 1;
    }
    text.stop()
}

/// Fails to compile unless a context value has the type of the field `name`, or of its elements.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect_context<F: Field>(value: ContextDesc, name: &str) {
    let (have, want) = (value.kind, <F::Ty as FieldType>::KIND);
    let fits = match (have, want) {
        // The names of the enums do not matter; the check at start-up ignores them, too.
        (Kind::Enum(have), Kind::Enum(want)) => all_same(have.variants, want.variants),
        (Kind::String, Kind::StringArray) => true,
        _ => bit(have) == bit(want),
    };
    if !fits {
        let mut text = Sentence::new();
        text.push("linchpin: `ctx(");
        text.push(value.name);
        text.push(")` is ");
        text.push(of_type(have));
        text.push(", `");
        text.push(name);
        text.push("` is ");
        text.push(of_type(want));
        text.stop()
    }
}

const fn of_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Enum(desc) => desc.name,
        _ => kind.name(),
    }
}

/// Fails to compile unless a condition can compare this context value.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect_context_type<V: ContextValue>() {
    let fits = bit(V::DESC.kind) & SCALARS != 0 && !<V::Value as FieldType>::OPTIONAL;
    assert!(
        fits,
        "linchpin: a context value is a String, bool, i64, f64, Timestamp or enum, never an `Option`; for a missing value, a plugin provides `None`"
    );
}

/// Fails to compile unless an entity declares an action.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect_action(entity: &EntityDesc, name: &str, message: &'static str) {
    if entity.poisoned {
        return;
    }
    let mut i = 0;
    while i < entity.actions.len() {
        if same(entity.actions[i].name, name) {
            return;
        }
        i += 1;
    }
    panic!("{}", message);
}

/// Fails to compile if the path of a route begins with the path of its entity. The route is mounted
/// below that path anyway.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect_below(entity: &EntityDesc, path: &str) {
    let (own, path) = (entity.path.as_bytes(), path.as_bytes());
    let mut start = 0;
    while start < path.len() && path[start] == b'/' {
        start += 1;
    }
    let (_, below) = path.split_at(start);
    let mut i = 0;
    while i < own.len() && i < below.len() && own[i] == below[i] {
        i += 1;
    }
    let is_own_path = start > 0 && below.len() == own.len();
    if i < own.len() || !(is_own_path || (below.len() > own.len() && below[i] == b'/')) {
        return;
    }
    let mut text = Sentence::new();
    text.push("linchpin: this path is already relative to `/");
    text.push(entity.path);
    text.push("`\nhelp: `path = \"");
    let (_, rest) = below.split_at(if is_own_path { i } else { i + 1 });
    if let Ok(rest) = std::str::from_utf8(rest) {
        text.push(rest);
    }
    text.push("\"`");
    text.stop()
}

/// Fails to compile if a statement on an entity would need more than 8 gates.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect_links(entity: &EntityDesc, message: &'static str) {
    assert!(links(entity) <= 8, "{}", message);
}

/// Returns the number of other records that decide whether a record is visible. In a tree, each
/// ancestor counts with its own gates.
const fn links(entity: &EntityDesc) -> u32 {
    let (mut gates, mut depth, mut i) = (0, 0, 0);
    while i < entity.gates.len() {
        let gate = &entity.gates[i];
        if gate.depth == 0 {
            gates += 1 + links(gate.target);
        } else {
            depth += gate.depth;
        }
        i += 1;
    }
    gates + depth * (1 + gates)
}

/// Fails to compile if records of an entity expire.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect_lasting(entity: &EntityDesc, message: &'static str) {
    assert!(entity.ttl.is_none() || entity.poisoned, "{}", message);
}

/// Fails to compile unless `entity` has a field named `key` with ids of `of`, and the list of
/// `entity` can be restricted to one id: callers can filter by the field, or the field is a path
/// parameter of the list. `messages` are the messages for a field that is not a text, not an
/// integer, not filterable, or not in the responses of the list.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect_many(
    entity: &EntityDesc,
    key: &str,
    of: &EntityDesc,
    messages: [&'static str; 4],
) {
    if entity.poisoned {
        return;
    }
    let [not_text, not_integer, not_filterable, hidden] = messages;
    let mut at = 0;
    while at < entity.fields.len() && !same(entity.fields[at].name, key) {
        at += 1;
    }
    if at == entity.fields.len() {
        unknown_field(entity, key);
    }
    assert_key_type(entity.fields[at].kind, of, not_text, not_integer);
    let mut i = 0;
    while i < entity.scope.len() {
        if entity.scope[i].field == at
            && matches!(entity.scope[i].from, crate::entity::ScopeFrom::Path(_))
        {
            return;
        }
        i += 1;
    }
    assert!(
        entity.fields[at]
            .flags
            .has(Flags::FILTERABLE.or(Flags::PRIMARY)),
        "{}",
        not_filterable
    );
    let [_, list, ..] = entity.routes;
    let output = if list.output.is_some() {
        list.output
    } else {
        entity.defaults.output
    };
    if let Some(names) = output {
        let mut i = 0;
        while i < names.len() && !same(names[i], key) {
            i += 1;
        }
        assert!(i < names.len(), "{}", hidden);
    }
}

/// Fails to compile unless `entity` has a field of this name that can store the number of records
/// of `of`: a required integer with a default, which no client writes. `key` is the field of `of`
/// with the id of the record that stores the counter. `restricted` is true if callers can only
/// write ids of visible records to `key`; otherwise this function also refuses an `entity` with
/// scopes, gates or a `visible` condition, and an `entity` with a tenant if `of` has none.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect_kept(
    entity: &EntityDesc,
    name: &str,
    of: &EntityDesc,
    key: &str,
    restricted: bool,
) {
    if entity.poisoned {
        return;
    }
    let mut at = 0;
    while at < entity.fields.len() && !same(entity.fields[at].name, name) {
        at += 1;
    }
    if at == entity.fields.len() {
        unknown_field(entity, name);
    }
    let field = &entity.fields[at];
    if bit(field.kind) & INTEGERS == 0 || at == entity.primary || field.flags.has(Flags::VERSION) {
        refuse(
            entity,
            name,
            " cannot store a number of records\nhelp: `#[field(read_only, default = 0)]` on an `i64`",
        );
    }
    if field.optional || !field.default.is_some() {
        refuse(
            entity,
            name,
            " must start with a number\nhelp: `i64` with `#[field(read_only, default = 0)]`",
        );
    }
    if !field.flags.has(Flags::READ_ONLY) {
        refuse(
            entity,
            name,
            " is written by a counter, so clients must not write it\nhelp: `#[field(read_only, default = 0)]`",
        );
    }
    if restricted {
        return;
    }
    if entity.tenant.is_some() && of.tenant.is_none() {
        let mut text = Sentence::new();
        text.push("linchpin: `");
        text.push(entity.name);
        text.push("` of counter `");
        text.push(name);
        text.push("` has a tenant, but the counted records have none\nhelp: add `tenant(..)` to the counted entity, or `belongs_to(.., key = ");
        text.push(key);
        text.push(", on_delete = ..)`");
        text.stop()
    }
    if !entity.scope.is_empty() || entity.visible.is_some() || !entity.gates.is_empty() {
        let mut text = Sentence::new();
        text.push("linchpin: counter `");
        text.push(name);
        text.push("` would also count records of callers who cannot see the `");
        text.push(entity.name);
        text.push("`\nhelp: add `belongs_to(.., key = ");
        text.push(key);
        text.push(", on_delete = ..)`: writes then check that the `");
        text.push(entity.name);
        text.push("` is visible");
        text.stop()
    }
}

#[track_caller]
const fn refuse(entity: &EntityDesc, field: &str, what: &str) -> ! {
    let mut text = Sentence::new();
    text.push("linchpin: `");
    text.push(field);
    text.push("` of `");
    text.push(entity.name);
    text.push("`");
    text.push(what);
    text.stop()
}

const fn all_same(a: &[&str], b: &[&str]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && same(a[i], b[i]) {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// Whether two texts are equal, in const evaluation.
pub const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// Fails to compile unless `1 <= default_limit <= max_limit <= 10000`.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn check_pagination(limits: &Pagination) {
    assert!(
        limits.default_limit >= 1,
        "linchpin: default_limit must be at least 1"
    );
    assert!(
        limits.default_limit <= limits.max_limit,
        "linchpin: default_limit exceeds max_limit"
    );
    assert!(
        limits.max_limit <= 10_000,
        "linchpin: max_limit exceeds 10000"
    );
}

/// Whether these are different variants of a field's enum and, if `all` is true, all of its
/// variants.
#[must_use]
pub const fn named<F: Field>(variants: &[usize], all: bool) -> bool {
    let Kind::Enum(desc) = <F::Ty as FieldType>::KIND else {
        return false;
    };
    let mut i = 0;
    while i < variants.len() {
        let mut earlier = 0;
        while earlier < i {
            if variants[earlier] == variants[i] {
                return false;
            }
            earlier += 1;
        }
        i += 1;
    }
    !all || variants.len() == desc.variants.len()
}

/// Fails to compile with `message` if all of the conditions are true.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn refuse_if(conditions: &[bool], message: &'static str) {
    let mut i = 0;
    while i < conditions.len() {
        if !conditions[i] {
            return;
        }
        i += 1;
    }
    panic!("{}", message);
}
