//! Operations over HTTP: reads their parameters from path, query and body.

use std::sync::Arc;

use super::include::{self, RequestedRelations};
use super::mounted::Target;
use super::query::{self, Pair};
use super::request::{EntityRequest, Request};
use super::{input, path};
use crate::entity::{EntityDesc, FieldDesc, Kind, PageArgs, Paging};
use crate::filter::SourceSpec;
use crate::operation::bind::param_path;
use crate::operation::{Answer, Method, NamedSort, OpSpec, ParamSpec, Place, Whole};
use crate::resource::{Executor, Table};
use crate::validate::{Body, Json, list_value, read_param_members, read_whole};
use crate::{Cx, Error, Problem, Result, Value};

/// The type of one element of a list of texts.
static ELEMENT: FieldDesc = FieldDesc::new("", "", "", Kind::StringArray, false);

/// The plan of an operation's route.
pub(super) struct OperationPlan {
    pub(super) spec: &'static OpSpec,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) answer: Answer,
    /// Whether `If-Match` applies to the call: it writes one record.
    pub(super) conditional: bool,
    /// The carrier of each parameter.
    sources: Box<[Carrier]>,
    /// The names of the page parameters.
    pages: Box<[(&'static str, PageKey)]>,
    /// The carrier of the page parameters.
    carrier: Carrier,
    /// The `Location` of new records; `None` if the kind creates none.
    pub(super) location: Option<NewRecordLocation>,
}

/// The `Location` of new records of an entity.
pub(super) struct NewRecordLocation {
    /// The path of a record; its id is the last parameter: `/posts/{id}`.
    pub(super) path: String,
    /// The number of parameters before the id.
    pub(super) parents: usize,
    /// Ids that would be the path of another route.
    pub(super) reserved: Box<[String]>,
}

impl NewRecordLocation {
    /// Reports an id that is the path of another route.
    pub(super) fn check(&self, table: &Table, id: Option<&Value>, problems: &mut Vec<Problem>) {
        if let Some(Value::Text(id)) = id
            && self.reserved.contains(id)
        {
            problems.push(Problem::new(
                table.desc.primary_field().wire,
                "reserved",
                "is the path of another route",
            ));
        }
    }
}

/// The part of a request that carries a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    /// The record's id, in the path parameter at a position.
    Id(usize),
    /// The path parameter at a position.
    Path(usize),
    Query,
    Body,
    /// The whole body.
    Whole(Whole),
}

/// The inputs of a request.
pub(super) struct OperationInput {
    pub(super) args: Vec<Option<Value>>,
    pub(super) page: PageArgs,
    pub(super) wanted: RequestedRelations,
}

impl OperationPlan {
    /// # Errors
    /// When the store refuses a statement of the operation, or the path lacks the record's id.
    pub(super) fn new(
        spec: &'static OpSpec,
        method: Method,
        names: &[String],
        table: &Table,
    ) -> Result<Self> {
        let carrier =
            |param: &ParamSpec| match (names.iter().position(|n| n == param.name), param.place) {
                (Some(at), Place::Id) => Ok(Carrier::Id(at)),
                (Some(at), _) => Ok(Carrier::Path(at)),
                (None, Place::Id) => Err(Error::internal(format!(
                    "operation `{}`: the path has no parameter `{}`",
                    spec.name, param.name
                ))),
                (None, Place::Body) => Ok(Carrier::Body),
                (_, Place::Whole(whole)) => Ok(Carrier::Whole(whole)),
                (None, Place::Query | Place::Segment) => Ok(Carrier::Query),
            };
        let sources: Box<[Carrier]> = spec.params.iter().map(carrier).collect::<Result<_>>()?;
        let answer = spec.kind.returns();
        let carrier = if matches!(method, Method::Get | Method::Delete) {
            Carrier::Query
        } else {
            Carrier::Body
        };
        Ok(Self {
            executor: table.executor(spec)?,
            answer,
            conditional: method != Method::Get && spec.kind.by_id(),
            sources,
            location: None,
            pages: PageKey::of(spec),
            carrier,
            spec,
        })
    }

