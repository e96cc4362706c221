/// A saved version.
#[derive(Clone, Embedded)]
pub struct Revision {
    #[field(primary, default = uuid)]
    pub id: String,
    /// A note about the change.
    #[field(length = 1..=200, default = "none")]
    pub note: String,
    pub made_at: Option<Timestamp>,
}
