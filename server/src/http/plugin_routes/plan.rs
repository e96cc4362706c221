//! A plugin route in the route table: reads and validates its input, and calls its function.

use axum::body::Body;
use axum::http::Response;
use axum::http::request::Parts;
use axum::response::IntoResponse;

use super::desc::{PluginHandler, RouteDesc, Transport};
use super::raw::RawBody;
use super::upgrade::Upgrade;
use super::{PluginCall, RouteBody};
use crate::http::request::Request;
use crate::http::{body, input, path, query};
use crate::validate::{Validator, read_whole};
use crate::{Cx, Error, Problem, Result, Value};

/// The data that is prepared at start-up.
pub(in crate::http) struct PluginRoutePlan {
    desc: &'static RouteDesc,
    rules: Option<Validator>,
    run: PluginHandler,
}

impl PluginRoutePlan {
    /// # Errors
    /// When a rule of the body does not compile.
    pub(in crate::http) fn new(desc: &'static RouteDesc, run: PluginHandler) -> Result<Self> {
        Ok(Self {
            desc,
            rules: desc.body.map(Validator::new).transpose()?,
            run,
        })
    }

    /// Whether the route has a body that is read.
    pub(in crate::http) fn takes_body(&self) -> bool {
        self.rules.is_some() || self.desc.form
    }

    /// Whether the function reads the body itself.
    pub(in crate::http) fn is_raw(&self) -> bool {
        self.desc.raw
    }

    /// Responds to a call whose body has been read. For a function that reads the body itself, the
    /// body is `raw`.
    ///
    /// # Errors
    /// `unknown_parameter`, the errors of the body, `validation_failed` with every problem, and the
    /// errors of the function.
    pub(in crate::http) async fn run(
        &self,
        request: &Request<'_>,
        cx: Cx,
        body: &[u8],
        raw: Option<RawBody>,
    ) -> Result<Response<Body>> {
        let Request { params, parts, .. } = *request;
        let mut problems = Vec::new();
        let query = self.parameters(parts, body, &mut problems)?;
        let body = match raw {
            Some(raw) => RouteBody::Raw(raw),
            None => self.body(&cx, parts, body, &mut problems)?,
        };
        if !problems.is_empty() {
            return Err(Error::validation(problems));
        }
        let texts = (0..params.len()).map(|at| {
            let text = path::decode(params.get(at).unwrap_or_default())?;
            (!text.contains('\0')).then(|| text.into_owned())
        });
        let call = PluginCall {
            // A segment that is not UTF-8, or has NUL, matches no record. PostgreSQL refuses NUL.
            params: texts.collect::<Option<_>>().ok_or_else(Error::not_found)?,
            query,
            upgrade: match self.desc.transport {
                Transport::Upgrade(protocol) => Upgrade::of(parts, protocol),
                Transport::Whole | Transport::Stream(_) => None,
            },
            from: cx.address(),
            cx,
            adapters: request.app.adapters.clone(),
            method: parts.method.clone(),
            headers: parts.headers.clone(),
            request_id: request.id.clone(),
        };
        Ok((self.run)(call, body).await?.into_response())
    }

    /// The parameters, of the query or of a form in the body.
    fn parameters(
        &self,
        parts: &Parts,
        body: &[u8],
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<Option<Value>>> {
        if !self.desc.form {
            return self.read(&query::pairs(parts.uri.query()), query::path, problems);
        }
        body::check_form(&parts.headers, body)?;
        // Bytes that are not UTF-8 match no declared parameter.
        let form = String::from_utf8_lossy(body);
        self.read(&query::pairs(Some(&form)), str::to_owned, problems)
    }

    fn read(
        &self,
        pairs: &[query::Pair<'_>],
        at: fn(&str) -> String,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<Option<Value>>> {
        let fields = self.desc.query;
        if !self.desc.lenient {
            query::refuse_unknown(
                pairs
                    .iter()
                    .map(|p| &*p.key)
                    .filter(|key| !fields.iter().any(|f| f.wire == *key)),
                || fields.iter().map(|f| f.wire),
            )?;
        }
        let mut out = vec![None; fields.len()];
        for (i, field) in fields.iter().enumerate() {
            let path = at(field.wire);
            let mut given = pairs.iter().filter(|pair| pair.key == field.wire);
            match (given.next(), given.next()) {
                (_, Some(_)) => {
                    problems.push(Problem::new(path, "duplicate", "must be given once"));
                }
                (Some(pair), None) => match pair.value.as_deref() {
                    Some(text) => out[i] = query::scalar(field, text, &path, problems),
                    None => problems.push(Problem::new(
                        path,
                        "format",
                        "must be percent-encoded UTF-8",
                    )),
                },
                (None, None) if field.optional => {}
                (None, None) => problems.push(Problem::new(path, "required", "is required")),
            }
        }
        Ok(out)
    }

    fn body(
        &self,
        cx: &Cx,
        parts: &Parts,
        bytes: &[u8],
        problems: &mut Vec<Problem>,
    ) -> Result<RouteBody> {
        let (Some(desc), Some(rules)) = (self.desc.body, &self.rules) else {
            return Ok(RouteBody::None);
        };
        input::check_content_type(&parts.headers, bytes)?;
        let value = read_whole(
            &desc.fields[0],
            "",
            self.desc.whole(),
            bytes,
            cx.now(),
            problems,
        )?;
        let Some(Value::Json(text)) = value else {
            return Ok(RouteBody::None);
        };
        // Values of the right type are validated even if others have the wrong type, so that all
        // problems are reported together.
        rules.collect_item_problems(0, &text, problems);
        Ok(RouteBody::Json(text))
    }
}
