//! Compiles the cases in `fail/`, and compares the compiler's messages with the stored ones.
//!
//! `fail/SUBJECT/OPTION/mistake.rs` contains one mistake in an option of an entity, an operation or
//! a package. The test `pass` contains similar declarations that compile.
//! `TRYBUILD=overwrite cargo test -p ui-tests` rewrites the expected messages.
//!
//! Each file declares its own entity, even if other files declare the same one. So a reader sees
//! the whole case, and no message of rustc points into an included file.
//!
//! No case runs, so one `cargo check` compiles all of them in parallel. If a case were run,
//! trybuild would build each one separately.

#[test]
fn ui_fail() {
    trybuild::TestCases::new().compile_fail("tests/fail/**/*.rs");
}
