//! The executor of `search`.

use super::Search;
use crate::entity::{Paging, SearchDesc};
use crate::filter::{Filter, Op, Operand, Source};
use crate::operation::OpSpec;
use crate::operation::bind::{self, param_path};
use crate::resource::{
    BoxFuture, Call, Executor, Outcome, PageRequest, SearchRequest, Table, refused,
};
use crate::store::Order;
use crate::{Code, Error, Problem, Result, Value};

/// Plans an operation of this kind for one mounted entity.
pub(super) fn plan(
    kind: &'static Search,
    spec: &'static OpSpec,
    table: &Table,
) -> Box<dyn Executor> {
    Box::new(Run::new(kind, spec, table))
}

/// The maximum length of a search text, in characters.
const MAX_TEXT: usize = 512;

pub(super) struct Run {
    kind: &'static Search,
    spec: &'static OpSpec,
    filter: Filter,
    order: Vec<Order>,
}

impl Run {
    pub(super) fn new(kind: &'static Search, spec: &'static OpSpec, table: &Table) -> Self {
        let filter = kind.filter.as_ref().map_or(Filter::TRUE, Filter::from);
        Self {
            kind,
            spec,
            filter,
            order: table.order(table.desc.sort),
        }
    }

    /// The search text without surrounding blanks.
    fn text(&self, call: &Call<'_>) -> Result<String> {
        let problem = |code, message: String| {
            let path = self
                .spec
                .params
                .first()
                .map_or_else(String::new, param_path);
            Err(Error::invalid(Problem::new(path, code, message)))
        };
        let Some(Some(Value::Text(text))) = call.args.first() else {
            return problem("required", "is required".to_owned());
        };
        let text = text.trim();
        if text.is_empty() {
            return problem("empty", "must not be blank".to_owned());
        }
        // Calls from code may pass any text. No field contains a NUL, and one store cannot bind it.
        if text.contains('\0') {
            return problem("format", "must not contain NUL".to_owned());
        }
        if text.chars().count() > MAX_TEXT {
            return problem(
                "max_length",
                format!("must have at most {MAX_TEXT} characters"),
            );
        }
        Ok(text.to_owned())
    }

    async fn search(&self, table: &Table, call: &Call<'_>) -> Result<Outcome> {
        bind::check(self.spec, table, call, &[])?;
        bind::check_operands(self.spec, &self.filter, &call.args)?;
        let text = self.text(call)?;
        let filter = bind::resolve_page(self.filter.clone(), self.spec, call)?;
        if call.page.cursor.is_some() && !self.kind.paginate {
            return Err(Error::invalid(Problem::new(
                "query:cursor",
                "not_allowed",
                "the response is an array without pages",
            )));
        }
        let page = match table.desc.search.as_ref().filter(|_| !self.kind.in_store) {
            Some(search) => self.by_provider(table, call, search, &text, filter).await?,
            None => self.in_store(table, call, &text, filter).await?,
        };
        match page {
            Outcome::Page { rows, .. } if !self.kind.paginate => Ok(Outcome::List(rows)),
            page => Ok(page),
        }
    }

    fn limit(&self, table: &Table, call: &Call<'_>) -> u32 {
        let pagination = &table.desc.pagination;
        let omitted = if self.kind.paginate {
            pagination.default_limit
        } else {
            pagination.max_limit
        };
        call.page.limit.unwrap_or(omitted)
    }

    async fn in_store(
        &self,
        table: &Table,
        call: &Call<'_>,
        text: &str,
        filter: Filter,
    ) -> Result<Outcome> {
        let contains_text = |field: &usize| {
            Filter::cond(
                *field,
                Op::Contains,
                Operand::One(Source::Value(Value::Text(text.to_owned()))),
            )
        };
        let found = Filter::Any(self.kind.fields.iter().map(contains_text).collect());
        let page = Paging::Limit
            .resolve(&call.page, Some(self.limit(table, call)))
            .map_err(refused)?;
        let page_request = PageRequest {
            route: self.spec.name,
            sort: None,
            filter: found.and(filter),
            order: self.order.clone(),
            page,
        };
        table.page(call.cx, page_request, call.form).await
    }

    async fn by_provider(
        &self,
        table: &Table,
        call: &Call<'_>,
        search: &SearchDesc,
        text: &str,
        filter: Filter,
    ) -> Result<Outcome> {
        let cursor = call.page.cursor.as_deref();
        let request = SearchRequest {
            route: self.spec.name,
            text,
            fields: self.kind.fields,
            filter: filter.clone(),
            limit: self.limit(table, call),
            cursor,
        };
        let found = match table.search_index() {
            Some(index) => table.search(call.cx, index, request, call.form).await,
            None => Err(Error::unavailable(format!(
                "search provider `{}` is not open yet",
                search.provider
            ))),
        };
        let error = match found {
            Err(error) if search.fallback => error,
            found => return found,
        };
        match error.code() {
            // The store sorts in another order, so it cannot continue the pages of a provider. It
            // replaces the provider only for a first page.
            Code::Unavailable if cursor.is_none() => {
                let cause =
                    std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
                tracing::warn!(
                    entity = table.desc.name,
                    cause,
                    "the search provider failed; the store searches instead"
                );
            }
            // The provider cannot open the cursor; it may be from a page of the store.
            Code::InvalidCursor => {}
            _ => return Err(error),
        }
        self.in_store(table, call, text, filter).await
    }
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move { self.search(table, &call).await })
    }
}
