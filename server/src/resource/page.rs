//! Pages: limits, cursors and the shapes of selects.

use super::cursor::{Position, digest, encode};
use super::{Form, Outcome, Table};
use crate::entity::page::Refused;
use crate::entity::{Direction, PageArgs, Paging, SortDesc};
use crate::filter::{Filter, Linked, Op, Operand, Source};
use crate::store::{After, Order, Plan, Row, Rows};
use crate::{Code, Cx, Error, Problem, Result, Timestamp, Value};

/// The parameters of a list.
#[derive(Debug, Default)]
pub struct ListRequest {
    /// Limit and cursor.
    pub page: PageArgs,
    /// Field and direction; the default sort when absent.
    pub sort: Option<(usize, Direction)>,
    /// Conditions with fixed values.
    pub filter: Option<Filter>,
    /// Whether to include deleted records; only for the application itself.
    pub deleted: bool,
}

impl Table {
    /// Returns a page of the matching records.
    ///
    /// # Errors
    /// `invalid_cursor`; `validation_failed` for a limit of 0.
    pub async fn list(&self, cx: &Cx, request: ListRequest, form: &Form) -> Result<Outcome> {
        let order = match request.sort {
            Some((field, direction)) => self.sorted(field, direction == Direction::Desc),
            None => self.order(self.desc.sort),
        };
        let filter = request.filter.unwrap_or(Filter::TRUE);
        refuse_nul(&filter)?;
        let deleted = if request.deleted {
            Some(cx.including_deleted()?)
        } else {
            None
        };
        let cx = deleted.as_ref().unwrap_or(cx);
        let page = self
            .paging()
            .resolve(&request.page, Some(self.desc.pagination.default_limit))
            .map_err(refused)?;
        self.page(
            cx,
            PageRequest {
                route: "list",
                sort: None,
                filter,
                order,
                page,
            },
            form,
        )
        .await
    }

    /// The kind of paging of the entity's list.
    pub(crate) fn paging(&self) -> Paging {
        self.desc.paging.within(self.desc.pagination.max_limit)
    }

    /// A sort with the primary key as tie-break, in the direction of the last field.
    pub fn order(&self, sort: &[SortDesc]) -> Vec<Order> {
        let mut order: Vec<Order> = sort
            .iter()
            .map(|key| Order {
                field: key.field,
                desc: key.desc,
            })
            .collect();
        // Keys after the primary key cannot change the order.
        match order.iter().position(|key| key.field == self.desc.primary) {
            Some(at) => order.truncate(at + 1),
            None => order.push(Order {
                field: self.desc.primary,
                desc: sort.last().is_some_and(|last| last.desc),
            }),
        }
        order
    }

    /// The order: the default sort if it begins with this field, reversed if necessary; otherwise
    /// by this field only.
    fn sorted(&self, field: usize, desc: bool) -> Vec<Order> {
        let default = self.desc.sort;
        match default.first() {
            Some(first) if first.field == field => {
                let reversed = first.desc != desc;
                self.order(
                    &default
                        .iter()
                        .map(|key| SortDesc {
                            desc: key.desc != reversed,
                            ..*key
                        })
                        .collect::<Vec<_>>(),
                )
            }
            _ => self.order(&[SortDesc { field, desc }]),
        }
    }

    /// Returns a page of records: the only place that combines limits, cursors and the forms of
    /// selects.
    ///
    /// # Errors
    /// `invalid_cursor`.
    pub(crate) async fn page(&self, cx: &Cx, request: PageRequest, form: &Form) -> Result<Outcome> {
        let PageRequest {
            route,
            sort,
            filter,
            order,
            page,
        } = request;
        let limit = page.limit.map(|l| l.min(self.desc.pagination.max_limit));
        let PageQuery {
            filter,
            mut args,
            mut shape,
            clock,
            context,
        } = self.page_query(cx, (route, sort), filter, &order)?;
        // Values of `now()` in a named sort stay the same as on the first page, so that all pages
        // have the same time window.
        let fixes = sort.is_some() && !clock.at.is_empty();
        let mut fixed: Vec<Value> = fixes
            .then_some(Value::Date(clock.now))
            .into_iter()
            .collect();
        let after = match (&page.cursor, page.page) {
            (None, None | Some(0 | 1)) => None,
            (None, Some(number)) => {
                shape.push(b'o');
                args.push(Value::Int(
                    i64::from(number - 1) * i64::from(limit.unwrap_or_default()),
                ));
                Some(After::Count(args.len() - 1))
            }
            (Some(cursor), _) => {
                let opened = self
                    .cursors()
                    .open(cursor, (fixed.len(), order.len()), &context)?;
                for (at, was) in clock
                    .at
                    .iter()
                    .filter_map(|at| Some((*at, opened.fixed.first()?)))
                {
                    args[at].clone_from(was);
                }
                fixed = opened.fixed;
                let values = match opened.position {
                    Position::Values(values) => values,
                    Position::Key(key, was) => {
                        self.position_of(cx, route, key, &order, &was).await?
                    }
                };
                let keys = values
                    .into_iter()
                    .map(|value| {
                        shape.push(if value.is_null() { 0xf0 } else { 0xf1 });
                        (!value.is_null()).then(|| {
                            args.push(value);
                            args.len() - 1
                        })
                    })
                    .collect();
                Some(After::Keys(keys))
            }
        };
        let keys: Vec<usize> = order.iter().map(|o| o.field).collect();
        let slot = limit.map(|limit| {
            shape.push(b'l');
            args.push(Value::Int(i64::from(limit) + 1));
            Source::Arg {
                index: args.len() - 1,
                nullable: false,
            }
        });
        let statement = self.shape(route, &shape, || Plan::Select {
            filter,
            order,
            after,
            limit: slot,
        })?;
        let mut rows = self.rows(form);
        if let Some(limit) = limit {
            rows = rows.limit(limit as usize, keys);
        }
        let rows = self.execute(cx, &statement, args, rows).rows().await?;
        let next_cursor = rows
            .more
            .then(|| self.cursors().seal(&fixed, &rows.last, &context));
        Ok(Outcome::Page { rows, next_cursor })
    }

