//! The procedural macros of Linchpin.
