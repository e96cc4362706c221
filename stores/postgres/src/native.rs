//! A rendered statement: its SQL texts, and its prepared forms for each connection.

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
use linchpin_sql::names::{Naming, Prepared};
use linchpin_sql::replaced::ReplacedField;
use linchpin_sql::short_reads::ShortReads;

/// The maximum number of cached texts for sets of null arguments, and of prepared forms of a text.
/// There are few of both in practice.
const MAX_CACHED: usize = 64;

/// The native form of a statement.
pub(super) struct Native {
    /// The text for calls in which no decisive argument is null. A decisive argument is one that
    /// changes the text if it is null.
    plain: Arc<Text>,
    decisive: Vec<usize>,
    /// The texts for calls with other null arguments, each with the slots that are null.
    others: Mutex<Vec<(Vec<usize>, Arc<Text>)>>,
    /// Combines concurrent calls in which no decisive argument is null, if the plan allows it.
    pub(super) gather: Option<Gather>,
    /// The number of rows that a read examines.
    pub(super) span: Span,
    pub(super) short_reads: ShortReads,
    /// The names with which the statement is rendered.
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

    /// The native form of a statement that this store has prepared, with the current names.
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
        if let Some((_, text)) = others.iter().find(|(slots, _)| *slots == nulls) {
            return Ok(Arc::clone(text));
        }
        let text = Arc::new(Text::new(render::render(
            statement.entity,
            &statement.plan,
            &self.naming,
            &nulls,
        )?));
        if others.len() == MAX_CACHED {
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
    /// The fields that also have an earlier column.
    pub(super) replaced: Box<[ReplacedField]>,
    pub(super) binds: Vec<Bind>,
    rows: Sql,
    /// The same write without `RETURNING`, for calls that only count.
    counting: Option<Sql>,
    kinds: Vec<Type>,
}

/// An SQL text and its prepared form for each connection.
pub(super) struct Sql {
    text: String,
    /// The prepared forms, each with the id of its connection.
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
        // If the list is full, the oldest form is removed, so that forms of closed connections do
        // not accumulate.
        if prepared.len() == MAX_CACHED {
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
            replaced: rendered.replaced,
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
