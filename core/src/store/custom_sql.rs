//! SQL text of a developer within a generated statement: a condition and an order.

use crate::entity::Kind;

/// A condition and an order as SQL text.
#[derive(Clone, Debug)]
pub struct CustomSql {
    /// The condition on a record. Its parameters are `$1`, `$2` and so on.
    pub condition: &'static str,
    /// The order, such as `quantity DESC, title`. If it is empty, only the order of the plan
    /// applies.
    pub order: &'static str,
    /// The types of the parameters. The parameters are the first arguments.
    pub kinds: Vec<Kind>,
}

impl PartialEq for CustomSql {
    fn eq(&self, other: &Self) -> bool {
        let kinds = |sql: &Self| {
            sql.kinds
                .iter()
                .map(std::mem::discriminant)
                .collect::<Vec<_>>()
        };
        (self.condition, self.order) == (other.condition, other.order)
            && kinds(self) == kinds(other)
    }
}
