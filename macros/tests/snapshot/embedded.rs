/// A saved version.
#[derive(Clone, Embedded)]
pub struct Revision {
    #[field(primary, default = uuid)]
    pub id: String,
    /// What changed.
    #[field(length = 1..=200, default = "none")]
    pub note: String,
    pub made_at: Option<Timestamp>,
}