    /// Reads the parameters, the page and `include` of a request.
    ///
    /// # Errors
    /// `unknown_parameter`, the body's errors, `validation_failed` with every problem; `not_found`
    /// for an id that cannot be the key of a record.
    pub(super) fn read(
        &self,
        target: &Target,
        request: &EntityRequest<'_>,
        mut problems: Vec<Problem>,
    ) -> Result<OperationInput> {
        let (table, include) = (&*target.table, &target.include);
        let (Request { params, parts, .. }, cx) = (request.head, &request.cx);
        let body = &*request.body;
        let mut read = OperationInput {
            args: vec![None; self.sources.len()],
            page: PageArgs::default(),
            wanted: RequestedRelations::default(),
        };
        let pairs = query::pairs(parts.uri.query());
        let includes = |pair: &Pair<'_>| {
            self.key(&pair.key).is_none() && pair.key == include::NAME && !include.is_empty()
        };
        let known = |pair: &Pair<'_>| {
            self.key(&pair.key).is_some() || (includes(pair) && include.knows(pair))
        };
        let names = || {
            let params = self
                .spec
                .params
                .iter()
                .zip(&self.sources)
                .filter(|(_, source)| **source == Carrier::Query)
                .map(|(p, _)| p.name);
            params.chain(self.pages_in(Carrier::Query).iter().map(|(name, _)| *name))
        };
        query::refuse_unknown(pairs.iter().filter(|p| !known(p)).map(|p| &*p.key), names)?;
        match self.whole() {
            None => self.body(
                table,
                cx,
                &input::object(&parts.headers, body)?,
                &mut read,
                &mut problems,
            ),
            Some((index, whole)) => {
                input::check_content_type(&parts.headers, body)?;
                let (field, key) = (
                    self.spec.params[index].field_of(table.desc),
                    self.spec.kind.bounds().map_or("", |b| b.key),
                );
                read.args[index] = read_whole(field, key, whole, body, cx.now(), &mut problems)?;
            }
        }
        let mut no_record = false;
        for (index, param) in self.spec.params.iter().enumerate() {
            let (Carrier::Id(at) | Carrier::Path(at)) = self.sources[index] else {
                continue;
            };
            let text = params.get(at).and_then(path::decode);
            if let Carrier::Id(_) = self.sources[index] {
                read.args[index] = text.and_then(|text| table.parse_id(&text));
                no_record |= read.args[index].is_none();
                continue;
            }
            let at = format!("path:{}", param.name);
            match text {
                Some(text) => {
                    let field = if param.element {
                        &ELEMENT
                    } else {
                        param.field_of(table.desc)
                    };
                    read.args[index] = query::scalar(field, &text, &at, &mut problems);
                }
                None => problems.push(Problem::new(at, "format", "must be percent-encoded UTF-8")),
            }
        }
        let mut seen: Vec<&str> = Vec::new();
        for pair in &pairs {
            if seen.contains(&&*pair.key) && self.is_list(pair) {
                // All its values are read at its first occurrence.
                continue;
            }
            if seen.contains(&&*pair.key) || self.null_and_value(pair, &pairs) {
                query::duplicate(pair, &mut problems);
                continue;
            }
            seen.push(&pair.key);
            if includes(pair) {
                read.wanted = include.read(pair, &mut problems);
                continue;
            }
            self.pair(table, pair, &pairs, &mut read, &mut problems);
        }
        self.check_page(table, &read.page, &mut problems);
        if !problems.is_empty() {
            self.report_missing(&read.args, &mut problems);
            self.check_rules(table, &read.args, &mut problems);
            return Err(Error::validation(problems));
        }
        self.spec.complete(|| cx.now(), &mut read.args);
        if no_record {
            Err(Error::not_found())
        } else {
            Ok(read)
        }
    }

    /// Whether a parameter is in the body.
    pub(super) fn takes_body(&self) -> bool {
        let of_body = |carrier: &Carrier| matches!(carrier, Carrier::Body | Carrier::Whole(_));
        self.sources.iter().any(of_body) || !self.pages_in(Carrier::Body).is_empty()
    }

    /// The parameter that is the whole body.
    fn whole(&self) -> Option<(usize, Whole)> {
        self.sources
            .iter()
            .enumerate()
            .find_map(|(i, source)| match source {
                Carrier::Whole(whole) => Some((i, *whole)),
                _ => None,
            })
    }

    /// Reads the members of the body: parameters, and the page parameters if the body carries
    /// them.
    fn body(
        &self,
        table: &Table,
        cx: &Cx,
        body: &Body<'_>,
        read: &mut OperationInput,
        problems: &mut Vec<Problem>,
    ) {
        let problems_before = problems.len();
        read.args = read_param_members(table.desc, self.spec.params, body, cx.now(), problems);
        let is_param = |name: &str| {
            self.spec
                .params
                .iter()
                .any(|p| p.place == Place::Body && p.name == name)
        };
        for (name, key) in self
            .pages_in(Carrier::Body)
            .iter()
            .filter(|(name, _)| !is_param(name))
        {
            let Some(value) = body.get(name) else {
                continue;
            };
            // The reader of parameters does not know this member.
            if let Some(at) = problems[problems_before..]
                .iter()
                .position(|p| p.path == *name && p.code == "unknown_field")
            {
                problems.remove(problems_before + at);
            }
            match (key, value) {
                (PageKey::Limit | PageKey::Number, Json::Number(text)) => {
                    match query::positive(text) {
                        Ok(number) => *key.number(&mut read.page) = Some(number),
                        Err((code, message)) => problems.push(Problem::new(*name, code, message)),
                    }
                }
                (PageKey::Cursor, Json::Text(text)) => {
                    read.page.cursor = Some(text.clone().into_owned());
                }
                (PageKey::Sort, Json::Text(text)) => self.sort(text, name, read, problems),
                (PageKey::Limit | PageKey::Number, _) => {
                    problems.push(Problem::new(*name, "type", "must be a whole number"));
                }
                (PageKey::Cursor | PageKey::Sort, _) => {
                    problems.push(Problem::new(*name, "type", "must be text"));
                }
            }
        }
    }

    fn key(&self, key: &str) -> Option<Key> {
        let in_query = |name: &str| {
            (0..self.sources.len())
                .find(|i| self.sources[*i] == Carrier::Query && self.spec.params[*i].name == name)
        };
        if let Some(index) = in_query(key) {
            return Some(Key::Value(index));
        }
        if let Some(index) = key.strip_suffix("[null]").and_then(in_query) {
            return Some(Key::Null(index));
        }
        self.pages_in(Carrier::Query)
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, key)| Key::Page(*key))
    }

    /// The page parameters in a carrier.
    fn pages_in(&self, carrier: Carrier) -> &[(&'static str, PageKey)] {
        if self.carrier == carrier {
            &self.pages
        } else {
            &[]
        }
    }

    /// Reads the name of an order.
    fn sort(&self, name: &str, path: &str, read: &mut OperationInput, problems: &mut Vec<Problem>) {
        let sorts = self.spec.kind.sorts();
        if sorts.iter().any(|sort| sort.name == name) {
            read.page.sort = Some(name.to_owned());
        } else {
            problems.push(Problem::new(path, "enum", NamedSort::one_of(sorts)));
        }
    }

    /// Reports a page number beyond the limit, or a page number together with a cursor.
    fn check_page(&self, table: &Table, page: &PageArgs, problems: &mut Vec<Problem>) {
        let paging = self
            .spec
            .kind
            .paging()
            .within(table.desc.pagination.max_limit);
        if paging == Paging::Limit {
            return;
        }
        if let Err((name, code, message)) = paging.resolve(
            &PageArgs {
                sort: None,
                ..page.clone()
            },
            None,
        ) {
            let path = if self.carrier == Carrier::Query {
                query::path(name)
            } else {
                name.to_owned()
            };
            problems.push(Problem::new(path, code, message));
        }
    }

    /// Whether a parameter is given both as a value and as null. The problem is reported at the
    /// null.
    fn null_and_value(&self, pair: &Pair<'_>, pairs: &[Pair<'_>]) -> bool {
        matches!(self.key(&pair.key), Some(Key::Null(index)) if pairs.iter().any(|p| p.key == self.spec.params[index].name))
    }

    /// Whether a parameter accepts a list. A repeated key adds values.
    fn is_list(&self, pair: &Pair<'_>) -> bool {
        matches!(self.key(&pair.key), Some(Key::Value(index)) if self.spec.params[index].list)
    }

    /// Reads a parameter. A list is read from all of `pairs` with its key.
    fn pair(
        &self,
        table: &Table,
        pair: &Pair<'_>,
        pairs: &[Pair<'_>],
        read: &mut OperationInput,
        problems: &mut Vec<Problem>,
    ) {
        match self.key(&pair.key) {
            Some(Key::Page(key @ (PageKey::Limit | PageKey::Number))) => {
                *key.number(&mut read.page) = query::limit(pair, problems);
            }
            Some(Key::Page(PageKey::Cursor)) => {
                read.page.cursor = query::text(pair, problems).map(str::to_owned);
            }
            Some(Key::Page(PageKey::Sort)) => {
                if let Some(name) = query::text(pair, problems) {
                    self.sort(name, &pair.path(), read, problems);
                }
            }
            Some(Key::Null(index)) => match query::boolean(pair, problems) {
                Some(true) if !self.spec.params[index].nullable => {
                    problems.push(Problem::new(
                        pair.path(),
                        "null_not_allowed",
                        "must not be null",
                    ));
                }
                Some(true) => read.args[index] = Some(Value::Null),
                Some(false) => {
                    problems.push(Problem::new(pair.path(), "enum", "must be true when given"));
                }
                None => {}
            },
            Some(Key::Value(index)) => {
                let param = &self.spec.params[index];
                let field = param.field_of(table.desc);
                if param.list {
                    let given = pairs.iter().filter(|p| p.key == pair.key);
                    let Some(items) = given
                        .map(|p| query::comma_list(p, problems))
                        .collect::<Option<Vec<_>>>()
                    else {
                        return;
                    };
                    let values = items
                        .iter()
                        .flatten()
                        .map(|item| query::scalar(field, item, &pair.path(), problems));
                    read.args[index] = values
                        .collect::<Option<Vec<_>>>()
                        .map(|values| list_value(&values));
                } else if let Some(text) = query::text(pair, problems) {
                    read.args[index] = query::scalar(field, text, &pair.path(), problems);
                }
            }
            None => {}
        }
    }

    /// The argument of a call for a field.
    pub(super) fn argument<'a>(&self, read: &'a OperationInput, field: usize) -> Option<&'a Value> {
        let index = self
            .spec
            .params
            .iter()
            .position(|p| p.field == field && p.entity.is_none())?;
        read.args.get(index)?.as_ref()
    }

    /// Checks that required parameters are present, before an override or a permission. Executors
    /// check it themselves.
    ///
    /// # Errors
    /// `validation_failed` with every problem.
    pub(super) fn check_required(&self, args: &[Option<Value>]) -> Result<()> {
        let mut problems = Vec::new();
        self.report_missing(args, &mut problems);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Error::validation(problems))
        }
    }

    /// Reports missing parameters of a call that is refused anyway. For other calls the executor
    /// reports them.
    fn report_missing(&self, args: &[Option<Value>], problems: &mut Vec<Problem>) {
        for (index, param) in self.spec.params.iter().enumerate() {
            let path = match self.sources[index] {
                Carrier::Id(_) => continue,
                Carrier::Path(_) => format!("path:{}", param.name),
                Carrier::Query => query::path(param.name),
                Carrier::Body => param.name.to_owned(),
                Carrier::Whole(_) => String::new(),
            };
            let reported = |p: &Problem| {
                p.path == path
                    || p.path
                        .strip_prefix(&path)
                        .is_some_and(|rest| rest.starts_with('['))
            };
            if param.required && args[index].is_none() && !problems.iter().any(reported) {
                problems.push(Problem::new(path, "required", "is required"));
            }
        }
    }
}

