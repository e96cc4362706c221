/// The state of a review.
#[derive(Clone, Copy, FieldEnum)]
pub enum Status {
    Draft,
    InReview,
    #[field(rename = "live")]
    Published,
}
