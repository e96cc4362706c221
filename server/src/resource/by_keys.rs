//! Reads records by their keys. Also runs searches with a provider: the records of its hits are
//! read with the restriction of the call.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::cursor::Position;
use super::page::{Clock, lift};
use super::{Form, Outcome, Table};
use crate::filter::{Filter, Op, Operand, Source};
use crate::search::{Find, Hit, Index};
use crate::store::{After, Order, Plan, Rows};
use crate::validate::list_value;
use crate::{Cx, Error, Problem, Result, Value};

/// The maximum number of hits that are examined for one page, visible to the caller or not. After
/// this number of hits, the search ends, even if the page is not full.
const MAX_HITS: usize = 10_000;
/// The number of hits that are requested, and of records that are read, at a time.
const CHUNK: usize = 1_000;

/// A search of a provider's index.
pub(crate) struct SearchRequest<'a> {
    /// The operation.
    pub(crate) route: &'static str,
    /// The search text.
    pub(crate) text: &'a str,
    /// The searched fields.
    pub(crate) fields: &'a [usize],
    /// A further condition on the records, with fixed values.
    pub(crate) filter: Filter,
    /// The maximum number of records.
    pub(crate) limit: u32,
    /// The cursor of the previous page.
    pub(crate) cursor: Option<&'a str>,
}

