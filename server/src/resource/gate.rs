//! Visibility by conditions and through other records: `visible(..)` and `gate(..)`.
//!
//! Both are conditions of the [restriction](super::restriction), like all others. They are built
//! with the context values that the declarations name. These values are then bound to arguments of
//! a statement, or replaced by literal values. A comparison with a value that the caller lacks is
//! false.

use crate::entity::{EntityDesc, Gate, Kind, ScopeFrom};
use crate::filter::{CtxPath, Filter, Linked, Op, Operand, Source};
use crate::store::layout;
use crate::validate::MAX_INTEGER;
use crate::{Cx, Value};

use super::restriction::Reach;

/// The maximum length of a chain of gates. The macros check it at compile time; this limit protects
/// against descriptors that were written by hand.
const MAX_LINKS: u32 = 8;

/// The values of a call that the conditions and gates of an entity need.
pub(super) struct CallValues {
    /// Values of the context, and the fields that they are compared with.
    wants: Vec<(CtxPath, Kind)>,
    /// Whether a gate leads to an entity with tenants.
    pub(super) tenants: bool,
    /// Whether the call's instant is needed: first for a call on behalf of a caller, then for a
    /// call of the application itself.
    now: [bool; 2],
}

/// The caller on whose behalf records are read.
#[derive(Clone, Copy)]
pub(super) struct Viewer {
    pub(super) reach: Reach,
    /// Whether the route only reads. On such routes an entity may let anonymous callers see records
    /// without a tenant.
    pub(super) reads: bool,
}

impl CallValues {
    /// `None` for an entity without `visible(..)` and gates.
    pub(super) fn of(desc: &'static EntityDesc) -> Option<Self> {
        if desc.visible.is_none() && desc.gates.is_empty() {
            return None;
        }
        let (mut wants, mut now) = (Vec::new(), [false; 2]);
        for (reach, now) in [Reach::Caller, Reach::System].into_iter().zip(&mut now) {
            let viewer = Viewer {
                reach,
                reads: false,
            };
            let filter = bind(conditions(desc, viewer), desc, &mut |path, kind| {
                if !wants.iter().any(|want| is_same(want, path, kind)) {
                    wants.push((path, kind));
                }
                Source::Ctx(path)
            });
            filter.sources(&mut |source| *now |= *source == Source::Now);
        }
        let tenants = desc.gates.iter().any(|gate| has_tenants(gate, MAX_LINKS));
        Some(Self {
            wants,
            tenants,
            now,
        })
    }

    /// The number of context values that the conditions need.
    pub(super) fn wants(&self) -> usize {
        self.wants.len()
    }

    /// The context values as arguments; null for each value that the caller lacks.
    pub(super) fn values(&self, value: impl Fn(CtxPath) -> Value) -> impl Iterator<Item = Value> {
        self.wants
            .iter()
            .map(move |(path, kind)| fitting(*kind, value(*path)))
    }

    /// Whether a statement needs the call's instant.
    pub(super) fn needs_now(&self, reach: Reach) -> bool {
        match reach {
            Reach::Caller | Reach::NoTenant | Reach::Anonymous => self.now[0],
            Reach::System | Reach::Within => self.now[1],
            Reach::Deleted | Reach::Effect => false,
        }
    }

    /// The conditions. Their values are arguments, from position `first` on; the instant of the
    /// call is the argument at position `now`.
    pub(super) fn condition(
        &self,
        desc: &'static EntityDesc,
        viewer: Viewer,
        first: usize,
        now: Option<usize>,
    ) -> Filter {
        let bound = bind(conditions(desc, viewer), desc, &mut |path, kind| {
            let at = self
                .wants
                .iter()
                .position(|want| is_same(want, path, kind))
                .unwrap_or_default();
            Source::Arg {
                index: first + at,
                nullable: false,
            }
        });
        bound.map_sources(&mut |_, _, source| match (source, now) {
            (Source::Now, Some(index)) => Source::Arg {
                index,
                nullable: false,
            },
            (source, _) => source,
        })
    }
}

/// The context values that the visibility of an entity's records depends on, except those of its
/// own tenant and scopes.
pub(crate) fn context(desc: &'static EntityDesc) -> Vec<CtxPath> {
    CallValues::of(desc).map_or_else(Vec::new, |call_values| {
        call_values.wants.iter().map(|(path, _)| *path).collect()
    })
}

/// The conditions on a record that a new record refers to, in addition to visibility.
#[derive(Default)]
pub(super) struct Admission {
    wants: Vec<(CtxPath, Kind)>,
    /// Whether the call's instant is needed.
    now: bool,
}

