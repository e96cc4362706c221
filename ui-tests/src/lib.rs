//! Compile-fail and compile-pass cases of the macros.