impl OperationPlan {
    /// Reports written values that break a rule, for a call that is refused anyway. For other calls
    /// the executor reports them.
    fn check_rules(&self, table: &Table, args: &[Option<Value>], problems: &mut Vec<Problem>) {
        let given = self
            .spec
            .params
            .iter()
            .zip(args)
            .enumerate()
            .filter_map(|(i, (param, value))| Some((i, param, value.as_ref()?)));
        for (index, param, value) in
            given.filter(|(_, param, value)| !value.is_null() && param.entity.is_none())
        {
            match (param.place, value) {
                (Place::Whole(Whole::Item | Whole::Patch), Value::Json(item)) => {
                    table
                        .validator
                        .collect_item_problems(param.field, item, problems);
                }
                (Place::Whole(_), _) => table.validator.check(param.field, value, "", problems),
                _ => {
                    let written = |field: &usize| matches!(self.spec.kind.writes(*field), Some(SourceSpec::Param(of)) if *of == index);
                    for field in (0..table.desc.fields.len()).filter(written) {
                        table
                            .validator
                            .check(field, value, &param_path(param), problems);
                    }
                }
            }
        }
        self.executor.judge(table, args, problems);
    }
}

/// A declared key of the query.
enum Key {
    Page(PageKey),
    Value(usize),
    Null(usize),
}

