//! Words of a developer's own within a statement of ours: a condition, an order.

use crate::entity::Kind;

/// A condition, and an order of what it finds, in the database's words.
#[derive(Clone, Debug)]
pub struct Words {
    /// What holds of a record; its parameters are `$1`, `$2` and so on.
    pub condition: &'static str,
    /// `quantity DESC, title`; empty: the order of the plan alone.
    pub order: &'static str,
    /// What the parameters hold. They are the first arguments.
    pub kinds: Vec<Kind>,
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        let kinds = |words: &Self| words.kinds.iter().map(std::mem::discriminant).collect::<Vec<_>>();
        (self.condition, self.order) == (other.condition, other.order) && kinds(self) == kinds(other)
    }
}
