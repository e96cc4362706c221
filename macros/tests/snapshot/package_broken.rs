/// Two mistakes, two errors, and still a package.
pub static BLOG: Package = package!(
    nmae = "blog",
    entities = [entity(Post, [PUBLISH, PUBLISH])],
);
