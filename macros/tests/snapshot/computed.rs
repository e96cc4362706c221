/// The slug in lower case.
#[computed(crate = crate::framework)]
#[cfg(unix)]
pub fn slug_key(topic: &super::Topic) -> String {
    topic.slug.to_lowercase()
}
