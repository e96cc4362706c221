//! Changes of rows.

use linchpin_core::Value;
use linchpin_core::schema::{Column, Dialect, RowStatement};

/// A change of the rows of a table. It runs in batches, in the order of the primary key.
#[derive(Clone, Debug, PartialEq)]
pub enum DataAction {
    /// Writes a value to a column in the rows where it is null.
    Fill {
        /// The table.
        table: String,
        /// The column of the primary key.
        key: Column,
        /// The column to fill.
        column: Column,
        /// The value.
        value: FillValue,
    },
    /// Computes a new column from an old one, with a function of the app.
    Transform {
        /// The table.
        table: String,
        /// The column of the primary key.
        key: Column,
        /// The old column.
        from: Column,
        /// The new column.
        next: Column,
        /// The column with a copy of the old value that `next` was computed from.
        source: Column,
        /// The name of the function.
        transform: String,
        /// Whether null in `next` means that the row is not up to date.
        required: bool,
        /// The value of `next` for an old value that is null. `None` if `next` stays null, or if
        /// the function takes null.
        null: Option<FillValue>,
    },
    /// Computes a new column from the whole record, with a function of the app.
    FillTransform {
        /// The table.
        table: String,
        /// The column of the primary key.
        key: Column,
        /// The column to fill.
        column: Column,
        /// The name of the function.
        transform: String,
        /// The fields of the record with their columns.
        fields: Vec<(String, Column)>,
    },
    /// Recomputes a computed field, and writes the rows in which the value differs.
    Recompute {
        /// The table.
        table: String,
        /// The column of the primary key.
        key: Column,
        /// The storage name of the entity.
        entity: String,
        /// The field.
        field: String,
        /// The column.
        column: Column,
        /// The fields of the entity that have a column now, with their columns.
        fields: Vec<(String, Column)>,
    },
    /// Recounts the records of another entity, and writes the rows in which the number differs.
    Recount {
        /// The table whose rows hold the counter.
        table: String,
        /// The column of the primary key.
        key: Column,
        /// The column of the counter.
        column: Column,
        /// The storage name of the entity that has the counter.
        entity: String,
        /// The field of the counter.
        field: String,
        /// The column of the tenant, if the entity has tenants.
        tenant: Option<Column>,
        /// The counted records.
        counted: Box<Counted>,
    },
}

/// Records that a counter counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// The storage name of their entity.
    pub entity: String,
    /// Their table.
    pub table: String,
    /// The column of their primary key.
    pub key: Column,
    /// The fields of the entity that have a column now, with their columns.
    pub fields: Vec<(String, Column)>,
}

/// The value of a fill.
#[derive(Clone, Debug, PartialEq)]
pub enum FillValue {
    /// The same value for each row.
    Literal(Value),
    /// A new UUID v7 for each row.
    Uuid,
    /// A new CUID2 for each row.
    Cuid,
    /// The time of the run.
    Now,
    /// The time of the run plus this number of milliseconds.
    After(u64),
}

impl DataAction {
    /// Whether the plan shows each value that the change writes, because it calls no function.
    pub fn is_known(&self) -> bool {
        matches!(self, Self::Fill { .. })
    }

    /// The table.
    pub fn table(&self) -> &str {
        match self {
            Self::Fill { table, .. }
            | Self::Transform { table, .. }
            | Self::FillTransform { table, .. }
            | Self::Recompute { table, .. }
            | Self::Recount { table, .. } => table,
        }
    }

    /// The column that it writes.
    pub fn column(&self) -> &Column {
        match self {
            Self::Fill { column, .. }
            | Self::FillTransform { column, .. }
            | Self::Recompute { column, .. }
            | Self::Recount { column, .. }
            | Self::Transform { next: column, .. } => column,
        }
    }

    /// The column of the primary key.
    pub fn key(&self) -> &Column {
        match self {
            Self::Fill { key, .. }
            | Self::Transform { key, .. }
            | Self::FillTransform { key, .. }
            | Self::Recompute { key, .. }
            | Self::Recount { key, .. } => key,
        }
    }

    /// The name of the function of the app, if it runs one.
    pub fn transform(&self) -> Option<&str> {
        match self {
            Self::Transform { transform, .. } | Self::FillTransform { transform, .. } => {
                Some(transform)
            }
            _ => None,
        }
    }

