/// An entity with computed fields.
#[entity(unique(slug_key), index(desc(rank)))]
pub struct Topic {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(computed(keys::slug, from(slug)), private)]
    pub slug_key: String,
    #[field(computed = rank)]
    pub rank: Option<f64>,
}
