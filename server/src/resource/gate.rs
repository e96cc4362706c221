//! Visibility by conditions and through other records: `visible(..)` and `gate(..)`.
//!
//! Both are conditions of the [restriction](super::restriction) like all others. They are made here with values
//! of the context as they are declared, and bound to arguments of a statement, or to values in
//! place. A comparison with a value that the caller lacks is false.

use crate::entity::{EntityDesc, Gate, Kind, ScopeFrom};
use crate::filter::{CtxPath, Filter, Linked, Op, Operand, Source};
use crate::store::layout;
use crate::validate::MAX_INTEGER;
use crate::{Cx, Value};

use super::restriction::Reach;

/// Most links behind a record, one behind the other. Compile checks see to it; descriptors made by
/// hand end here.
const LINKS: u32 = 8;

/// What an entity's conditions and gates need of a call.
pub(super) struct Behind {
    /// Values of the context, and the fields that they are compared with.
    wants: Vec<(CtxPath, Kind)>,
    /// Whether records of an entity with tenants are looked at.
    pub(super) tenants: bool,
    /// Whether the call's instant is needed: on behalf of callers, and of the application.
    now: [bool; 2],
}

/// On whose behalf records are looked at.
#[derive(Clone, Copy)]
pub(super) struct Asks {
    pub(super) reach: Reach,
    /// Anonymous callers see records without a tenant on such routes, where the entity says so.
    pub(super) reads: bool,
}

impl Behind {
    /// `None` for an entity that has nothing of the kind.
    pub(super) fn of(desc: &'static EntityDesc) -> Option<Self> {
        if desc.visible.is_none() && desc.gates.is_empty() {
            return None;
        }
        let (mut wants, mut now) = (Vec::new(), [false; 2]);
        for (reach, now) in [Reach::Caller, Reach::System].into_iter().zip(&mut now) {
            let asks = Asks {
                reach,
                reads: false,
            };
            let filter = bind(conditions(desc, asks), desc, &mut |path, kind| {
                if !wants.iter().any(|want| is_same(want, path, kind)) {
                    wants.push((path, kind));
                }
                Source::Ctx(path)
            });
            filter.sources(&mut |source| *now |= *source == Source::Now);
        }
        let tenants = desc.gates.iter().any(|gate| has_tenants(gate, LINKS));
        Some(Self {
            wants,
            tenants,
            now,
        })
    }

    /// How many values of the context it needs of a caller.
    pub(super) fn wants(&self) -> usize {
        self.wants.len()
    }

    /// The values, for arguments; null for those that the caller lacks.
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

