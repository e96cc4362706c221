//! The query of a list route: page, sort and filters.

use super::include::{self, Level, RequestedRelations};
use super::operation::PageKey;
use super::query::{self, Pair};
use crate::entity::{Direction, EntityDesc, Flags, Kind, PageArgs, Paging};
use crate::filter::{Filter, Op, Operand, Source};
use crate::resource::ListRequest;
use crate::validate::list_value;
use crate::{Problem, Result, Value};

/// The maximum number of conditions in one request.
const MAX_CONDITIONS: usize = 20;
/// The maximum number of values of one `[in]` or `[nin]`.
pub(crate) const MAX_LIST_VALUES: usize = 100;

/// The query parameters of a list route; built once at start-up.
#[derive(Debug)]
pub(super) struct ListParams {
    entity: &'static EntityDesc,
    filterable: Box<[usize]>,
    sortable: Box<[usize]>,
}

/// The operators of the query, written in brackets: `views[gte]=10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operator {
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
    In,
    Nin,
    Contains,
    Has,
    Null,
}

impl Operator {
    fn of(text: &str) -> Option<Self> {
        Some(match text {
            "ne" => Self::Ne,
            "gt" => Self::Gt,
            "gte" => Self::Gte,
            "lt" => Self::Lt,
            "lte" => Self::Lte,
            "in" => Self::In,
            "nin" => Self::Nin,
            "contains" => Self::Contains,
            "has" => Self::Has,
            "null" => Self::Null,
            _ => return None,
        })
    }

    fn op(self) -> Op {
        match self {
            Self::Eq | Self::Null => Op::Eq,
            Self::Ne => Op::Ne,
            Self::Gt => Op::Gt,
            Self::Gte => Op::Gte,
            Self::Lt => Op::Lt,
            Self::Lte => Op::Lte,
            Self::In => Op::In,
            Self::Nin => Op::Nin,
            Self::Contains => Op::Contains,
            Self::Has => Op::Has,
        }
    }

    /// Whether a field of this kind has the operator.
    fn fits(self, kind: Kind, optional: bool) -> bool {
        match self {
            Self::Eq | Self::Ne => kind.is_scalar(),
            Self::Gt | Self::Gte | Self::Lt | Self::Lte => matches!(
                kind,
                Kind::String | Kind::Integer | Kind::Number | Kind::Date
            ),
            Self::In | Self::Nin => kind.is_scalar() && !matches!(kind, Kind::Boolean),
            Self::Contains => matches!(kind, Kind::String),
            Self::Has => matches!(kind, Kind::StringArray),
            Self::Null => optional,
        }
    }
}

/// A declared parameter.
#[derive(Clone, Copy)]
enum Key {
    Limit,
    Number,
    Cursor,
    Sort,
    SortDir,
    Include,
    Filter(usize, Operator),
}

/// The fields that callers of a list with this `output` can filter by.
pub(crate) fn filterable(entity: &EntityDesc, output: Option<&[&str]>) -> Box<[usize]> {
    let flags = Flags::FILTERABLE.or(Flags::PRIMARY);
    fields(entity, |i| {
        is_in_response(entity, i, output) && entity.fields[i].flags.has(flags)
    })
}

/// The fields that callers of a list with this `output` can sort by.
pub(crate) fn sortable(entity: &EntityDesc, output: Option<&[&str]>) -> Box<[usize]> {
    let flags = Flags::SORTABLE.or(Flags::PRIMARY);
    let leads = |i| entity.sort.first().is_some_and(|first| first.field == i);
    fields(entity, |i| {
        is_in_response(entity, i, output) && (entity.fields[i].flags.has(flags) || leads(i))
    })
}

fn fields(entity: &EntityDesc, keep: impl Fn(usize) -> bool) -> Box<[usize]> {
    (0..entity.fields.len()).filter(|i| keep(*i)).collect()
}

fn is_in_response(entity: &EntityDesc, field: usize, output: Option<&[&str]>) -> bool {
    let field = &entity.fields[field];
    field.readable() && output.is_none_or(|output| output.contains(&field.name))
}

impl ListParams {
    /// The parameters of a list with these fields. A caller cannot filter or sort by other fields,
    /// because the response would disclose their values.
    pub(super) fn new(entity: &'static EntityDesc, output: Option<&[&str]>) -> Self {
        Self {
            entity,
            filterable: filterable(entity, output),
            sortable: sortable(entity, output),
        }
    }

