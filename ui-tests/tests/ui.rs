//! What compiles and what does not, with the words the compiler uses.
//!
//! `fail/SUBJECT/NN_name.rs` holds one mistake against rule NN of the contract's list of compile-time checks; `pass/` holds
//! the nearly-wrong neighbours. `TRYBUILD=overwrite cargo test -p ui-tests` rewrites the expected messages.

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/pass/**/*.rs");
    cases.compile_fail("tests/fail/**/*.rs");
}