    /// The conditions, with their values at `first` and behind, and the call's instant at `now`.
    pub(super) fn condition(
        &self,
        desc: &'static EntityDesc,
        asks: Asks,
        first: usize,
        now: Option<usize>,
    ) -> Filter {
        let bound = bind(conditions(desc, asks), desc, &mut |path, kind| {
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

/// The values of the context that decide who sees records of an entity, beside those of its own
/// tenant and scopes.
pub(crate) fn context(desc: &'static EntityDesc) -> Vec<CtxPath> {
    Behind::of(desc).map_or_else(Vec::new, |behind| {
        behind.wants.iter().map(|(path, _)| *path).collect()
    })
}

/// What a record must be, beyond being visible, for a new one to name it.
#[derive(Default)]
pub(super) struct Admission {
    wants: Vec<(CtxPath, Kind)>,
    /// Whether the call's instant is needed.
    now: bool,
}

impl Admission {
    /// By a gate: the caller may do with it what the gate says, and in a tree there is room below
    /// it. The condition's values are arguments from `first` on.
    pub(super) fn of(gate: &Gate, asks: Asks, first: usize) -> (Self, Filter) {
        let mut all = action(gate, asks);
        if gate.depth > 0 {
            all = all.and(room(gate, gate.depth - 1));
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

/// Whether a record of a tree has so many above it at most.
fn room(gate: &Gate, depth: u32) -> Filter {
    let root = null(gate.field);
    if depth == 0 {
        return root;
    }
    root.or(linked(gate, room(gate, depth - 1)))
}

fn has_tenants(gate: &Gate, fuel: u32) -> bool {
    let deeper = |other: &Gate| fuel > 0 && other.depth == 0 && has_tenants(other, fuel - 1);
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

/// What nothing satisfies.
fn never() -> Filter {
    Filter::Any(Vec::new())
}

/// What holds of a record besides its own tenant, scopes, deletion and expiry.
fn conditions(desc: &'static EntityDesc, asks: Asks) -> Filter {
    if matches!(asks.reach, Reach::Deleted | Reach::Effect) {
        return Filter::TRUE;
    }
    further(desc, asks, None, LINKS)
}

fn further(desc: &'static EntityDesc, asks: Asks, but: Option<usize>, fuel: u32) -> Filter {
    let declared = desc.visible.as_ref().filter(|_| asks.reach.is_caller());
    let mut all = declared.map_or(Filter::TRUE, |spec| Filter::TRUE.and(spec.into()));
    for (n, gate) in desc
        .gates
        .iter()
        .enumerate()
        .filter(|(n, _)| Some(*n) != but)
    {
        all = all.and(if gate.depth > 0 {
            below(desc, n, asks, gate.depth.min(fuel))
        } else {
            through(gate, asks, fuel)
        });
    }
    all
}

/// A gate onto another entity.
fn through(gate: &Gate, asks: Asks, fuel: u32) -> Filter {
    if fuel == 0 {
        return never();
    }
    linked(
        gate,
        seen(gate.target, asks, None, fuel - 1).and(action(gate, asks)),
    )
}

/// A gate within a tree: nothing is above the record, or something that is seen, and so on. What
/// has more above it than may be is seen by nobody, and neither is what is above itself.
fn below(desc: &'static EntityDesc, gate: usize, asks: Asks, depth: u32) -> Filter {
    let declared = &desc.gates[gate];
    let root = null(declared.field);
    if depth == 0 {
        return root;
    }
    let above = seen(desc, asks, Some(gate), depth - 1)
        .and(action(declared, asks))
        .and(below(desc, gate, asks, depth - 1));
    root.or(linked(declared, above))
}

/// What a gate asks for beyond seeing the record.
fn action(gate: &Gate, asks: Asks) -> Filter {
    let Some(name) = gate.action.filter(|_| asks.reach.is_caller()) else {
        return Filter::TRUE;
    };
    let declared = gate
        .target
        .actions
        .iter()
        .find(|action| action.name == name);
    declared.map_or_else(never, |action| Filter::TRUE.and((&action.filter).into()))
}

/// Who sees a record of another entity: as its `get` says, so far as that depends on the record.
fn seen(desc: &'static EntityDesc, asks: Asks, but: Option<usize>, fuel: u32) -> Filter {
    let mut all = Filter::TRUE;
    let eq =
        |field: usize, path: CtxPath| Filter::cond(field, Op::Eq, Operand::One(Source::Ctx(path)));
    if let Some(tenant) = desc.tenant {
        let without = match asks.reach {
            Reach::NoTenant => tenant.optional,
            Reach::Anonymous => asks.reads && tenant.anonymous_read,
            Reach::Caller | Reach::System | Reach::Within | Reach::Deleted | Reach::Effect => false,
        };
        all = match asks.reach {
            Reach::Caller => all.and(eq(tenant.field, CtxPath::TenantId)),
            Reach::NoTenant | Reach::Anonymous if without => all.and(null(tenant.field)),
            Reach::NoTenant | Reach::Anonymous => all.and(never()),
            Reach::System | Reach::Within | Reach::Deleted | Reach::Effect => all,
        };
    }
    for scope in desc
        .scope
        .iter()
        .filter(|scope| asks.reach.is_caller() && scope.holds_on("get"))
    {
        // The parents of a path say where a record is, not who may see it.
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
        .and(further(desc, asks, but, fuel))
}

/// Gives values of the context their places; each comparison is false without its value.
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

/// A value of the context as a field of this kind holds it; null for one that no such field can
/// hold.
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
