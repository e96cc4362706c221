//! Mail: who sends it, what it says, and the outbox that does not lose it.
