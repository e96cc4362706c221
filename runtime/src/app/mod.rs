//! Config, plugins, start-up and serving.
