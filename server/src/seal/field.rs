//! Re-encryption of a field.

use std::borrow::Cow;
use std::sync::Arc;

use super::{DataKeys, Place, Reseal, SealError};
use crate::entity::{Entity, EntityDesc, Field, FieldType, IndexDesc, PageArgs};
use crate::filter::{Filter, Op, Operand, Source};
use crate::resource::{Adapters, BoxFuture, Form, ListRequest, Outcome, Table};
use crate::{Cx, Error, Result, Value};

/// The number of records in one read.
const PAGE_SIZE: u32 = 100;
/// The maximum number of successive reads whose records all changed before they could be written.
const MAX_IDLE_READS: u32 = 10;
/// The range of texts that contains every encrypted value: the values begin with `v1.`, and `/` is
/// the character after `.`.
const ENCRYPTED_RANGE: (&str, &str) = ("v1.", "v1/");

/// A text field that holds one encrypted value, bound to [`Place::of`] the field and the record.
pub(crate) struct SealedField {
    table: Arc<Table>,
    /// The position of the field.
    field: usize,
    /// `endpoints.secret`.
    name: String,
    keys: Arc<DataKeys>,
}

/// A record with an encrypted value.
pub(crate) struct Sealed {
    id: Value,
    /// The id as text.
    key: String,
    value: String,
}

impl SealedField {
    /// # Errors
    /// If no package of the app lists the entity.
    pub(crate) fn new<F: Field>(
        _field: F,
        adapters: &Adapters,
        keys: &Arc<DataKeys>,
    ) -> Result<Self>
    where
        F::Ty: FieldType<Inner = String>,
    {
        let desc = F::Entity::DESC;
        let table = adapters.table(desc.storage_name).ok_or_else(|| {
            Error::internal(format!(
                "entity `{}` is in no package of this app",
                desc.name
            ))
        })?;
        Ok(Self {
            table: Arc::clone(table),
            field: F::INDEX,
            name: format!("{}.{}", desc.storage_name, desc.fields[F::INDEX].column),
            keys: Arc::clone(keys),
        })
    }

    fn desc(&self) -> &'static EntityDesc {
        self.table.desc
    }

    /// The call of the application itself that reaches deleted records.
    fn cx(&self, cx: &Cx) -> Result<Cx> {
        let present: Cow<'_, Cx> = self.table.at_present(cx);
        present
            .into_owned()
            .into_system("rekey")
            .including_deleted()
    }

    /// At most `limit` records whose value is between two texts.
    async fn between(&self, cx: &Cx, from: &str, to: &str, limit: u32) -> Result<Vec<Sealed>> {
        let bound = |op: Op, text: &str| {
            let value = Source::Value(Value::Text(text.to_owned()));
            Filter::cond(self.field, op, Operand::One(value))
        };
        let request = ListRequest {
            filter: Some(bound(Op::Gte, from).and(bound(Op::Lt, to))),
            page: PageArgs {
                limit: Some(limit),
                ..PageArgs::default()
            },
            deleted: true,
            ..ListRequest::default()
        };
        let Outcome::Page { rows, .. } = self.table.list(cx, request, &Form::Records).await? else {
            return Err(Error::internal("a list returned no page"));
        };
        let records = rows.records.into_iter().filter_map(|record| {
            let mut record = record.into_vec();
            let id = std::mem::take(record.get_mut(self.desc().primary)?);
            let Value::Text(value) = std::mem::take(record.get_mut(self.field)?) else {
                return None;
            };
            let key = match &id {
                Value::Text(text) => text.clone(),
                Value::Int(number) => number.to_string(),
                _ => return None,
            };
            Some(Sealed { id, key, value })
        });
        Ok(records.collect())
    }

    /// At most `limit` records whose values are encrypted with a key.
    pub(crate) async fn encrypted_with(
        &self,
        cx: &Cx,
        kid: &str,
        limit: u32,
    ) -> Result<Vec<Sealed>> {
        let (from, to) = range(kid);
        self.between(cx, &from, &to, limit).await
    }

    /// Encrypts the value of a record with the newest key, unless the value changed meanwhile.
    /// Returns the number of records that were written.
    pub(crate) async fn rewrite(&self, cx: &Cx, record: Sealed) -> Result<u64> {
        let place = Place {
            entity: self.desc().storage_name,
            id: &record.key,
            field: self.desc().fields[self.field].column,
        };
        let broken = |error: SealError| {
            Error::internal(format!("`{}` of `{}`: {error}", self.name, record.key))
        };
        let plain = self.keys.open(place, &record.value).map_err(broken)?;
        let sealed = self.keys.seal(place, plain.expose())?;
        let unchanged = vec![
            (self.desc().primary, record.id),
            (self.field, Value::Text(record.value)),
        ];
        let sets = vec![(self.field, Value::Text(sealed))];
        let rows = self
            .table
            .write_once(cx, "update", unchanged, sets, &Form::Records)
            .await?;
        Ok(rows.count as u64)
    }

    async fn rewrite_all(&self, cx: &Cx, kid: &str) -> Result<u64> {
        let (cx, mut rewritten, mut idle) = (self.cx(cx)?, 0, 0);
        loop {
            let page = self.encrypted_with(&cx, kid, PAGE_SIZE).await?;
            if page.is_empty() {
                return Ok(rewritten);
            }
            let before = rewritten;
            for record in page {
                rewritten += self.rewrite(&cx, record).await?;
            }
            idle = if rewritten == before { idle + 1 } else { 0 };
            if idle == MAX_IDLE_READS {
                return Err(Error::kept_changing());
            }
        }
    }

    /// Looks for a value outside the ranges of the configured keys, if the field has an index.
    /// Without an index, this would be too slow for every start.
    async fn find_unconfigured_key(&self, cx: &Cx) -> Result<Option<String>> {
        let indexed = |index: &IndexDesc| {
            index
                .fields
                .first()
                .is_some_and(|first| first.field == self.field)
        };
        if !self.desc().indexes.iter().any(indexed) {
            return Ok(None);
        }
        let cx = self.cx(cx)?;
        let mut known_ranges: Vec<(String, String)> = self.keys.kids().map(range).collect();
        known_ranges.sort_unstable();
        let mut from = ENCRYPTED_RANGE.0.to_owned();
        for (begin, end) in known_ranges
            .into_iter()
            .chain([(ENCRYPTED_RANGE.1.to_owned(), String::new())])
        {
            if let Some(found) = self.between(&cx, &from, &begin, 1).await?.pop() {
                let kid = found.value.split('.').nth(1).unwrap_or_default();
                return Ok(Some(kid.to_owned()));
            }
            from = end;
        }
        Ok(None)
    }
}

/// The range of values that are encrypted with a key.
fn range(kid: &str) -> (String, String) {
    (format!("v1.{kid}."), format!("v1.{kid}/"))
}

impl Reseal for SealedField {
    fn name(&self) -> &str {
        &self.name
    }

    fn reseal<'a>(&'a self, cx: &'a Cx, kid: &'a str) -> BoxFuture<'a, Result<u64>> {
        Box::pin(self.rewrite_all(cx, kid))
    }

    fn needs<'a>(&'a self, cx: &'a Cx, kid: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { Ok(!self.encrypted_with(&self.cx(cx)?, kid, 1).await?.is_empty()) })
    }

    fn gone<'a>(&'a self, cx: &'a Cx) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(self.find_unconfigured_key(cx))
    }
}