impl Table {
    /// Reads, in one statement, the visible records with these keys that match a filter with fixed
    /// values. They are in the order of keys.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn find_by_keys(
        &self,
        cx: &Cx,
        route: &'static str,
        keys: &[Value],
        filter: Filter,
    ) -> Result<Rows> {
        let mut rows = Rows::records(self.desc);
        if keys.is_empty() {
            rows.count = 0;
            return Ok(rows);
        }
        let (mut args, mut shape) = (vec![list_value(keys)], vec![b'k', b's']);
        let filter = lift(filter, &mut Clock::of(cx), &mut args, &mut shape);
        let one_of = Filter::cond(
            self.desc.primary,
            Op::In,
            Operand::One(Source::Arg {
                index: 0,
                nullable: false,
            }),
        );
        let order = vec![Order {
            field: self.desc.primary,
            desc: false,
        }];
        let plan = || Plan::Select {
            filter: one_of.and(filter),
            order,
            after: None,
            limit: None,
        };
        let statement = self.shape(route, &shape, plan)?;
        self.execute(cx, &statement, args, rows).rows().await
    }

    /// The visible records after a key, in the order of keys.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn after_key(
        &self,
        cx: &Cx,
        route: &'static str,
        after: Option<Value>,
        limit: u32,
    ) -> Result<Rows> {
        let limit = Value::Int(i64::from(limit));
        let shape = if after.is_some() {
            &b"next behind"[..]
        } else {
            b"next"
        };
        let args: Vec<Value> = [limit].into_iter().chain(after).collect();
        let after = (args.len() > 1).then(|| After::Keys(vec![Some(1)]));
        let plan = || Plan::Select {
            filter: Filter::TRUE,
            order: vec![Order {
                field: self.desc.primary,
                desc: false,
            }],
            after,
            limit: Some(Source::Arg {
                index: 0,
                nullable: false,
            }),
        };
        let statement = self.shape(route, shape, plan)?;
        self.execute(cx, &statement, args, Rows::records(self.desc))
            .rows()
            .await
    }

    /// Sets the index of the entity. Only the first call has an effect.
    pub(crate) fn set_search(&self, index: Arc<Index>) {
        // Each index is opened once.
        drop(self.search.set(index));
    }

    /// The index of the entity; `None` before it is opened.
    pub(crate) fn search_index(&self) -> Option<&Arc<Index>> {
        self.search.get()
    }

    /// Returns a page of the hits of a provider, in the provider's order.
    ///
    /// # Errors
    /// `invalid_cursor`; `validation_failed` for a limit of 0; `unavailable` when the provider
    /// fails.
    pub(crate) async fn search(
        &self,
        cx: &Cx,
        index: &Index,
        request: SearchRequest<'_>,
        form: &Form,
    ) -> Result<Outcome> {
        let SearchRequest {
            route,
            text,
            fields,
            filter,
            limit,
            cursor,
        } = request;
        if limit == 0 {
            return Err(Error::invalid(Problem::new(
                "query:limit",
                "range",
                "must be at least 1",
            )));
        }
        let limit = limit.min(self.desc.pagination.max_limit) as usize;
        let context = self.search_context(cx, route, text, &filter)?;
        let mut after = cursor
            .map(|cursor| self.open_cursor(cursor, &context))
            .transpose()?;
        let owners = self.owners(cx, route)?;
        let find = Find {
            text,
            fields,
            owners: &owners,
        };
        let mut page = self.rows(form).limit(limit, Vec::new());
        let mut last_hit = None;
        let (mut seen_ids, mut examined) = (HashSet::new(), 0);
        let mut wanted = limit + 1;
        while !page.more && examined < MAX_HITS {
            let mut hits = index.hits(&find, after.as_ref(), wanted).await?;
            hits.truncate(wanted);
            let is_last_chunk = hits.len() < wanted;
            examined += hits.len();
            after = hits.last().cloned();
            // A provider is not trusted: no record appears twice, and a hit that cannot be a key is
            // ignored.
            let hits: Vec<(Hit, Value)> = hits
                .into_iter()
                .filter(|hit| seen_ids.insert(hit.id.clone()))
                .filter_map(|hit| self.parse_id(&hit.id).map(|key| (hit, key)))
                .collect();
            if !hits.is_empty() {
                self.add_visible(cx, route, hits, &filter, &mut page, &mut last_hit)
                    .await?;
            } else if !is_last_chunk {
                // The provider returned only hits that it had returned before.
                break;
            }
            if is_last_chunk {
                break;
            }
            wanted = (wanted * 2).min(CHUNK.max(limit + 1));
        }
        if examined >= MAX_HITS && !page.more {
            tracing::warn!(
                entity = self.desc.name,
                looked = examined,
                "a search has ended after too many hits that its caller cannot see"
            );
        }
        // The cursor contains a record that the caller can see, never one that was left out.
        let seal = |Hit { id, score }: Hit| {
            self.cursors()
                .seal(&[], &[Value::Float(score), Value::Text(id)], &context)
        };
        let next_cursor = last_hit.filter(|_| page.more).map(seal);
        Ok(Outcome::Page {
            rows: page,
            next_cursor,
        })
    }

    /// Adds the records of some hits to a page, in the order of the hits, if the caller can see
    /// them.
    async fn add_visible(
        &self,
        cx: &Cx,
        route: &'static str,
        hits: Vec<(Hit, Value)>,
        filter: &Filter,
        page: &mut Rows,
        last_hit: &mut Option<Hit>,
    ) -> Result<()> {
        let keys: Vec<Value> = hits.iter().map(|(_, key)| key.clone()).collect();
        let found = self.find_by_keys(cx, route, &keys, filter.clone()).await?;
        let id = |record: &[Value]| match &record[self.desc.primary] {
            Value::Int(key) => key.to_string(),
            key => key.as_text().unwrap_or_default().to_owned(),
        };
        let mut records: HashMap<String, Box<[Value]>> = found
            .records
            .into_iter()
            .map(|record| (id(&record), record))
            .collect();
        for (hit, _) in hits {
            let Some(record) = records.remove(&hit.id) else {
                continue;
            };
            if !page.push(&record[..]) {
                break;
            }
            *last_hit = Some(hit);
        }
        Ok(())
    }

    /// The search text and filter, which all pages of a search share.
    fn search_context(
        &self,
        cx: &Cx,
        route: &'static str,
        text: &str,
        filter: &Filter,
    ) -> Result<Vec<u8>> {
        let mut context = Vec::with_capacity(128);
        for part in [self.desc.storage_name, "search provider", route, text] {
            context.extend_from_slice(&(part.len() as u32).to_le_bytes());
            context.extend_from_slice(part.as_bytes());
        }
        self.fingerprint(cx, route, &mut context)?;
        let (mut args, mut clock) = (Vec::new(), Clock::of(cx));
        lift(filter.clone(), &mut clock, &mut args, &mut context);
        clock.fingerprint(&args, &mut context);
        Ok(context)
    }

    fn open_cursor(&self, cursor: &str, context: &[u8]) -> Result<Hit> {
        // Only `search` seals cursors for this context. It seals a score and a key, which is short.
        // So a cursor that can be opened contains these two values.
        let unexpected = || Error::internal("a cursor of a search holds something else");
        let Position::Values(values) = self.cursors().open(cursor, (0, 2), context)?.position
        else {
            return Err(unexpected());
        };
        match &values[..] {
            [Value::Float(score), Value::Text(id)] => Ok(Hit {
                id: id.clone(),
                score: *score,
            }),
            _ => Err(unexpected()),
        }
    }
}
