/// A package with two mistakes expands to two errors and an empty package.
pub static BLOG: Package = package!(
    nmae = "blog",
    entities = [entity(Post, [PUBLISH, PUBLISH])],
);
