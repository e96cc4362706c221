//! Pages: limits, cursors and the shapes of selects.

use super::cursor::{Position, encode};
use super::{Form, Outcome, Table};
use crate::entity::{Direction, PageArgs};
use crate::filter::{Filter, Linked, Op, Operand, Source};
use crate::store::{After, Order, Plan, Row, Rows};
use crate::{Code, Cx, Error, Problem, Result, Timestamp, Value};

/// What a list asks for.
#[derive(Debug, Default)]
pub struct ListRequest {
    /// Limit and cursor.
    pub page: PageArgs,
    /// Field and direction; the default sort when absent.
    pub sort: Option<(usize, Direction)>,
    /// Conditions with fixed values.
    pub filter: Option<Filter>,
    /// Deleted records as well: for the application itself.
    pub deleted: bool,
}

impl Table {
    /// A page of the records that match.
    ///
    /// # Errors
    /// `invalid_cursor`; `validation_failed` for a limit of 0.
    pub async fn list(&self, cx: &Cx, request: ListRequest, form: &Form) -> Result<Outcome> {
        let order = match request.sort {
            Some((field, direction)) => self.order(field, direction == Direction::Desc),
            None => self.order(self.desc.sort.field, self.desc.sort.desc),
        };
        let filter = request.filter.unwrap_or(Filter::TRUE);
        refuse_nul(&filter)?;
        let deleted = if request.deleted { Some(cx.including_deleted()?) } else { None };
        let cx = deleted.as_ref().unwrap_or(cx);
        let limit = Some(request.page.limit.unwrap_or(self.desc.pagination.default_limit));
        self.page(cx, "list", filter, order, limit, request.page.cursor.as_deref(), form).await
    }

    /// A sort by one field with the primary key as tie-break.
    pub fn order(&self, field: usize, desc: bool) -> Vec<Order> {
        let mut order = vec![Order { field, desc }];
        if field != self.desc.primary {
            order.push(Order { field: self.desc.primary, desc });
        }
        order
    }

    /// A page of records: the one place where limits, cursors and shapes of selects meet.
    ///
    /// `route` names the caller in cursors, so that none travels between routes. `limit` `None` is unbounded.
    ///
    /// # Errors
    /// `invalid_cursor`; `validation_failed` for a limit of 0.
    #[allow(clippy::too_many_arguments)] // a page has this many parts; a struct for one private caller each would hide them
    pub async fn page(
        &self,
        cx: &Cx,
        route: &'static str,
        filter: Filter,
        order: Vec<Order>,
        limit: Option<u32>,
        cursor: Option<&str>,
        form: &Form,
    ) -> Result<Outcome> {
        if limit == Some(0) {
            return Err(Error::invalid(Problem::new("query:limit", "range", "must be at least 1")));
        }
        let limit = limit.map(|l| l.min(self.desc.pagination.max_limit));
        let Asked { filter, mut args, mut shape, context } = self.asked(cx, route, filter, &order)?;
        let after = match cursor {
            None => None,
            Some(cursor) => {
                let values = match self.cursors().open(cursor, order.len(), &context)? {
                    Position::Values(values) => values,
                    Position::Key(key) => self.position_of(cx, route, key, &order).await?,
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
                Some(After { keys })
            }
        };
        let keys: Vec<usize> = order.iter().map(|o| o.field).collect();
        let slot = limit.map(|limit| {
            shape.push(b'l');
            args.push(Value::Int(i64::from(limit) + 1));
            Source::Arg { index: args.len() - 1, nullable: false }
        });
        let statement = self.shape(route, &shape, || Plan::Select { filter, order, after, limit: slot })?;
        let mut rows = self.rows(form);
        if let Some(limit) = limit {
            rows = rows.limit(limit as usize, keys);
        }
        let rows = self.execute(cx, &statement, args, rows).rows().await?;
        let next_cursor = rows.more.then(|| self.cursors().seal(&rows.last, &context));
        Ok(Outcome::Page { rows, next_cursor })
    }

    /// The sort values of the record that a page ended with, when they were too long for its cursor.
    async fn position_of(&self, cx: &Cx, route: &'static str, key: Value, order: &[Order]) -> Result<Vec<Value>> {
        let filter = Filter::Cond { field: self.desc.primary, op: Op::Eq, value: Operand::One(Source::Value(key)) };
        let by_key = vec![Order { field: self.desc.primary, desc: false }];
        let mut rows = self.first(cx, route, filter, by_key, &Form::Records).await?;
        let gone = || Error::new(Code::InvalidCursor, "The record that the page ended with is gone; begin again");
        let record = rows.records.pop().ok_or_else(gone)?;
        Ok(order.iter().map(|key| record.value(key.field).to_owned()).collect())
    }

    /// A statement of a page before its position and limit.
    fn asked(&self, cx: &Cx, route: &'static str, filter: Filter, order: &[Order]) -> Result<Asked> {
        let mut context = Vec::with_capacity(128);
        context.extend_from_slice(self.desc.storage_name.as_bytes());
        context.push(0);
        context.extend_from_slice(route.as_bytes());
        context.push(0);
        self.fingerprint(cx, route, &mut context)?;
        let mut args = Vec::new();
        let mut shape = vec![b's'];
        let filter = lift(filter, cx.now(), &mut args, &mut shape);
        for key in order {
            shape.extend_from_slice(&[0xfe, key.field as u8, u8::from(key.desc)]);
        }
        context.extend_from_slice(&shape);
        // A later page reads a later clock, so the fingerprint knows where `now` stands but not what it was.
        for value in args.iter().filter(|value| **value != Value::Date(cx.now())) {
            encode(value, &mut context);
        }
        Ok(Asked { filter, args, shape, context })
    }

    /// The cursor of a page that a route would continue behind a position.
    ///
    /// # Errors
    /// As [`Table::page`].
    pub(super) fn seal(&self, cx: &Cx, route: &'static str, filter: Filter, order: &[Order], position: &[Value]) -> Result<String> {
        Ok(self.cursors().seal(position, &self.asked(cx, route, filter, order)?.context))
    }

    /// The first record that matches a filter with fixed values, in an order.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn first(&self, cx: &Cx, route: &'static str, filter: Filter, order: Vec<Order>, form: &Form) -> Result<Rows> {
        let mut args = Vec::new();
        let mut shape = vec![b'f'];
        let filter = lift(filter, cx.now(), &mut args, &mut shape);
        for key in &order {
            shape.extend_from_slice(&[0xfe, key.field as u8, u8::from(key.desc)]);
        }
        let limit = Some(Source::Value(Value::Int(1)));
        let statement = self.shape(route, &shape, || Plan::Select { filter, order, after: None, limit })?;
        self.execute(cx, &statement, args, self.rows(form)).rows().await
    }
}

