//! Declarations that do not compile, with the compiler's messages.
//!
//! `fail/SUBJECT/OPTION/mistake.rs` contains one mistake in an option of an entity, an operation or
//! a package. The test `pass` contains the nearest declarations that compile.
//! `TRYBUILD=overwrite cargo test -p ui-tests` rewrites the expected messages.
//!
//! Each file declares its own entity, although many declare the same one: a reader sees the case
//! beside its message, and rustc points into included files.
//!
//! No case runs: one `cargo check` compiles all of them in parallel. Together with a case that
//! runs, each would be built by itself.

#[test]
fn ui_fail() {
    trybuild::TestCases::new().compile_fail("tests/fail/**/*.rs");
}
