//! `search`: the records in whose texts something stands.

use super::{Answer, Kind};
use crate::Code;
use crate::filter::FilterSpec;

/// Options of a search. What is searched for is the first parameter, `q`.
#[derive(Debug)]
pub struct Search {
    /// The fields that are searched: texts.
    pub fields: &'static [usize],
    /// A further filter.
    pub filter: Option<FilterSpec>,
    /// Answer a page instead of an array.
    pub paginate: bool,
}

#[doc(hidden)]
impl Search {
    /// A search in these fields.
    pub const fn new(fields: &'static [usize]) -> Self {
        Self { fields, filter: None, paginate: false }
    }

    /// With a further filter.
    #[must_use]
    pub const fn filter(self, filter: FilterSpec) -> Self {
        Self { filter: Some(filter), ..self }
    }

    /// Answers a page.
    #[must_use]
    pub const fn paginate(self) -> Self {
        Self { paginate: true, ..self }
    }
}

impl Kind for Search {
    fn name(&self) -> &'static str {
        "search"
    }

    fn capability(&self) -> &'static str {
        "operation.search"
    }

    fn reads(&self) -> bool {
        true
    }

    fn returns(&self) -> Answer {
        if self.paginate { Answer::Page } else { Answer::List }
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::ValidationFailed]
    }

    fn filter(&self) -> Option<&FilterSpec> {
        self.filter.as_ref()
    }

    #[cfg(feature = "server")]
    fn plan(
        &'static self,
        spec: &'static super::OpSpec,
        table: &crate::resource::Table,
    ) -> crate::Result<Box<dyn crate::resource::Executor>> {
        Ok(Box::new(run::Run::new(self, spec, table)))
    }
}

#[cfg(feature = "server")]
mod run {
    use super::Search;
    use crate::filter::{Filter, Op, Operand, Source};
    use crate::operation::OpSpec;
    use crate::operation::bind::{self, param_path};
    use crate::resource::{BoxFuture, Call, Executor, Outcome, Table};
    use crate::store::Order;
    use crate::{Error, Problem, Result, Value};

    /// Most characters of what is searched for.
    const LONGEST: usize = 512;

    pub(super) struct Run {
        kind: &'static Search,
        spec: &'static OpSpec,
        further: Filter,
        order: Vec<Order>,
    }

    impl Run {
        pub(super) fn new(kind: &'static Search, spec: &'static OpSpec, table: &Table) -> Self {
            let further = kind.filter.as_ref().map_or(Filter::TRUE, Filter::from);
            Self { kind, spec, further, order: table.order(table.desc.sort.field, table.desc.sort.desc) }
        }

        /// What is searched for, without the blanks around it.
        fn text(&self, call: &Call<'_>) -> Result<String> {
            let problem = |code, message: String| {
                let path = self.spec.params.first().map_or_else(String::new, param_path);
                Err(Error::invalid(Problem::new(path, code, message)))
            };
            let Some(Some(Value::Text(text))) = call.args.first() else {
                return problem("required", "is required".to_owned());
            };
            let text = text.trim();
            if text.is_empty() {
                return problem("empty", "must not be blank".to_owned());
            }
            // Code that calls gives any text; no field holds a NUL, and one store cannot even bind it.
            if text.contains('\0') {
                return problem("format", "must not contain NUL".to_owned());
            }
            if text.chars().count() > LONGEST {
                return problem("max_length", format!("must have at most {LONGEST} characters"));
            }
            Ok(text.to_owned())
        }

        async fn search(&self, table: &Table, call: &Call<'_>) -> Result<Outcome> {
            bind::check(self.spec, table, call, &[])?;
            bind::check_operands(self.spec, &self.further, &call.args)?;
            let text = self.text(call)?;
            let holds = |field: &usize| Filter::cond(*field, Op::Contains, Operand::One(Source::Value(Value::Text(text.clone()))));
            let found = Filter::Any(self.kind.fields.iter().map(holds).collect());
            let filter = found.and(bind::resolve(self.further.clone(), call.cx, &call.args)?);
            let pagination = &table.desc.pagination;
            let cursor = call.page.cursor.as_deref();
            if self.kind.paginate {
                let limit = Some(call.page.limit.unwrap_or(pagination.default_limit));
                return table.page(call.cx, self.spec.name, filter, self.order.clone(), limit, cursor, call.form).await;
            }
            if cursor.is_some() {
                return Err(Error::invalid(Problem::new("query:cursor", "not_allowed", "the answer is an array without pages")));
            }
            let limit = Some(call.page.limit.unwrap_or(pagination.max_limit));
            match table.page(call.cx, self.spec.name, filter, self.order.clone(), limit, None, call.form).await? {
                Outcome::Page { rows, .. } => Ok(Outcome::List(rows)),
                other => Ok(other),
            }
        }
    }

    impl Executor for Run {
        fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
            Box::pin(async move { self.search(table, &call).await })
        }
    }
}
