/// Where a review stands.
#[derive(Clone, Copy, FieldEnum)]
pub enum Status {
    Draft,
    InReview,
    #[field(rename = "live")]
    Published,
}