/// A page parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKey {
    /// The number of records.
    Limit,
    Cursor,
    Number,
    Sort,
}

impl PageKey {
    /// The page parameters of a list route, without its orders.
    pub(crate) fn of_list(desc: &EntityDesc) -> Vec<(&'static str, Self)> {
        match desc.paging {
            Paging::Limit => vec![("limit", Self::Limit), ("cursor", Self::Cursor)],
            Paging::Number { .. } => vec![
                ("page", Self::Number),
                ("pageSize", Self::Limit),
                ("cursor", Self::Cursor),
            ],
        }
    }

    /// The page parameters of an operation; empty if it returns no page.
    pub(crate) fn of(spec: &OpSpec) -> Box<[(&'static str, Self)]> {
        let numbered = spec.kind.paging() != Paging::Limit;
        let limit = if numbered {
            ("pageSize", Self::Limit)
        } else {
            ("limit", Self::Limit)
        };
        match spec.kind.returns() {
            Answer::Page => {
                let number = numbered.then_some(("page", Self::Number));
                let sort = (!spec.kind.sorts().is_empty()).then_some(("sort", Self::Sort));
                number
                    .into_iter()
                    .chain([limit, ("cursor", Self::Cursor)])
                    .chain(sort)
                    .collect()
            }
            Answer::List => Box::new([limit]),
            _ => Box::default(),
        }
    }

    /// The member of `page` that it sets.
    fn number(self, page: &mut PageArgs) -> &mut Option<u32> {
        if self == Self::Number {
            &mut page.page
        } else {
            &mut page.limit
        }
    }
}