impl Admission {
    /// The conditions of a gate: the caller may perform the gate's action on the record, and in a
    /// tree the new record is not too deep. The values of the condition are arguments from `first`
    /// on.
    pub(super) fn of(gate: &Gate, viewer: Viewer, first: usize) -> (Self, Filter) {
        let mut all = action(gate, viewer);
        if gate.depth > 0 {
            all = all.and(max_ancestors(gate, gate.depth - 1));
        }
        let (mut wants, mut now) = (Vec::new(), false);
        let bound = bind(all, gate.target, &mut |path, kind| {
            let known = wants.iter().position(|want| is_same(want, path, kind));
            let at = known.unwrap_or_else(|| {
                wants.push((path, kind));
                wants.len() - 1
            });
            Source::Arg {
                index: first + at,
                nullable: false,
            }
        });
        let instant = Source::Arg {
            index: first + wants.len(),
            nullable: false,
        };
        let filter = bound.map_sources(&mut |_, _, source| match source {
            Source::Now => {
                now = true;
                instant.clone()
            }
            source => source,
        });
        (Self { wants, now }, filter)
    }

    /// The values for a call.
    pub(super) fn arguments(&self, cx: &Cx, args: &mut Vec<Value>) {
        args.extend(
            self.wants
                .iter()
                .map(|(path, kind)| fitting(*kind, cx.value(*path))),
        );
        args.extend(self.now.then(|| Value::Date(cx.now())));
    }
}

/// The condition that a record of a tree has at most `depth` ancestors.
fn max_ancestors(gate: &Gate, depth: u32) -> Filter {
    let root = null(gate.field);
    if depth == 0 {
        return root;
    }
    root.or(linked(gate, max_ancestors(gate, depth - 1)))
}

/// Whether the target of a gate has tenants, or an entity to which its own gates lead.
fn has_tenants(gate: &Gate, links_left: u32) -> bool {
    let deeper =
        |other: &Gate| links_left > 0 && other.depth == 0 && has_tenants(other, links_left - 1);
    gate.target.tenant.is_some() || gate.target.gates.iter().any(deeper)
}

fn is_same((path, kind): &(CtxPath, Kind), other: CtxPath, of: Kind) -> bool {
    *path == other && std::mem::discriminant(kind) == std::mem::discriminant(&of)
}

fn null(field: usize) -> Filter {
    Filter::cond(field, Op::Eq, Operand::One(Source::Value(Value::Null)))
}

fn linked(gate: &Gate, filter: Filter) -> Filter {
    Filter::Linked(Box::new(Linked {
        field: gate.field,
        of: gate.target,
        at: gate.target.primary,
        filter,
    }))
}

/// A condition that no record satisfies.
fn never() -> Filter {
    Filter::Any(Vec::new())
}

/// The visibility conditions of a record, without its own tenant, scopes, deletion and expiry.
fn conditions(desc: &'static EntityDesc, viewer: Viewer) -> Filter {
    if matches!(viewer.reach, Reach::Deleted | Reach::Effect) {
        return Filter::TRUE;
    }
    visible_and_gates(desc, viewer, None, MAX_LINKS)
}

fn visible_and_gates(
    desc: &'static EntityDesc,
    viewer: Viewer,
    except: Option<usize>,
    links_left: u32,
) -> Filter {
    let declared = desc.visible.as_ref().filter(|_| viewer.reach.is_caller());
    let mut all = declared.map_or(Filter::TRUE, |spec| Filter::TRUE.and(spec.into()));
    for (n, gate) in desc
        .gates
        .iter()
        .enumerate()
        .filter(|(n, _)| Some(*n) != except)
    {
        all = all.and(if gate.depth > 0 {
            gate_in_tree(desc, n, viewer, gate.depth.min(links_left))
        } else {
            gate_to_entity(gate, viewer, links_left)
        });
    }
    all
}

/// The condition of a gate to another entity.
fn gate_to_entity(gate: &Gate, viewer: Viewer, links_left: u32) -> Filter {
    if links_left == 0 {
        return never();
    }
    linked(
        gate,
        visible_by_get(gate.target, viewer, None, links_left - 1).and(action(gate, viewer)),
    )
}

/// The condition of a gate within a tree: the record has no parent, or a parent that is visible by
/// the same rule. A record with more ancestors than `depth`, or one that is its own ancestor, is
/// visible to no caller.
fn gate_in_tree(desc: &'static EntityDesc, gate: usize, viewer: Viewer, depth: u32) -> Filter {
    let declared = &desc.gates[gate];
    let root = null(declared.field);
    if depth == 0 {
        return root;
    }
    let above = visible_by_get(desc, viewer, Some(gate), depth - 1)
        .and(action(declared, viewer))
        .and(gate_in_tree(desc, gate, viewer, depth - 1));
    root.or(linked(declared, above))
}

