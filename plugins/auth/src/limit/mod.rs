//! Rate limits and lockout: counters that are taken before an attempt and given back by its success.