    /// Reads a query string.
    ///
    /// # Errors
    /// `unknown_parameter` with every unknown key; otherwise `validation_failed` with every
    /// problem.
    pub(super) fn read(
        &self,
        query: Option<&str>,
        include: &Level,
    ) -> Result<(ListRequest, RequestedRelations)> {
        let pairs = query::pairs(query);
        if pairs.is_empty() {
            return Ok(Default::default());
        }
        let keys: Vec<Option<Key>> = pairs.iter().map(|p| self.key(p, include)).collect();
        let known = || {
            let fields = self.filterable.iter().map(|i| self.entity.fields[*i].wire);
            let page = PageKey::of_list(self.entity)
                .into_iter()
                .map(|(name, _)| name);
            fields
                .chain(page)
                .chain(["sort", "sortDir"])
                .chain((!include.is_empty()).then_some(include::NAME))
        };
        query::refuse_unknown(
            pairs
                .iter()
                .zip(&keys)
                .filter(|(_, key)| key.is_none())
                .map(|(pair, _)| &*pair.key),
            known,
        )?;
        let mut reading = Reading::default();
        for (pair, key) in pairs.iter().zip(keys) {
            if let Some(key) = key {
                self.read_pair(pair, key, include, &mut reading);
            }
        }
        let wanted = std::mem::take(&mut reading.wanted);
        Ok((reading.finish(self)?, wanted))
    }

    /// Whether pages have numbers.
    fn numbered(&self) -> bool {
        self.entity.paging != Paging::Limit
    }

    fn key(&self, pair: &Pair<'_>, include: &Level) -> Option<Key> {
        let key = &*pair.key;
        Some(match key {
            include::NAME if !include.is_empty() => include.knows(pair).then_some(Key::Include)?,
            "limit" if !self.numbered() => Key::Limit,
            "pageSize" if self.numbered() => Key::Limit,
            "page" if self.numbered() => Key::Number,
            "cursor" => Key::Cursor,
            "sort" => Key::Sort,
            "sortDir" => Key::SortDir,
            _ => {
                let (name, operator) = match key.split_once('[') {
                    Some((name, rest)) => (name, Operator::of(rest.strip_suffix(']')?)?),
                    None => (key, Operator::Eq),
                };
                let field = self
                    .filterable
                    .iter()
                    .find(|i| self.entity.fields[**i].wire == name)?;
                Key::Filter(*field, operator)
            }
        })
    }

    fn read_pair(&self, pair: &Pair<'_>, key: Key, include: &Level, reading: &mut Reading) {
        let appends = matches!(key, Key::Filter(_, Operator::In | Operator::Nin));
        if !appends && reading.seen_keys.iter().any(|key| *key == pair.key) {
            query::duplicate(pair, &mut reading.problems);
            return;
        }
        if !appends {
            reading.seen_keys.push(pair.key.clone().into_owned());
        }
        match key {
            Key::Limit => reading.page.limit = query::limit(pair, &mut reading.problems),
            Key::Number => reading.page.page = query::limit(pair, &mut reading.problems),
            Key::Cursor => {
                reading.page.cursor = query::text(pair, &mut reading.problems).map(str::to_owned);
            }
            Key::Sort => {
                let Some(text) = query::text(pair, &mut reading.problems) else {
                    return;
                };
                reading.sort = self
                    .sortable
                    .iter()
                    .copied()
                    .find(|i| self.entity.fields[*i].wire == text);
                if reading.sort.is_none() {
                    let names: Vec<&str> = self
                        .sortable
                        .iter()
                        .map(|i| self.entity.fields[*i].wire)
                        .collect();
                    reading.problem(pair, "enum", format!("must be one of {}", names.join(", ")));
                }
            }
            Key::SortDir => match query::text(pair, &mut reading.problems) {
                Some("asc") => reading.direction = Some(Direction::Asc),
                Some("desc") => reading.direction = Some(Direction::Desc),
                Some(_) => reading.problem(pair, "enum", "must be asc or desc"),
                None => {}
            },
            Key::Include => reading.wanted = include.read(pair, &mut reading.problems),
            Key::Filter(field, operator) => self.condition(pair, field, operator, reading),
        }
    }

