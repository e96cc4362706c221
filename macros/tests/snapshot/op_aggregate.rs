/// Notes per month.
#[operation(kind = "aggregate", group_by = month(created_at), compute(notes = count(), views = sum(views)))]
pub const BY_MONTH: Operation<Note>;
