//! A translated statement: its texts, and what each connection has prepared of them.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_postgres::types::Type;

use super::gather::Gather;
use super::lane::Live;
use super::render::{self, Bind};
use linchpin_core::entity::EntityDesc;
use linchpin_core::store::{Plan, Statement};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::access::Span;
use linchpin_sql::tries::Tries;

/// Texts for sets of null arguments that are kept; there are few in practice.
const KEPT: usize = 64;

/// The native form of a statement.
pub(super) struct Native {
    /// For calls without nulls among the arguments that matter.
    plain: Arc<Text>,
    decisive: Vec<usize>,
    others: Mutex<Vec<(Vec<usize>, Arc<Text>)>>,
    /// For calls of that kind, where many at a time can be answered together.
    pub(super) gather: Option<Gather>,
    /// How many rows a read looks at.
    pub(super) span: Span,
    pub(super) tries: Tries,
}

impl Native {
    pub(super) fn new(entity: &'static EntityDesc, plan: &Plan) -> Result<Self> {
        let rendered = render::render(entity, plan, &[])?;
        let decisive = rendered.decisive.clone();
        let span = Span::of(entity, plan);
        Ok(Self {
            plain: Arc::new(Text::new(rendered)),
            decisive,
            others: Mutex::new(Vec::new()),
            gather: if matches!(span, Span::One) {
                Gather::new(entity, plan)?
            } else {
                None
            },
            span,
            tries: Tries::default(),
        })
    }

    /// The native form of a statement this store has prepared.
    pub(super) fn of(statement: &Statement) -> Result<&Self> {
        statement
            .native
            .downcast_ref()
            .ok_or_else(|| Error::internal("the statement was prepared by another store"))
    }

    /// Whether a call has no nulls among the arguments that matter.
    pub(super) fn is_plain(&self, args: &[Value]) -> bool {
        !self.decisive.iter().any(|slot| is_null(args, *slot))
    }

    /// The text for a call.
    pub(super) fn text(&self, statement: &Statement, args: &[Value]) -> Result<Arc<Text>> {
        if self.is_plain(args) {
            return Ok(Arc::clone(&self.plain));
        }
        let nulls: Vec<usize> = self
            .decisive
            .iter()
            .copied()
            .filter(|slot| is_null(args, *slot))
            .collect();
        let mut others = self.others.lock();
        if let Some((_, text)) = others.iter().find(|(of, _)| *of == nulls) {
            return Ok(Arc::clone(text));
        }
        let text = Arc::new(Text::new(render::render(
            statement.entity,
            &statement.plan,
            &nulls,
        )?));
        if others.len() == KEPT {
            others.remove(0);
        }
        others.push((nulls, Arc::clone(&text)));
        Ok(text)
    }
}

fn is_null(args: &[Value], slot: usize) -> bool {
    args.get(slot).is_some_and(Value::is_null)
}

/// One text of a statement.
pub(super) struct Text {
    pub(super) binds: Vec<Bind>,
    rows: Sql,
    /// The same write without rows.
    counting: Option<Sql>,
    kinds: Vec<Type>,
}

/// A text and its prepared forms, by connection.
pub(super) struct Sql {
    text: String,
    prepared: Mutex<Vec<(u64, tokio_postgres::Statement)>>,
}

impl Sql {
    pub(super) fn new(text: String) -> Self {
        Self {
            text,
            prepared: Mutex::new(Vec::new()),
        }
    }

    /// What a connection has prepared of it; prepared now when it has not.
    pub(super) async fn prepared(
        &self,
        live: &Live,
        kinds: &[Type],
    ) -> std::result::Result<tokio_postgres::Statement, tokio_postgres::Error> {
        if let Some((_, statement)) = self.prepared.lock().iter().find(|(id, _)| *id == live.id) {
            return Ok(statement.clone());
        }
        let statement = live.client.prepare_typed(&self.text, kinds).await?;
        let mut prepared = self.prepared.lock();
        // Those of connections that are gone leave in time.
        if prepared.len() == KEPT {
            prepared.remove(0);
        }
        if prepared.iter().all(|(id, _)| *id != live.id) {
            prepared.push((live.id, statement.clone()));
        }
        Ok(statement)
    }
}

impl Text {
    fn new(rendered: render::Rendered) -> Self {
        let kinds = rendered.binds.iter().map(|b| b.kind.clone()).collect();
        Self {
            binds: rendered.binds,
            rows: Sql::new(rendered.sql),
            counting: rendered.counting.map(Sql::new),
            kinds,
        }
    }

    pub(super) fn can_count(&self) -> bool {
        self.counting.is_some()
    }

    /// What a connection has prepared of it; prepared now when it has not.
    pub(super) async fn prepared(
        &self,
        live: &Live,
        counting: bool,
    ) -> std::result::Result<tokio_postgres::Statement, tokio_postgres::Error> {
        self.counting
            .as_ref()
            .filter(|_| counting)
            .unwrap_or(&self.rows)
            .prepared(live, &self.kinds)
            .await
    }
}