    /// The kind of the step in plans.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Fill { .. } => "fill",
            Self::Transform { .. } | Self::FillTransform { .. } => "transform",
            Self::Recompute { .. } => "recompute",
            Self::Recount { .. } => "recount",
        }
    }

    /// Returns the SQL condition of rows that are not up to date; `None` if SQL cannot express it.
    pub fn stale(&self, dialect: &dyn Dialect) -> Option<String> {
        let quote = |column: &Column| dialect.quote(&column.name);
        match self {
            Self::Fill { column, .. } | Self::FillTransform { column, .. } => {
                Some(format!("{} IS NULL", quote(column)))
            }
            Self::Transform {
                from,
                next,
                source,
                required,
                ..
            } => {
                let [from, next, source] = [from, next, source].map(quote);
                Some(stale([&from, &next, &source], *required))
            }
            Self::Recompute { .. } | Self::Recount { .. } => None,
        }
    }

    /// Whether an SQL condition can find the rows that are not up to date.
    pub(crate) fn has_condition(&self) -> bool {
        !matches!(self, Self::Recompute { .. } | Self::Recount { .. })
    }

    /// The columns that must be unchanged when a row is written, because its value was computed
    /// from them. A fill, a recount and a transform of whole records have none.
    pub fn inputs(&self) -> Vec<&Column> {
        match self {
            Self::Transform { from, .. } => vec![from],
            Self::Recompute { fields, .. } => fields.iter().map(|(_, column)| column).collect(),
            Self::Fill { .. } | Self::FillTransform { .. } | Self::Recount { .. } => Vec::new(),
        }
    }

    /// Returns the statement that writes a row, for plans. Its parameters are the key, the new
    /// value, and the values that the new value was computed from.
    pub fn statements(&self, dialect: &dyn Dialect) -> Vec<String> {
        let table = dialect.quote(self.table());
        let condition = |n: usize| format!("${n}");
        let (set, conditions) = self.assignment(dialect, "$2", condition);
        let key = dialect.quote(&self.key().name);
        vec![format!(
            "UPDATE {table} SET {set} WHERE {table}.{key} = $1{conditions}"
        )]
    }

    /// Returns the statement that writes rows. The values of a row are those of
    /// [`statements`](Self::statements), in the same order.
    pub(crate) fn row_statement(&self, dialect: &dyn Dialect) -> RowStatement {
        let (set, conditions) = self.assignment(dialect, "given.p2", |n| format!("given.p{n}"));
        let (table, key) = (dialect.quote(self.table()), dialect.quote(&self.key().name));
        let columns = [self.key(), self.column()].into_iter().chain(self.inputs());
        RowStatement {
            one: self.statements(dialect).concat(),
            many: format!(
                "UPDATE {table} SET {set} FROM given WHERE {table}.{key} = given.p1{conditions}"
            ),
            kinds: columns.map(|column| column.kind.clone()).collect(),
        }
    }

    /// The assignments of a row, and the conditions in addition to its key.
    fn assignment(
        &self,
        dialect: &dyn Dialect,
        value: &str,
        parameter: impl Fn(usize) -> String,
    ) -> (String, String) {
        let table = dialect.quote(self.table());
        let quote = |column: &Column| dialect.quote(&column.name);
        let mut set = format!("{} = {value}", quote(self.column()));
        let mut conditions = String::new();
        if let Self::Transform {
            from,
            next,
            source,
            required,
            ..
        } = self
        {
            let copy = source;
            let [from, next, source] =
                [from, next, source].map(|column| format!("{table}.{}", quote(column)));
            set.push_str(&format!(", {} = {from}", quote(copy)));
            // After this row was read, the new binary may have written its new value without a
            // change of the old value. Then the row is no longer stale, and the statement must not
            // overwrite it.
            let stale = stale([&from, &next, &source], *required);
            conditions.push_str(&format!(" AND {stale}"));
        }
        if let Self::Fill { column, .. } | Self::FillTransform { column, .. } = self {
            conditions.push_str(&format!(" AND {table}.{} IS NULL", quote(column)));
        }
        for (at, input) in self.inputs().into_iter().enumerate() {
            conditions.push_str(&format!(
                " AND {table}.{} IS NOT DISTINCT FROM {}",
                quote(input),
                parameter(at + 3)
            ));
        }
        (set, conditions)
    }
}

/// The condition of a row whose new value was not computed from its old one.
fn stale([from, next, source]: [&str; 3], required: bool) -> String {
    let differs = format!("{source} IS DISTINCT FROM {from}");
    if required {
        format!("({differs} OR {next} IS NULL)")
    } else {
        differs
    }
}