    /// The sort values of the last record of the previous page, if they were too long for its
    /// cursor. `was` is their digest at that time: after a change of the values, the next page
    /// would skip or repeat records.
    async fn position_of(
        &self,
        cx: &Cx,
        route: &'static str,
        key: Value,
        order: &[Order],
        was: &Value,
    ) -> Result<Vec<Value>> {
        let filter = Filter::Cond {
            field: self.desc.primary,
            op: Op::Eq,
            value: Operand::One(Source::Value(key)),
        };
        let by_key = vec![Order {
            field: self.desc.primary,
            desc: false,
        }];
        let mut rows = self
            .first(cx, route, filter, by_key, &Form::Records)
            .await?;
        let lost = |what| {
            Error::new(
                Code::InvalidCursor,
                format!("The last record of the previous page {what}; start with the first page"),
            )
        };
        let record = rows.records.pop().ok_or_else(|| lost("is gone"))?;
        let values: Vec<Value> = order
            .iter()
            .map(|key| record.value(key.field).to_owned())
            .collect();
        if digest(&values) == *was {
            Ok(values)
        } else {
            Err(lost("has changed"))
        }
    }

    /// The statement of a page without its position and limit.
    fn page_query(
        &self,
        cx: &Cx,
        (route, sort): (&'static str, Option<&'static str>),
        filter: Filter,
        order: &[Order],
    ) -> Result<PageQuery> {
        let mut context = Vec::with_capacity(128);
        context.extend_from_slice(self.desc.storage_name.as_bytes());
        context.push(0);
        context.extend_from_slice(route.as_bytes());
        context.push(0);
        if let Some(sort) = sort {
            context.extend_from_slice(sort.as_bytes());
            context.push(1);
        }
        self.fingerprint(cx, route, &mut context)?;
        let (mut args, mut clock) = (Vec::new(), Clock::of(cx));
        let mut shape = vec![b's'];
        let filter = lift(filter, &mut clock, &mut args, &mut shape);
        for key in order {
            shape.extend_from_slice(&[0xfe, key.field as u8, u8::from(key.desc)]);
        }
        context.extend_from_slice(&shape);
        clock.fingerprint(&args, &mut context);
        Ok(PageQuery {
            filter,
            args,
            shape,
            clock,
            context,
        })
    }

    /// The cursor for a page of a route that continues after a position.
    ///
    /// # Errors
    /// Like [`Table::page`].
    pub(super) fn seal(
        &self,
        cx: &Cx,
        route: &'static str,
        filter: Filter,
        order: &[Order],
        position: &[Value],
    ) -> Result<String> {
        Ok(self.cursors().seal(
            &[],
            position,
            &self.page_query(cx, (route, None), filter, order)?.context,
        ))
    }

    /// Returns the first record in an order that matches a filter with fixed values.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn first(
        &self,
        cx: &Cx,
        route: &'static str,
        filter: Filter,
        order: Vec<Order>,
        form: &Form,
    ) -> Result<Rows> {
        let mut args = Vec::new();
        let mut shape = vec![b'f'];
        let filter = lift(filter, &mut Clock::of(cx), &mut args, &mut shape);
        for key in &order {
            shape.extend_from_slice(&[0xfe, key.field as u8, u8::from(key.desc)]);
        }
        let limit = Some(Source::Value(Value::Int(1)));
        let statement = self.shape(route, &shape, || Plan::Select {
            filter,
            order,
            after: None,
            limit,
        })?;
        self.execute(cx, &statement, args, self.rows(form))
            .rows()
            .await
    }
}

/// The page that a route requests, within the limits of the route.
pub(crate) struct PageRequest {
    /// The route name in cursors, so that a cursor is valid for one route only.
    pub(crate) route: &'static str,
    /// The name of the chosen sort; a cursor is valid for one sort only.
    pub(crate) sort: Option<&'static str>,
    /// The filter, with fixed values.
    pub(crate) filter: Filter,
    pub(crate) order: Vec<Order>,
    /// The position and the limit; without a limit, all records are returned.
    pub(crate) page: PageArgs,
}