/// What a page asks for, its values lifted out.
struct Asked {
    filter: Filter,
    args: Vec<Value>,
    /// What its statement is kept under.
    shape: Vec<u8>,
    /// What every page of a walk has in common.
    context: Vec<u8>,
}

/// No stored text holds U+0000, and one store cannot even be asked for it: refused on all of them, as in fields.
fn refuse_nul(filter: &Filter) -> Result<()> {
    let holds = |text: &str| text.contains('\0');
    let mut found = false;
    filter.sources(&mut |source| {
        found |= match source {
            Source::Value(Value::Text(text)) => holds(text),
            Source::Value(Value::Strings(list)) => list.iter().any(|text| holds(text)),
            // A list may travel as JSON.
            Source::Value(Value::Json(text)) if text.contains("\\u0000") => {
                serde_json::from_str::<Vec<String>>(text).is_ok_and(|list| list.iter().any(|text| holds(text)))
            }
            _ => false,
        }
    });
    if found { Err(Error::invalid(Problem::new("filter", "format", "holds U+0000, which no text does"))) } else { Ok(()) }
}

/// Replaces fixed values by arguments, so that equal shapes share a statement. Nulls stay: they render differently.
pub(super) fn lift(filter: Filter, now: Timestamp, args: &mut Vec<Value>, shape: &mut Vec<u8>) -> Filter {
    match filter {
        Filter::All(list) => {
            shape.push(b'&');
            let list = list.into_iter().map(|f| lift(f, now, args, shape)).collect();
            shape.push(b')');
            Filter::All(list)
        }
        Filter::Any(list) => {
            shape.push(b'|');
            let list = list.into_iter().map(|f| lift(f, now, args, shape)).collect();
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
                    Source::Arg { index: args.len() - 1, nullable: false }
                }
                Source::Now => {
                    shape.push(2);
                    args.push(Value::Date(now));
                    Source::Arg { index: args.len() - 1, nullable: false }
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
            let filter = lift(linked.filter, now, args, shape);
            Filter::Linked(Box::new(Linked { filter, ..*linked }))
        }
        // Its value is in place: it is given, or nothing matches.
        Filter::Given(source) => {
            let null = matches!(source, Source::Value(Value::Null));
            shape.extend_from_slice(&[b'g', u8::from(null)]);
            if null { Filter::Any(Vec::new()) } else { Filter::TRUE }
        }
    }
}