/// The condition of the action that a gate requires, in addition to visibility.
fn action(gate: &Gate, viewer: Viewer) -> Filter {
    let Some(name) = gate.action.filter(|_| viewer.reach.is_caller()) else {
        return Filter::TRUE;
    };
    let declared = gate
        .target
        .actions
        .iter()
        .find(|action| action.name == name);
    declared.map_or_else(never, |action| Filter::TRUE.and((&action.filter).into()))
}

/// The condition on a record under which `get` of its entity returns it. The gate at `except` is
/// left out.
fn visible_by_get(
    desc: &'static EntityDesc,
    viewer: Viewer,
    except: Option<usize>,
    links_left: u32,
) -> Filter {
    let mut all = Filter::TRUE;
    let eq =
        |field: usize, path: CtxPath| Filter::cond(field, Op::Eq, Operand::One(Source::Ctx(path)));
    if let Some(tenant) = desc.tenant {
        let without = match viewer.reach {
            Reach::NoTenant => tenant.optional,
            Reach::Anonymous => viewer.reads && tenant.anonymous_read,
            Reach::Caller | Reach::System | Reach::Within | Reach::Deleted | Reach::Effect => false,
        };
        all = match viewer.reach {
            Reach::Caller => all.and(eq(tenant.field, CtxPath::TenantId)),
            Reach::NoTenant | Reach::Anonymous if without => all.and(null(tenant.field)),
            Reach::NoTenant | Reach::Anonymous => all.and(never()),
            Reach::System | Reach::Within | Reach::Deleted | Reach::Effect => all,
        };
    }
    for scope in desc
        .scope
        .iter()
        .filter(|scope| viewer.reach.is_caller() && scope.holds_on("get"))
    {
        // Path parameters locate a record; they do not restrict its visibility.
        if let ScopeFrom::Ctx(path) = scope.from {
            all = all.and(eq(scope.field, path));
        }
    }
    let all = layout::live(desc).into_iter().fold(all, Filter::and);
    let unexpired = layout::unexpired(desc, 0).map(|filter| {
        filter.map_sources(&mut |_, _, source| match source {
            Source::Arg { .. } => Source::Now,
            source => source,
        })
    });
    unexpired
        .into_iter()
        .fold(all, Filter::and)
        .and(visible_and_gates(desc, viewer, except, links_left))
}

/// Assigns positions to context values. A comparison without its value is false.
fn bind(
    filter: Filter,
    desc: &EntityDesc,
    place: &mut impl FnMut(CtxPath, Kind) -> Source,
) -> Filter {
    match filter {
        Filter::All(list) => Filter::All(list.into_iter().map(|f| bind(f, desc, place)).collect()),
        Filter::Any(list) => Filter::Any(list.into_iter().map(|f| bind(f, desc, place)).collect()),
        Filter::Cond { field, op, value } => {
            let (kind, mut given) = (desc.fields[field].kind, Vec::new());
            let mut one = |source: Source| match source {
                Source::Ctx(path) => {
                    let source = place(path, kind);
                    given.push(Filter::Given(source.clone()));
                    source
                }
                source => source,
            };
            let value = match value {
                Operand::One(source) => Operand::One(one(source)),
                Operand::List(list) => Operand::List(list.into_iter().map(one).collect()),
            };
            let cond = Filter::Cond { field, op, value };
            if given.is_empty() {
                return cond;
            }
            given.push(cond);
            Filter::All(given)
        }
        Filter::Linked(linked) => {
            let filter = bind(linked.filter, linked.of, place);
            Filter::Linked(Box::new(Linked { filter, ..*linked }))
        }
        other @ (Filter::Item { .. } | Filter::Given(_)) => other,
    }
}

/// A context value, converted to the kind of a field; null if no field of that kind can hold it.
pub(super) fn fitting(kind: Kind, value: Value) -> Value {
    match (kind, value) {
        (Kind::Integer, Value::Text(text)) => {
            let number = text.parse::<i64>().ok().filter(|n| {
                n.to_string() == text && n.unsigned_abs() <= MAX_INTEGER.unsigned_abs()
            });
            number.map_or(Value::Null, Value::Int)
        }
        (Kind::String | Kind::Enum(_), Value::Int(number)) => Value::Text(number.to_string()),
        (Kind::String | Kind::Enum(_) | Kind::StringArray, Value::Text(text))
            if !text.contains('\0') =>
        {
            Value::Text(text)
        }
        (Kind::Integer, value @ Value::Int(n))
            if n.unsigned_abs() <= MAX_INTEGER.unsigned_abs() =>
        {
            value
        }
        (Kind::Number, Value::Int(number)) => Value::Float(number as f64),
        (Kind::Number, value @ Value::Float(n)) if n.is_finite() => value,
        (Kind::Boolean, value @ Value::Bool(_)) | (Kind::Date, value @ Value::Date(_)) => value,
        _ => Value::Null,
    }
}