/// The error of a refused page request, with the name of the query parameter.
pub(crate) fn refused((name, code, message): Refused) -> Error {
    Error::invalid(Problem::new(format!("query:{name}"), code, message))
}

/// The query of a page; its values are arguments.
struct PageQuery {
    filter: Filter,
    args: Vec<Value>,
    /// The key of its statement.
    shape: Vec<u8>,
    /// The arguments with the instant of the call.
    clock: Clock,
    /// The values that all pages of a cursor share.
    context: Vec<u8>,
}

/// No stored text contains U+0000, and one of the stores does not accept it as an argument. So all
/// stores refuse it, as they do in fields.
fn refuse_nul(filter: &Filter) -> Result<()> {
    let has_nul = |text: &str| text.contains('\0');
    let mut found = false;
    filter.sources(&mut |source| {
        found |= match source {
            Source::Value(Value::Text(text)) => has_nul(text),
            Source::Value(Value::Strings(list)) => list.iter().any(|text| has_nul(text)),
            // A list may be passed as JSON.
            Source::Value(Value::Json(text)) if text.contains("\\u0000") => {
                serde_json::from_str::<Vec<String>>(text)
                    .is_ok_and(|list| list.iter().any(|text| has_nul(text)))
            }
            _ => false,
        }
    });
    if found {
        Err(Error::invalid(Problem::new(
            "filter",
            "format",
            "must not contain U+0000",
        )))
    } else {
        Ok(())
    }
}

/// The instant of a call, and the arguments that contain it because a declaration uses `now()`.
pub(super) struct Clock {
    now: Timestamp,
    at: Vec<usize>,
}

impl Clock {
    pub(super) fn of(cx: &Cx) -> Self {
        Self {
            now: cx.now(),
            at: Vec::new(),
        }
    }

    /// Appends the arguments that all pages of a cursor share. The instant of `now()` differs
    /// between pages, so it is left out; the shape contains its positions.
    pub(super) fn fingerprint(&self, args: &[Value], out: &mut Vec<u8>) {
        for (_, value) in args
            .iter()
            .enumerate()
            .filter(|(at, _)| !self.at.contains(at))
        {
            encode(value, out);
        }
    }
}

/// Replaces fixed values by arguments, so that equal shapes share a statement. Nulls are not
/// replaced, because a comparison with null has another SQL form.
pub(super) fn lift(
    filter: Filter,
    clock: &mut Clock,
    args: &mut Vec<Value>,
    shape: &mut Vec<u8>,
) -> Filter {
    match filter {
        Filter::All(list) => {
            shape.push(b'&');
            let list = list
                .into_iter()
                .map(|f| lift(f, clock, args, shape))
                .collect();
            shape.push(b')');
            Filter::All(list)
        }
        Filter::Any(list) => {
            shape.push(b'|');
            let list = list
                .into_iter()
                .map(|f| lift(f, clock, args, shape))
                .collect();
            shape.push(b')');
            Filter::Any(list)
        }
        Filter::Cond { field, op, value } => {
            shape.extend_from_slice(&[b'c', field as u8, op as u8]);
            let mut source = |s: Source, shape: &mut Vec<u8>| match s {
                Source::Value(Value::Null) => {
                    shape.push(0);
                    Source::Value(Value::Null)
                }
                Source::Value(value) => {
                    shape.push(1);
                    args.push(value);
                    Source::Arg {
                        index: args.len() - 1,
                        nullable: false,
                    }
                }
                Source::Now => {
                    shape.push(2);
                    clock.at.push(args.len());
                    args.push(Value::Date(clock.now));
                    Source::Arg {
                        index: args.len() - 1,
                        nullable: false,
                    }
                }
                other => other,
            };
            let value = match value {
                Operand::One(s) => Operand::One(source(s, shape)),
                Operand::List(list) => {
                    shape.extend_from_slice(&(list.len() as u32).to_le_bytes());
                    Operand::List(list.into_iter().map(|s| source(s, shape)).collect())
                }
            };
            Filter::Cond { field, op, value }
        }
        // Pages are not filtered by items.
        item @ Filter::Item { .. } => item,
        Filter::Linked(linked) => {
            shape.extend_from_slice(&[b'l', linked.field as u8, linked.at as u8]);
            shape.extend_from_slice(linked.of.storage_name.as_bytes());
            let filter = lift(linked.filter, clock, args, shape);
            Filter::Linked(Box::new(Linked { filter, ..*linked }))
        }
        // The source is a literal value: null matches no record, any other value matches all.
        Filter::Given(source) => {
            let null = matches!(source, Source::Value(Value::Null));
            shape.extend_from_slice(&[b'g', u8::from(null)]);
            if null {
                Filter::Any(Vec::new())
            } else {
                Filter::TRUE
            }
        }
    }
}
