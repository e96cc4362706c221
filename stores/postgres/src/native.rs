//! A translated statement: its texts, and its prepared forms for each connection.

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
use linchpin_sql::kept::Kept;
use linchpin_sql::names::{Naming, Prepared};
use linchpin_sql::short_reads::ShortReads;

/// The maximum number of cached texts for sets of null arguments; there are few in practice.
const KEPT: usize = 64;

/// The native form of a statement.
pub(super) struct Native {
    /// For calls in which no decisive argument is null.
    plain: Arc<Text>,
    decisive: Vec<usize>,
    others: Mutex<Vec<(Vec<usize>, Arc<Text>)>>,
    /// For such calls, if many of them can be answered together.
    pub(super) gather: Option<Gather>,
    /// The number of rows that a read examines.
    pub(super) span: Span,
    pub(super) short_reads: ShortReads,
    /// The names that it is rendered with.
    pub(super) naming: Arc<Naming>,
}

impl Native {
    pub(super) fn new(
        entity: &'static EntityDesc,
        plan: &Plan,
        naming: &Arc<Naming>,
    ) -> Result<Self> {
        let rendered = render::render(entity, plan, naming, &[])?;
        let decisive = rendered.decisive.clone();
        let span = Span::of(entity, plan);
        Ok(Self {
            plain: Arc::new(Text::new(rendered)),
            decisive,
            others: Mutex::new(Vec::new()),
            gather: if matches!(span, Span::One) {
                Gather::new(entity, plan, naming)?
            } else {
                None
            },
            span,
            short_reads: ShortReads::default(),
            naming: Arc::clone(naming),
        })
    }

    /// The native form of a statement that this store has prepared, under the present names.
    pub(super) fn of(statement: &Statement) -> Result<&Self> {
        let prepared: &Prepared<Self> = statement
            .native
            .downcast_ref()
            .ok_or_else(|| Error::internal("the statement was prepared by another store"))?;
        prepared.form(|naming| Self::new(statement.entity, &statement.plan, naming))
    }

    /// The native form of a statement for one generation of names.
    pub(super) fn at(statement: &Statement, generation: u64) -> Option<&Self> {
        let prepared: &Prepared<Self> = statement.native.downcast_ref()?;
        prepared.at(generation)
    }

    /// Whether no decisive argument of a call is null.
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
            &self.naming,
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
    /// The fields that have an earlier column as well.
    pub(super) kept: Box<[Kept]>,
    pub(super) binds: Vec<Bind>,
    rows: Sql,
    /// The same write without result rows.
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

    /// The prepared form for a connection; prepares it if needed.
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
        // Removes the forms of closed connections.
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
            kept: rendered.kept,
            binds: rendered.binds,
            rows: Sql::new(rendered.sql),
            counting: rendered.counting.map(Sql::new),
            kinds,
        }
    }

    pub(super) fn can_count(&self) -> bool {
        self.counting.is_some()
    }

    /// The prepared form for a connection; prepares it if needed.
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