    fn condition(&self, pair: &Pair<'_>, field: usize, operator: Operator, reading: &mut Reading) {
        // A repeated list parameter continues the list: both form one condition.
        let continues_list = reading
            .lists
            .iter()
            .any(|(f, o, ..)| *f == field && *o == operator);
        reading.conditions_seen += usize::from(!continues_list);
        if reading.conditions_seen > MAX_CONDITIONS {
            if reading.conditions_seen == MAX_CONDITIONS + 1 {
                reading.problem(
                    pair,
                    "too_many",
                    format!("at most {MAX_CONDITIONS} conditions"),
                );
            }
            return;
        }
        let desc = &self.entity.fields[field];
        if !operator.fits(desc.kind, desc.optional) {
            reading.problem(
                pair,
                "not_allowed",
                format!(
                    "a field of type {} does not have this operator",
                    desc.kind.name()
                ),
            );
            return;
        }
        let one = |value| Operand::One(Source::Value(value));
        let (op, operand) = match operator {
            Operator::Null => match query::boolean(pair, &mut reading.problems) {
                Some(is_null) => (if is_null { Op::Eq } else { Op::Ne }, one(Value::Null)),
                None => return,
            },
            Operator::In | Operator::Nin => {
                let Some(items) = query::comma_list(pair, &mut reading.problems) else {
                    return;
                };
                let values = items
                    .iter()
                    .map(|item| query::scalar(desc, item, &pair.path(), &mut reading.problems));
                let Some(values) = values.collect::<Option<Vec<_>>>() else {
                    return;
                };
                match reading
                    .lists
                    .iter_mut()
                    .find(|(f, o, ..)| *f == field && *o == operator)
                {
                    Some((_, _, list, _)) => list.extend(values),
                    None => reading.lists.push((field, operator, values, pair.path())),
                }
                return;
            }
            Operator::Contains | Operator::Has => {
                let Some(text) = query::text(pair, &mut reading.problems) else {
                    return;
                };
                if text.contains('\0') {
                    reading.problem(pair, "format", "must not contain U+0000");
                    return;
                }
                if text.is_empty() && operator == Operator::Contains {
                    reading.problem(pair, "empty", "must not be empty");
                    return;
                }
                (operator.op(), one(Value::Text(text.to_owned())))
            }
            _ => {
                let Some(text) = query::text(pair, &mut reading.problems) else {
                    return;
                };
                let Some(value) = query::scalar(desc, text, &pair.path(), &mut reading.problems)
                else {
                    return;
                };
                (operator.op(), one(value))
            }
        };
        reading
            .conditions
            .push((field, operator, Filter::cond(field, op, operand)));
    }
}

/// The parameters read so far.
#[derive(Default)]
struct Reading {
    page: PageArgs,
    sort: Option<usize>,
    direction: Option<Direction>,
    conditions: Vec<(usize, Operator, Filter)>,
    conditions_seen: usize,
    wanted: RequestedRelations,
    /// The `[in]` and `[nin]` conditions: field, operator, values, and the path for problems.
    lists: Vec<(usize, Operator, Vec<Value>, String)>,
    seen_keys: Vec<String>,
    problems: Vec<Problem>,
}

impl Reading {
    fn problem(&mut self, pair: &Pair<'_>, code: &'static str, message: impl Into<String>) {
        self.problems.push(Problem::new(pair.path(), code, message));
    }

    fn finish(mut self, params: &ListParams) -> Result<ListRequest> {
        for (field, operator, values, path) in self.lists {
            if values.len() > MAX_LIST_VALUES {
                self.problems.push(Problem::new(
                    path,
                    "too_many",
                    format!("at most {MAX_LIST_VALUES} values"),
                ));
                continue;
            }
            let operand = Operand::One(Source::Value(list_value(&values)));
            self.conditions
                .push((field, operator, Filter::cond(field, operator.op(), operand)));
        }
        if params.numbered() {
            // A page number may be too large, or combined with a cursor; both are refused.
            let paging = params
                .entity
                .paging
                .within(params.entity.pagination.max_limit);
            let refused = paging.resolve(&self.page, None).err();
            self.problems.extend(
                refused.map(|(name, code, message)| Problem::new(query::path(name), code, message)),
            );
        }
        if !self.problems.is_empty() {
            return Err(crate::Error::validation(self.problems));
        }
        // Sort the conditions, so that their order does not depend on the client. Then a cursor is
        // valid for a request with the same conditions in another order, and conditions of the same
        // shape share one statement.
        self.conditions
            .sort_by_key(|(field, operator, _)| (*field, *operator));
        let filter = (!self.conditions.is_empty())
            .then(|| Filter::All(self.conditions.into_iter().map(|(.., f)| f).collect()));
        let sort = match (self.sort, self.direction) {
            (Some(field), direction) => Some((field, direction.unwrap_or(Direction::Asc))),
            (None, Some(direction)) => Some((
                params
                    .entity
                    .sort
                    .first()
                    .map_or(params.entity.primary, |first| first.field),
                direction,
            )),
            (None, None) => None,
        };
        Ok(ListRequest {
            page: self.page,
            sort,
            filter,
            deleted: false,
        })
    }
}
